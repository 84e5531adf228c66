"""What the C header promises to programs that are compiled already, as facts that can be compared.

    abi.py facts HEADER            the facts, a line each, as the compiler (CC) sees them on this machine
    abi.py compare OLD NEW         what changed between two files of facts; exit code 0: nothing, 1: only additions,
                                   2: something that breaks programs
    abi.py stub HEADER             C source of a library that has the header's functions and does nothing
    abi.py table HEADER            C source of a table of the functions, to be called by number with any arguments (misuse.h)
    abi.py variants HEADER FOLDER  changed copies of the header, FOLDER/NAME/ember.h, and a line for each: its name, what
                                   compare must say of it, and whether abidiff can see it: enumerators, macros and names
                                   of fields are in no compiled library, though programs rely on them
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

SAME, ADDITION, BREAK = "same", "addition", "break"
EXIT = {SAME: 0, ADDITION: 1, BREAK: 2}


class Header:
    """The declarations of a header that cbindgen wrote."""

    def __init__(self, path: str):
        text = pathlib.Path(path).read_text(encoding="utf-8")
        # The version changes with every release, and nothing is laid out by it.
        self.defines = re.findall(r"^#define (EMBER_(?!VERSION_)\w+) \S", text, re.MULTILINE)
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
        self.enums = {
            name: re.findall(r"(\w+) = -?\d+", body)
            for name, body in re.findall(r"^enum (ember_\w+)[^{;]*\{(.*?)\};", text, re.MULTILINE | re.DOTALL)
        }
        self.opaque = re.findall(r"^typedef struct (ember_\w+) \1;", text, re.MULTILINE)
        self.structs = {
            name: [declarator(field) for field in body.split(";") if field.strip()]
            for name, body in re.findall(r"^typedef struct (ember_\w+) \{(.*?)\}", text, re.MULTILINE | re.DOTALL)
        }
        self.callbacks = {
            name: (plain(result), parameters(body))
            for result, name, body in re.findall(r"^typedef (\w[\w *]*?) ?\(\*(ember_\w+)\)\(([^)]*)\);", text, re.MULTILINE)
        }
        self.functions = {
            name: (plain(result), parameters(body))
            for result, name, body in re.findall(r"^([a-z][\w ]*[ *])(ember_\w+)\(([^)]*)\);", text, re.MULTILINE)
        }
        if not self.functions:
            sys.exit(f"{path} declares no function")


def plain(kind: str) -> str:
    """A type without the word struct and with its spaces in order."""
    return re.sub(r" ?\* ?", " *", " ".join(re.sub(r"\bstruct\b", "", kind).split())).replace("* *", "**").strip()


def declarator(text: str) -> tuple[str, str]:
    """The type and the name of `const char *text`."""
    kind, name = re.fullmatch(r"(.*?)(\w+)", " ".join(text.split())).groups()
    return plain(kind), name


def parameters(body: str) -> list[tuple[str, str]]:
    return [] if body.strip() in ("", "void") else [declarator(one) for one in body.split(",")]


def signature(result: str, arguments: list[tuple[str, str]]) -> str:
    return f"{result} ({', '.join(kind for kind, _ in arguments) or 'void'})"


def facts(path: str) -> list[str]:
    header = Header(path)
    program = ["#include <stdio.h>", f'#include "{os.path.abspath(path)}"', "int main(void) {"]
    for name in header.defines:
        program.append(f'printf("define {name} %llu\\n", (unsigned long long)({name}));')
    for enum, members in header.enums.items():
        program += [f'printf("enum {enum} {member} %lld\\n", (long long)({member}));' for member in members]
    for name, fields in header.structs.items():
        growth = "grows" if fields[0] == ("size_t", "struct_size") else "fixed"
        program.append(f'printf("struct {name} {growth} %zu\\n", sizeof({name}));')
        for kind, field in fields:
            at = f"offsetof({name}, {field}), sizeof((({name} *)0)->{field})"
            program.append(f'printf("field {name} {field} %zu %zu {kind}\\n", {at});')
    program.append("return 0; }")
    lines = [f"opaque {name}" for name in header.opaque]
    for what, declarations in (("callback", header.callbacks), ("function", header.functions)):
        lines += [f"{what} {name} {signature(*rest)}" for name, rest in declarations.items()]
    with tempfile.TemporaryDirectory() as folder:
        compiler = [*os.environ.get("CC", "cc").split(), "-std=c99", "-x", "c", "-", "-o", f"{folder}/facts"]
        subprocess.run(compiler, input="\n".join(program), text=True, check=True)
        lines += subprocess.run([f"{folder}/facts"], capture_output=True, text=True, check=True).stdout.splitlines()
    return sorted(lines)


# How many words of a line name what it is about; the rest is what it says of that.
NAMED_BY = {"define": 2, "enum": 3, "opaque": 2, "struct": 2, "field": 3, "callback": 2, "function": 2}


def read_facts(path: str) -> dict[str, str]:
    found = {}
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        words = line.split(" ")
        n = NAMED_BY[words[0]]
        found[" ".join(words[:n])] = " ".join(words[n:])
    return found


def breaks(key: str, was: str, now: str) -> bool:
    """Whether programs that know `key` as `was` are broken by `now`."""
    if key.startswith("struct ") and was.startswith("grows ") and now.startswith("grows "):
        return int(now.split()[1]) < int(was.split()[1])
    return was != now


def compare(old: dict[str, str], new: dict[str, str]) -> tuple[str, list[str]]:
    verdict, changes = SAME, []
    for key, was in old.items():
        if key not in new:
            verdict = BREAK
            changes.append(f"removed: {key} {was}")
        elif breaks(key, was, new[key]):
            verdict = BREAK
            changes.append(f"changed: {key}: {was} became {new[key]}")
    for key, now in new.items():
        if key in old:
            continue
        words = key.split(" ")
        holder = " ".join(("struct", words[1])) if words[0] == "field" else ""
        if holder in old and int(now.split()[0]) < int(old[holder].split()[1]):
            verdict = BREAK
            changes.append(f"inserted, where programs know something else: {key} {now}")
        elif words[0] == "enum" and now in {v for k, v in old.items() if k.startswith(f"enum {words[1]} ")}:
            verdict = BREAK
            changes.append(f"a number used twice: {key} {now}")
        else:
            verdict = ADDITION if verdict == SAME else verdict
            changes.append(f"added: {key} {now}")
    return verdict, changes


def stub(path: str) -> str:
    out = ['#include "ember.h"']
    for name, (result, arguments) in Header(path).functions.items():
        end = "" if result == "void" else "return 0;"
        out.append(f"{result} {name}({', '.join(f'{kind} {arg}' for kind, arg in arguments) or 'void'}) {{ {end} }}")
    return "\n".join(out) + "\n"


# How an argument or a result comes out of a `union value` and goes into it, by its type; pointers are left.
MEMBERS = {"bool": "whole", "float": "real", "double": "real", "int32_t": "number", "int64_t": "number"}
MEMBERS |= {"uint32_t": "whole", "uint64_t": "whole", "size_t": "whole"}


def table(path: str) -> str:
    header = Header(path)
    out, rows = ["/* Generated by abi.py table; do not edit. */"], []
    for name, (result, arguments) in header.functions.items():
        given = []
        for i, (kind, _) in enumerate(arguments):
            if kind in header.callbacks:
                given.append(f"({kind})a[{i}].function")
            elif kind.endswith("*"):
                given.append(f"a[{i}].pointer")
            else:
                given.append(f"({kind})a[{i}].{MEMBERS[kind]}")
        call = f"{name}({', '.join(given)})"
        if result == "ember_status":
            body = f"(void)r; return {call};"
        elif result == "void":
            body = f"(void)r; {call}; return EMBER_OK;"
        elif result.endswith("*"):
            body = f"r->pointer = (void *){call}; return EMBER_OK;"
        else:
            body = f"r->{MEMBERS[result]} = {call}; return EMBER_OK;"
        out.append(f"static ember_status call_{name}(const union value *a, union value *r) {{ (void)a; {body} }}")
        listed = ", ".join(f'{{"{kind}", "{arg}"}}' for kind, arg in arguments) or "{0, 0}"
        rows.append(f'    {{"{name}", "{result}", call_{name}, {len(arguments)}, {{{listed}}}}},')
    out += ["static const struct function FUNCTIONS[] = {", *rows, "};"]
    out += ["static const char *const OPAQUE[] = {" + ", ".join(f'"{name}"' for name in header.opaque) + "};"]
    sized = [f'{{"{name}", sizeof({name})}}' for name, fields in header.structs.items() if fields[0][1] == "struct_size"]
    out += ["static const struct sized SIZED[] = {" + ", ".join(sized) + "};"]
    return "\n".join(out) + "\n"


# Name, what it is to programs, whether abidiff sees it, what is replaced in the header by what.
VARIANTS = [
    ("reworded", SAME, True, r" \* Forgets the end", " * Drops the end"),
    ("parameter_renamed", SAME, True, r"uint32_t n_batch,", "uint32_t rows,"),
    ("function_added", ADDITION, True, r"\Z", "int32_t ember_model_is_good(const struct ember_model *model);\n"),
    ("option_added", ADDITION, True, r"\Z",
     "ember_status ember_model_options_set_care(struct ember_model_options *options, uint32_t care, "
     "struct ember_error **err);\n"),
    ("field_appended", ADDITION, True, r"(?=\} ember_context_info;)", "uint64_t size;\n"),
    ("number_added", ADDITION, False, r"(EMBER_KV_I16 = 3,)", r"\1 EMBER_KV_Q4_0 = 5,"),
    ("function_removed", BREAK, True, r"ember_status ember_context_n_past\([^;]*;", ""),
    ("parameter_widened", BREAK, True, r"uint32_t k,", "uint64_t k,"),
    ("parameter_added", BREAK, True, r"uint32_t k,", "uint32_t k, uint32_t least,"),
    ("parameter_removed", BREAK, True, r"uint32_t k,", ""),
    ("result_changed", BREAK, True, r"int32_t ember_has_feature\(", "int64_t ember_has_feature("),
    ("field_inserted", BREAK, True, r"(uint32_t n_seq;)", r"uint32_t inserted; \1"),
    ("field_removed", BREAK, True, r"uint32_t n_seq;", ""),
    ("field_renamed", BREAK, False, r"uint32_t n_seq;", "uint32_t n_sequences;"),
    ("field_widened", BREAK, True, r"uint32_t n_seq;", "uint64_t n_seq;"),
    ("fixed_struct_grown", BREAK, True, r"(?=\} ember_token_logprob;)", "float entropy;\n"),
    ("callback_changed", BREAK, True, r"(\(\*ember_event_callback\)\()", r"\1int32_t n_events, "),
    ("number_changed", BREAK, False, r"EMBER_KV_I16 = 3,", "EMBER_KV_I16 = 4,"),
    ("number_removed", BREAK, False, r"EMBER_KV_Q8_0 = 2,", ""),
    ("number_used_twice", BREAK, False, r"(EMBER_KV_Q8_0 = 2,)", r"\1 EMBER_KV_Q4_0 = 2,"),
    ("macro_changed", BREAK, False, r"EMBER_TOKEN_NONE UINT32_MAX", "EMBER_TOKEN_NONE 0"),
]


def variants(path: str, folder: str) -> None:
    text = pathlib.Path(path).read_text(encoding="utf-8")
    # What is appended belongs before the end of the include guard.
    body, end = re.fullmatch(r"(.*)(\n#ifdef __cplusplus\n\}.*)", text, re.DOTALL).groups()
    for name, verdict, seen, pattern, replacement in VARIANTS:
        changed, n = re.subn(pattern, replacement, body, count=1)
        if n != 1:
            sys.exit(f"the variant {name} finds nothing to change in {path}")
        place = pathlib.Path(folder, name)
        place.mkdir()
        (place / "ember.h").write_text(changed + end, encoding="utf-8")
        print(name, verdict, "seen" if seen else "unseen")


def main(arguments: list[str]) -> int:
    match arguments:
        case ["facts", header]:
            print("\n".join(facts(header)))
        case ["stub", header]:
            print(stub(header), end="")
        case ["table", header]:
            print(table(header), end="")
        case ["variants", header, folder]:
            variants(header, folder)
        case ["compare", old, new]:
            verdict, changes = compare(read_facts(old), read_facts(new))
            print("\n".join(changes))
            return EXIT[verdict]
        case _:
            print(__doc__, file=sys.stderr)
            return 64
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
