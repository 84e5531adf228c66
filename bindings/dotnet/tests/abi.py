#!/usr/bin/env python3
"""Compares the declarations for C# with what a C++ compiler makes of include/ember.h.

    abi.py LIBRARY ABI_OUTPUT

ABI_OUTPUT is what Abi.exe printed. LIBRARY, libember.so, exports the functions that are declared, and no others.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent))
from generate_native import Header, camel, enumerators  # noqa: E402

PROBE = """
#include <cstddef>
#include <cstdio>
#include <string>
#include <type_traits>
#include "ember.h"

template <class T> std::string kind() {
    if constexpr (std::is_void_v<T>)
        return "void";
    else if constexpr (std::is_pointer_v<T>) {
        using Pointee = std::remove_cv_t<std::remove_pointer_t<T>>;
        if constexpr (std::is_function_v<Pointee>)
            return "function";
        else if constexpr (std::is_class_v<Pointee>)
            return "pointer struct";
        else if constexpr (std::is_pointer_v<Pointee>)
            return "pointer pointer";
        else
            return "pointer " + kind<Pointee>();
    } else if constexpr (std::is_enum_v<T>)
        return kind<std::underlying_type_t<T>>();
    else if constexpr (std::is_same_v<T, bool>)
        return "bool";
    else if constexpr (std::is_same_v<T, char>)
        return "char";
    else if constexpr (std::is_floating_point_v<T>)
        return "float" + std::to_string(8 * sizeof(T));
    else
        return (std::is_signed_v<T> ? "int" : "uint") + std::to_string(8 * sizeof(T));
}

template <class R, class... A> std::string signature(R (*)(A...)) {
    std::string out = kind<R>();
    ((out += ", " + kind<A>()), ...);
    return out;
}

int main() {
#define FUNCTION(name) std::printf("function " #name " %s\\n", signature(static_cast<decltype(&name)>(nullptr)).c_str())
#define CALLBACK(name) std::printf("callback " #name " %s\\n", signature(static_cast<name>(nullptr)).c_str())
#define STRUCT(name) std::printf("struct " #name " %zu\\n", sizeof(name))
#define FIELD(name, field) \\
    std::printf("field " #name "." #field " %zu %s\\n", offsetof(name, field), kind<decltype(name::field)>().c_str())
#define CONSTANT(name) std::printf("constant " #name " %llu\\n", static_cast<unsigned long long>(name))
#define ENUMERATOR(type, name, member) std::printf("enumerator " type "." name " %lld\\n", static_cast<long long>(member))
@BODY@
}
"""


def expected(header: Header) -> dict[tuple[str, str], str]:
    """What the compiler says of everything in the header: by a word and a name, the rest."""
    body = [f"FUNCTION({name});" for name in header.functions]
    body += [f"CALLBACK({name});" for name in header.callbacks]
    body += [f"CONSTANT({name});" for _, name, _ in header.defines]
    for name, (_, fields) in header.structs.items():
        body += [f"STRUCT({name});", *(f"FIELD({name}, {field});" for _, _, field in fields)]
    for name, (_, members) in header.enums.items():
        of = camel(name.removeprefix("ember_"))
        for member, given in zip((member for _, member, _ in members), enumerators([member for _, member, _ in members])):
            body.append(f'ENUMERATOR("{of}", "{given}", {member});')
    with tempfile.TemporaryDirectory() as folder:
        probe = pathlib.Path(folder) / "probe.cpp"
        probe.write_text(PROBE.replace("@BODY@", "\n".join(body)))
        subprocess.run(["c++", "-std=c++17", f"-I{ROOT / 'include'}", probe, "-o", f"{folder}/probe"], check=True)
        return read(subprocess.run([f"{folder}/probe"], check=True, capture_output=True, text=True).stdout)


def read(text: str) -> dict[tuple[str, str], str]:
    lines = [line.split(" ", 2) for line in text.splitlines()]
    assert lines
    return {(what, name): rest for what, name, rest in lines}


def fits(declared: str, seen: str) -> bool:
    """Whether C#'s kind of a type may stand for C's: an address for every pointer, bytes for text and truths."""
    if declared == "pointer":
        return seen.startswith("pointer ") or seen == "function"
    return declared == seen or (declared == "pointer uint8" and seen in ("pointer char", "pointer bool"))


def main(library: str, output: str) -> None:
    wanted = expected(Header((ROOT / "include/ember.h").read_text(encoding="utf-8")))
    found = read(pathlib.Path(output).read_text(encoding="utf-8"))
    problems = [f"the header has no {what} {name}" for what, name in found.keys() - wanted.keys()]
    for (what, name), rest in wanted.items():
        declared = found.get((what, name))
        if declared is None:
            problems.append(f"there is no {what} {name}")
        elif what in ("function", "callback"):
            pairs = [declared.split(", "), rest.split(", ")]
            if len(pairs[0]) != len(pairs[1]) or not all(map(fits, *pairs)):
                problems.append(f"{what} {name}: declared as {declared}, the compiler sees {rest}")
        elif what == "field":
            (at, kind), (offset, seen) = declared.split(" ", 1), rest.split(" ", 1)
            if at != offset or not fits(kind, seen):
                problems.append(f"{what} {name}: declared as {declared}, the compiler sees {rest}")
        elif declared != rest:
            problems.append(f"{what} {name}: declared as {declared}, the compiler sees {rest}")
    exported = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    functions = set(re.findall(r" T (ember_\w+)$", exported, re.MULTILINE))
    problems += [f"the library has, or the declarations have, no {name}" for name in functions ^ {n for w, n in found if w == "function"}]
    if problems:
        sys.exit("\n".join(problems))
    print(f"{len(functions)} functions and {sum(what == 'struct' for what, _ in found)} structs are what the compiler sees")


main(*sys.argv[1:])
