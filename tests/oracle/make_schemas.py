"""Writes tests/fixtures/schemas.json: JSON schemas of the kinds that people use.

    python tests/oracle/make_schemas.py

Written by hand, and combined from parts: objects, arrays, enums, patterns, formats, references, alternatives, numbers, what
Pydantic, Zod and OpenAPI write, and the subjects of tool calls. `refused` says what Ember has not: these are refused by name.
"""

import itertools
import json
import pathlib

OUT = pathlib.Path(__file__).parent.parent / "fixtures/schemas.json"


def obj(properties, required=None, **more):
    schema = {"type": "object", "properties": properties, "additionalProperties": False, **more}
    schema["required"] = list(properties) if required is None else required
    return schema


S, I, N, B, NULL = ({"type": t} for t in ["string", "integer", "number", "boolean", "null"])


def short(n=12):
    return {"type": "string", "maxLength": n}


def arr(items, most=3, **more):
    return {"type": "array", "items": items, "maxItems": most, **more}


schemas = {}


def add(name, schema):
    assert name not in schemas, name
    schemas[name] = schema


# Values.
add("string", S)
add("integer", I)
add("number", N)
add("boolean", B)
add("null", NULL)
add("any-object", {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 3})
add("true", {"anyOf": [I, B, NULL]})
for name, low, high in [("age", 0, 150), ("percent", 0, 100), ("negative", -50, -1), ("year", 1900, 2100), ("port", 1, 65535), ("large", 10**6, 10**12)]:
    add(f"integer-{name}", {"type": "integer", "minimum": low, "maximum": high})
    add(f"number-{name}", {"type": "number", "minimum": low, "maximum": high})
    add(f"integer-exclusive-{name}", {"type": "integer", "exclusiveMinimum": low, "exclusiveMaximum": high + 2})
add("multiple-of-5", {"type": "integer", "multipleOf": 5, "minimum": 0, "maximum": 1000})
add("multiple-of-cents", {"type": "number", "multipleOf": 0.01, "minimum": 0, "maximum": 100})
add("latitude", {"type": "number", "minimum": -90, "maximum": 90})
add("string-lengths", {"type": "string", "minLength": 3, "maxLength": 8})
add("string-exact-length", {"type": "string", "minLength": 5, "maxLength": 5})
add("nullable", {"type": ["string", "null"], "maxLength": 6})
add("type-list", {"type": ["integer", "boolean"]})
add("const-string", {"const": "fixed"})
add("const-object", {"const": {"a": [1, 2, {"b": None}]}})
add("const-escapes", {"const": "a \"quoted\" back\\slash\nline é 日本 😀"})
add("enum-strings", {"enum": ["red", "green", "blue"]})
add("enum-mixed", {"enum": ["auto", 1, 2.5, None, True, [], {"k": "v"}]})
add("enum-long", {"enum": [f"option_{i}" for i in range(200)]})
add("enum-typed", {"type": "string", "enum": ["north", "south", "east", "west"]})
add("enum-prefixes", {"enum": ["a", "ab", "abc", "abcd"]})
add("enum-unicode", {"enum": ["é", "ü", "日本", "😀"]})

# Patterns and formats.
for name, pattern in {
    "zip": r"^[0-9]{5}(-[0-9]{4})?$", "phone": r"^\+?[1-9]\d{6,14}$", "slug": r"^[a-z0-9]+(-[a-z0-9]+)*$",
    "hex-colour": r"^#[0-9a-fA-F]{6}$", "semver": r"^\d+\.\d+\.\d+$", "iban": r"^[A-Z]{2}\d{2}[A-Z0-9]{11,30}$",
    "currency": "^[A-Z]{3}$", "time": r"^([01]\d|2[0-3]):[0-5]\d$", "words": r"^\w+( \w+){0,4}$", "id": "^(usr|org)_[a-z0-9]{8}$",
    "not-anchored": "[0-9]{2}", "path": r"^(/[a-z0-9._-]+)+$", "quoted": r'^"[a-z]*"$', "no-control": r"^[^\x00-\x1f]{1,8}$",
    "unicode": "^[äöüß]{1,4}$", "dotted": r"^\w{1,5}\.\w{1,5}$",
}.items():
    add(f"pattern-{name}", {"type": "string", "pattern": pattern, "maxLength": 40})
    add(f"pattern-{name}-in-array", arr({"type": "string", "pattern": pattern, "maxLength": 20}, 2, minItems=1))
