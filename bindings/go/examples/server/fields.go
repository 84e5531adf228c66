package main

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// rules say what becomes of the fields that a request's struct lacks. A field that no rule names is refused.
type rules map[string]rule

type rule struct {
	reason   string   // why it is refused; "": it changes no answer and is ignored
	neutral  []string // JSON values that ask for what happens anyway, and are ignored
	anything bool     // any value is ignored
}

// ignored is the rule of fields that change no answer.
var ignored = rule{anything: true}

// refused is the rule of fields that are refused unless they have one of the neutral values.
func refused(reason string, neutral ...string) rule { return rule{reason: reason, neutral: neutral} }

// with gives the rules of both; other wins.
func (r rules) with(other rules) rules {
	all := maps.Clone(r)
	maps.Copy(all, other)
	return all
}

// bookkeeping holds the fields that say nothing about the answer.
var bookkeeping = rules{
	"user":                   ignored,
	"safety_identifier":      ignored,
	"metadata":               ignored,
	"store":                  ignored,
	"prompt_cache_key":       ignored,
	"prompt_cache_retention": ignored,
	"service_tier":           refused("this server has no service tiers", `"auto"`, `"default"`),
}

// decode reads the JSON object text into the struct that into points to. Each field of the object has a field there, or a rule;
// null is as if the field were not there. path comes before the names of fields in errors.
func decode(text []byte, into any, r rules, path string) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return badJSON(err, path)
	}
	if fields == nil {
		return invalid(strings.TrimSuffix(path, "."), "%s must be a JSON object, not null.", whole(path))
	}
	known := names(reflect.TypeOf(into).Elem())
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := string(fields[name])
		if known[name] || value == "null" {
			continue
		}
		rule, ok := r[name]
		switch {
		case !ok:
			return unsupported(path+name, "This server does not know the field %s%s.", path, name)
		case !rule.anything && !slices.Contains(rule.neutral, compact(value)):
			return unsupported(path+name, "%s%s is not supported: %s.", path, name, rule.reason)
		}
	}
	if err := json.Unmarshal(text, into); err != nil {
		return badJSON(err, path)
	}
	return nil
}

// names holds the JSON names of a struct's fields, those of embedded structs too.
func names(t reflect.Type) map[string]bool {
	all := map[string]bool{}
	for i := range t.NumField() {
		field := t.Field(i)
		if field.Anonymous {
			maps.Copy(all, names(field.Type))
		} else if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" {
			all[name] = true
		}
	}
	return all
}

func compact(value string) string {
	var v any
	if json.Unmarshal([]byte(value), &v) != nil {
		return value
	}
	text, _ := json.Marshal(v)
	return string(text)
}

func whole(path string) string {
	if path == "" {
		return "The body of the request"
	}
	return strings.TrimSuffix(path, ".")
}

// badJSON makes a sentence of an error of encoding/json.
func badJSON(err error, path string) error {
	var api *apiError
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &api):
		return api
	case errors.As(err, &wrong) && wrong.Field != "":
		field := path + strings.TrimPrefix(strings.TrimPrefix(wrong.Field, "sampling."), "toolRequest.") // structs in the request's
		return invalid(field, "%s must be %s, not %s.", field, kindName(wrong.Type), wrong.Value)
	case errors.As(err, &wrong):
		return invalid(strings.TrimSuffix(path, "."), "%s must be %s, not %s.", whole(path), kindName(wrong.Type), wrong.Value)
	}
	return invalid(strings.TrimSuffix(path, "."), "%s is not JSON: %s.", whole(path), strings.TrimPrefix(err.Error(), "json: "))
}

func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Int, reflect.Int64, reflect.Uint32:
		return "an integer"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "an array"
	}
	return "an object"
}

// inRange refuses a number outside of low to high.
func inRange[T int | float64](name string, value *T, low, high T) error {
	if value != nil && (*value < low || *value > high) {
		return invalid(name, "%s must be from %v to %v, not %v.", name, low, high, *value)
	}
	return nil
}

// stringsOf reads a field that is a string or an array of strings.
func stringsOf(name string, value json.RawMessage) ([]string, error) {
	if absent(value) {
		return nil, nil
	}
	var one string
	if json.Unmarshal(value, &one) == nil {
		return []string{one}, nil
	}
	var many []string
	if json.Unmarshal(value, &many) != nil {
		return nil, invalid(name, "%s must be a string or an array of strings.", name)
	}
	return many, nil
}

// absent tells whether a field is not there, or null.
func absent(value json.RawMessage) bool { return len(value) == 0 || string(value) == "null" }

// checkUTF8 refuses bytes that encoding/json would change.
func checkUTF8(body []byte) error {
	if !utf8.Valid(body) {
		return newError(400, "invalid_request_error", "invalid_value", "The body of the request is not UTF-8.")
	}
	return nil
}