for fmt in ["date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"]:
    add(f"format-{fmt}", {"type": "string", "format": fmt})
    add(f"format-{fmt}-or-null", {"anyOf": [{"type": "string", "format": fmt}, NULL]})
    add(f"format-{fmt}-in-object", obj({"value": {"type": "string", "format": fmt}}))

# Arrays.
add("array-of-integers", arr(I))
add("array-not-empty", arr(B, 4, minItems=1))
add("array-exact", arr({"enum": [0, 1]}, 5, minItems=5))
add("array-of-arrays", arr(arr(I, 2), 3))
add("matrix", arr(arr(N, 3, minItems=3), 3, minItems=3))
add("array-of-objects", arr(obj({"id": I, "ok": B}), 2))
add("tuple-2020", {"type": "array", "prefixItems": [short(5), I, B], "items": False, "minItems": 3})
add("tuple-open", {"type": "array", "prefixItems": [I, B], "items": {"enum": ["x"]}, "maxItems": 4})
add("tuple-draft-7", {"$schema": "http://json-schema.org/draft-07/schema#", "type": "array", "items": [I, B], "additionalItems": False, "minItems": 2})
add("array-empty", {"type": "array", "maxItems": 0})

# Objects.
add("person", obj({"name": short(), "age": {"type": "integer", "minimum": 0, "maximum": 130}, "email": {"type": "string", "format": "email"}}))
add("optional-members", obj({"a": I, "b": B, "c": NULL}, required=[]))
add("optional-mixed", obj({"a": I, "b": B, "c": NULL, "d": I}, required=["b", "d"]))
add("required-order", {"type": "object", "required": ["z", "a"], "properties": {"a": I, "z": I}, "additionalProperties": False})
add("required-not-described", {"type": "object", "required": ["x"], "properties": {"y": B}, "additionalProperties": I})
add("additional-typed", {"type": "object", "properties": {"id": I}, "required": ["id"], "additionalProperties": {"enum": ["yes", "no"]}, "maxProperties": 3})
add("map-of-numbers", {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1, "maxProperties": 3})
add("pattern-properties", {"type": "object", "patternProperties": {"^x_[a-z]{1,5}$": I}, "additionalProperties": False, "maxProperties": 3})
add("pattern-and-names", {"type": "object", "properties": {"id": I}, "patternProperties": {"^s_[a-z]{1,3}$": B}, "additionalProperties": False, "required": ["id"], "maxProperties": 4})
add("empty-object", {"type": "object", "additionalProperties": False})
add("names-with-quotes", obj({'a "b"': I, "c\\d": B, "é ü": NULL, "": I, "a/b~c": B}))
add("nested-5", obj({"a": obj({"b": obj({"c": obj({"d": obj({"e": I})})})})}))
add("wide", obj({f"field_{i}": [I, B, {"enum": ["x", "y"]}][i % 3] for i in range(30)}))
add("wide-optional", obj({f"f{i}": B for i in range(12)}, required=[]))

# Alternatives.
add("any-of-types", {"anyOf": [I, short(6), NULL]})
add("any-of-objects", {"anyOf": [obj({"cat": B}), obj({"dog": I})]})
add("any-of-overlapping", {"anyOf": [{"type": "integer", "minimum": 5, "maximum": 20}, {"type": "integer", "minimum": 10, "maximum": 100}]})
add("one-of-disjoint", {"oneOf": [I, short(4), B]})
add("one-of-constants", {"oneOf": [obj({"kind": {"const": "circle"}, "r": I}), obj({"kind": {"const": "square"}, "a": I})]})
add("one-of-titles", {"oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]})
add("one-of-references", {"oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}], "discriminator": {"propertyName": "kind"},
    "$defs": {"Cat": obj({"kind": {"const": "cat"}, "lives": I}), "Dog": obj({"kind": {"const": "dog"}, "good": B})}})
add("all-of", {"allOf": [{"type": "object", "properties": {"a": I}, "required": ["a"]}, {"type": "object", "properties": {"b": B}, "required": ["b"]}],
    "additionalProperties": False, "properties": {"a": True, "b": True}})
add("all-of-bounds", {"allOf": [{"type": "integer"}, {"minimum": 3}, {"maximum": 30}]})
add("all-of-reference", {"allOf": [{"$ref": "#/definitions/base"}, {"maximum": 9}], "definitions": {"base": {"type": "integer", "minimum": 0}}})
add("nullable-any-of", obj({"note": {"anyOf": [short(5), NULL], "default": None}}))

# References.
add("ref-defs", {"$ref": "#/$defs/point", "$defs": {"point": obj({"x": I, "y": I})}})
add("ref-definitions", {"definitions": {"c": {"enum": ["r", "g"]}}, **obj({"one": {"$ref": "#/definitions/c"}, "two": {"$ref": "#/definitions/c"}})})
add("ref-escaped", {"$defs": {"a/b": I, "c~d": B, "e f": NULL}, **obj({"x": {"$ref": "#/$defs/a~1b"}, "y": {"$ref": "#/$defs/c~0d"}, "z": {"$ref": "#/$defs/e%20f"}})})
add("ref-anchor", {"$defs": {"n": {"$anchor": "num", "type": "integer"}}, **obj({"x": {"$ref": "#num"}})})
add("ref-id", {"$id": "https://example.com/root.json", "$defs": {"n": {"$id": "n.json", "type": "boolean"}}, **obj({"x": {"$ref": "n.json"}})})
add("ref-siblings", {"$defs": {"n": I}, **obj({"x": {"$ref": "#/$defs/n", "maximum": 5, "minimum": 1}})})
add("list-linked", {"$ref": "#/$defs/n", "$defs": {"n": obj({"v": I, "next": {"anyOf": [NULL, {"$ref": "#/$defs/n"}]}})}})
add("tree", {"$ref": "#/$defs/t", "$defs": {"t": obj({"v": B, "kids": arr({"$ref": "#/$defs/t"}, 2)})}})
add("recursive-root", obj({"v": I, "sub": {"anyOf": [NULL, {"$ref": "#"}]}}))
add("mutual", {"$ref": "#/$defs/a", "$defs": {"a": obj({"b": {"anyOf": [NULL, {"$ref": "#/$defs/b"}]}}), "b": obj({"a": {"anyOf": [NULL, {"$ref": "#/$defs/a"}]}})}})

# What libraries write.
add("pydantic", {"title": "Order", "type": "object", "$defs": {"Item": {"title": "Item", "type": "object", "properties": {
    "sku": {"title": "Sku", "type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"}, "quantity": {"title": "Quantity", "type": "integer", "exclusiveMinimum": 0, "maximum": 99}},
    "required": ["sku", "quantity"]}}, "properties": {"id": {"title": "Id", "type": "string", "format": "uuid"},
    "items": {"title": "Items", "type": "array", "items": {"$ref": "#/$defs/Item"}, "maxItems": 2, "minItems": 1}}, "required": ["id", "items"], "additionalProperties": False})
schemas["pydantic"]["$defs"]["Item"]["additionalProperties"] = False
add("zod", {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"username": {"type": "string", "minLength": 3, "maxLength": 10},
    "role": {"type": "string", "enum": ["admin", "user"]}, "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2}}, "required": ["username", "role", "tags"], "additionalProperties": False})
add("openai-strict", {"type": "object", "properties": {"steps": {"type": "array", "maxItems": 2, "items": {"type": "object", "properties": {"explanation": short(8), "output": short(8)},
    "required": ["explanation", "output"], "additionalProperties": False}}, "final_answer": short(8)}, "required": ["steps", "final_answer"], "additionalProperties": False})
add("geojson-point", obj({"type": {"const": "Point"}, "coordinates": {"type": "array", "prefixItems": [{"type": "number", "minimum": -180, "maximum": 180}, {"type": "number", "minimum": -90, "maximum": 90}], "items": False, "minItems": 2}}))
add("json-patch", arr({"anyOf": [obj({"op": {"enum": ["add", "replace"]}, "path": {"type": "string", "pattern": "^(/[a-z]{1,4})*$"}, "value": I}),
                                  obj({"op": {"const": "remove"}, "path": {"type": "string", "pattern": "^(/[a-z]{1,4})*$"}})]}, 2))

# Tool calls.
tools = {
    "get_weather": obj({"city": short(10), "unit": {"enum": ["celsius", "fahrenheit"]}}),
    "search": obj({"query": short(16), "limit": {"type": "integer", "minimum": 1, "maximum": 50}}, required=["query"]),
    "send_email": obj({"to": {"type": "string", "format": "email"}, "subject": short(10), "urgent": B}),
    "calculate": obj({"operation": {"enum": ["add", "subtract", "multiply"]}, "a": {"type": "integer", "minimum": -99, "maximum": 99}, "b": {"type": "integer", "minimum": -99, "maximum": 99}}),
    "book_flight": obj({"from": {"type": "string", "pattern": "^[A-Z]{3}$"}, "to": {"type": "string", "pattern": "^[A-Z]{3}$"}, "date": {"type": "string", "format": "date"}}),
    "sql": obj({"table": {"enum": ["users", "orders"]}, "columns": arr({"enum": ["id", "name", "total"]}, 3, minItems=1)}),
    "get_time": obj({}),
    "set_light": obj({"room": {"enum": ["kitchen", "hall"]}, "level": {"type": "integer", "minimum": 0, "maximum": 100}}),
}
for name, parameters in tools.items():
    add(f"tool-{name}", obj({"name": {"const": name}, "arguments": parameters}))
for (a, x), (b, y) in itertools.combinations(list(tools.items())[:6], 2):
    add(f"tools-{a}-{b}", {"anyOf": [obj({"name": {"const": a}, "arguments": x}), obj({"name": {"const": b}, "arguments": y})]})
add("tools-many", arr({"anyOf": [obj({"name": {"const": n}, "arguments": p}) for n, p in tools.items()]}, 2, minItems=1))

# Parts put together.
parts = {"int": {"type": "integer", "minimum": 0, "maximum": 999}, "text": short(6), "flag": B, "enum": {"enum": ["a", "b", "c"]}, "maybe": {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 9}, NULL]}}
for a, b in itertools.product(parts, parts):
    add(f"object-{a}-{b}", obj({"first": parts[a], "second": arr(parts[b], 2)}, required=["first"] if a == b else ["first", "second"]))

refused = {
    "uniqueItems": arr(I, 3, uniqueItems=True), "contains": {"type": "array", "contains": I}, "not": {"not": S},
    "if": {"if": I, "then": {"minimum": 3}}, "dependentRequired": {"type": "object", "dependentRequired": {"a": ["b"]}},
    "propertyNames": {"type": "object", "propertyNames": {"maxLength": 3}}, "unevaluatedProperties": {"type": "object", "unevaluatedProperties": False},
    "maxProperties": {"type": "object", "properties": {"y": B}, "maxProperties": 3},
    "oneOf": {"oneOf": [S, short(3)]}, "made-up": {"type": "string", "format": "made-up"}, "dependentSchemas": {"dependentSchemas": {"a": {"required": ["b"]}}},
}

OUT.write_text(
    "{\n\"schemas\": {\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in schemas.items())
    + "\n},\n\"refused\": {\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in refused.items()) + "\n}\n}\n"
)
print(len(schemas), "schemas,", len(refused), "refused")
