#!/usr/bin/env python3
"""Writes Ember/Native.cs, the declarations of include/ember.h for C#.

    generate_native.py [HEADER [OUT]]
    generate_native.py --check      fails when the committed file is not what the header gives

tests/abi.py compares the compiled declarations with what a C++ compiler makes of the header.
"""

import os
import pathlib
import re
import sys
from xml.sax.saxutils import escape

HERE = pathlib.Path(__file__).resolve().parent
HEADER, OUT = HERE / "../../include/ember.h", HERE / "Ember/Native.cs"
SCALARS = {
    "bool": "bool",
    "double": "double",
    "float": "float",
    "size_t": "UIntPtr",
    "int8_t": "sbyte",
    "uint8_t": "byte",
    "int16_t": "short",
    "uint16_t": "ushort",
    "int32_t": "int",
    "uint32_t": "uint",
    "int64_t": "long",
    "uint64_t": "ulong",
    "ember_status": "Status",
}
LIMITS = {"UINT32_MAX": ("uint", "uint.MaxValue"), "UINT64_MAX": ("ulong", "ulong.MaxValue"), "SIZE_MAX": ("UIntPtr", None)}
KEYWORDS = {"base", "event", "in", "lock", "object", "operator", "out", "params", "ref", "string"}
WORDS = {"NOMEM": "NoMemory"}  # of names of enumerators
# Arguments that Ember keeps after the call, so that an array which is pinned for the call alone would be wrong.
KEPT = {("ember_model_load_borrowed", "data")}
COMMENT = r"/\*\*((?:(?!\*/).)*)\*/\s*"


def camel(words: str) -> str:
    """KV_TYPE -> KvType, Q8_0 -> Q8_0: a line stays between two digits."""
    out = ""
    for word in words.split("_"):
        out += ("_" if out[-1:].isdigit() and word[0].isdigit() else "") + WORDS.get(word.upper(), word.capitalize())
    return out


def enumerators(members: list[str]) -> list[str]:
    """C#'s names of the enumerators of one enum, without what they have in common."""
    prefix = os.path.commonprefix(members)
    prefix = prefix[: prefix.rindex("_") + 1]
    return [camel(member.removeprefix(prefix).removeprefix("E_")) for member in members]


def summary(comment: str, indent: str) -> list[str]:
    """The first paragraph of a comment of the header, as one of C#'s."""
    text = re.sub(r"^\s*\* ?", "", comment, flags=re.MULTILINE).strip()
    first = " ".join(re.split(r"\n\s*\n|\n\s*@|\n- ", text)[0].split())
    return [f"{indent}/// <summary>{escape(first)}</summary>"]


def declarator(text: str) -> tuple[str, str]:
    """The type and the name of `const char *text`."""
    kind, name = re.fullmatch(r"(.*?)(\w+)", " ".join(text.split())).groups()
    return kind, name


def parameters(body: str) -> list[tuple[str, str]]:
    return [] if body.strip() == "void" else [declarator(one) for one in body.split(",")]


class Header:
    def __init__(self, text: str):
        text = text[text.index("#ifndef EMBER_H") :]
        self.defines = re.findall(COMMENT + r"#define (EMBER_\w+) (\w+)$", text, re.MULTILINE | re.DOTALL)
        text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
        body_of = r"\{(.*?)\}"
        self.enums = {
            name: (comment, re.findall(COMMENT + r"(\w+) = (-?\d+)", body, re.DOTALL))
            for comment, name, body in re.findall(COMMENT + r"enum (ember_\w+)[^{;]*" + body_of + ";", text, re.DOTALL)
        }
        self.structs = {}
        for comment, name, body in re.findall(COMMENT + r"typedef struct (ember_\w+) " + body_of, text, re.DOTALL):
            fields = re.findall(COMMENT + r"([^;]*);", body, re.DOTALL)
            assert len(fields) == re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL).count(";"), name
            self.structs[name] = (comment, [(said, *declarator(field)) for said, field in fields])
        self.callbacks = {
            name: (comment, result, parameters(body))
            for comment, result, name, body in re.findall(COMMENT + r"typedef (\w[\w ]*\*?) ?\(\*(ember_\w+)\)\(([^)]*)\);", text, re.DOTALL)
        }
        self.functions = {
            name: (comment, result, parameters(body))
            for comment, result, name, body in re.findall(COMMENT + r"([a-z][\w ]*[ *])(ember_\w+)\(([^)]*)\);", text, re.DOTALL)
        }
        bare = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        for what, found, there in (
            ("functions", self.functions, re.findall(r"^[a-z][\w ]*[ *](ember_\w+)\(", bare, re.MULTILINE)),
            ("enums", self.enums, re.findall(r"^enum (ember_\w+)", bare, re.MULTILINE)),
            ("structs", self.structs, re.findall(r"^typedef struct (ember_\w+) \{", bare, re.MULTILINE)),
            ("callbacks", self.callbacks, re.findall(r"\(\*(ember_\w+)\)\(", bare)),
        ):
            assert list(found) == there, f"{what} without a comment: {set(there) - set(found)}"

    def base(self, kind: str) -> str:
        return re.sub(r"\b(const|struct)\b|\*", "", kind).strip()

    def plain(self, kind: str) -> str:
        """C#'s type for one in a struct, of a result or of a callback: pointers are addresses."""
        base = self.base(kind)
        if "*" in kind:
            return "IntPtr"
        return "void" if base == "void" else base if base in self.callbacks else SCALARS[base]

    def argument(self, function: str, kind: str, name: str, following: str) -> str:
        """C#'s type for an argument of a function; `following` is the name of the next one."""
        base, stars, constant = self.base(kind), kind.count("*"), kind.startswith("const ")
        if stars == 0:
            return "[MarshalAs(UnmanagedType.I1)] bool" if base == "bool" else self.plain(kind)
        if (function, name) in KEPT or base == "void":
            return "IntPtr"
        if stars == 2:
            return "IntPtr[]" if "*const *" in kind else "out IntPtr"
        if base == "char":
            return "byte[]"
        known = base in SCALARS or base in self.structs
        if not known:  # an object of Ember's
            return "IntPtr" if base == "ember_error" or function.endswith(("_free", "_release", "_retain")) else "EmberHandle"
        value = "byte" if base == "bool" else SCALARS.get(base, base)
        if constant:
            return f"{value}[]"
        if following == "capacity":
            return f"[In, Out] {value}[]"
        return f"ref {value}" if base in self.structs else f"out {value}"


def source(header: Header) -> str:
    out = ["// The declarations of ember.h. Generated by generate_native.py; do not edit.", ""]
    out += ["using System;", "using System.Runtime.CompilerServices;", "using System.Runtime.InteropServices;", "", "namespace Ember", "{"]
    for name, (comment, members) in header.enums.items():
        out += [*summary(comment, "    "), f"    public enum {camel(name.removeprefix('ember_'))}", "    {"]
        for (said, _, value), given in zip(members, enumerators([member for _, member, _ in members])):
            out += [*summary(said, "        "), f"        {given} = {value},", ""]
        out[-1:] = ["    }", ""]
    out[-1:] = ["}", "", "namespace Ember.Interop", "{"]
    for name, (comment, fields) in header.structs.items():
        out += [*summary(comment, "    "), "    [StructLayout(LayoutKind.Sequential)]", f"    public struct {name}", "    {"]
        for said, kind, field in fields:
            out += [*summary(said, "        "), f"        public {header.plain(kind)} {field};", ""]
        out[-1:] = ["    }", ""]
    for name, (comment, result, types) in header.callbacks.items():
        listed = ", ".join(f"{header.plain(kind)} {escaped(one)}" for kind, one in types)
        out += [*summary(comment, "    "), "    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]"]
        out += [f"    public delegate {header.plain(result)} {name}({listed});", ""]
    out += ["    /// <summary>The functions of ember.h. Texts are bytes of UTF-8, with their length.</summary>"]
    out += ["    public static class Native", "    {", '        private const string Library = "ember";', ""]
    for comment, name, value in header.defines:
        kind, limit = LIMITS.get(value, ("int", value))
        said = summary(comment, "        ")
        if limit is None:
            constant = "UIntPtr.Size == 8 ? (UIntPtr)ulong.MaxValue : (UIntPtr)uint.MaxValue"
            out += [*said, f"        public static readonly {kind} {name} = {constant};", ""]
        else:
            out += [*said, f"        public const {kind} {name} = {limit};", ""]
    first, found = [], []
    for name, (comment, result, types) in header.functions.items():
        following = [one for _, one in types[1:]] + [""]
        kinds = [header.argument(name, kind, one, next_) for (kind, one), next_ in zip(types, following)]
        listed = ", ".join(f"{kind} {escaped(one)}" for kind, (_, one) in zip(kinds, types))
        declaration = ["[DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]"]
        if header.base(result) == "bool":
            declaration += ["[return: MarshalAs(UnmanagedType.I1)]"]
        declaration += [f"public static extern {header.plain(result)} {name}({listed});"]
        out += summary(comment, "        ")
        if "EmberHandle" in kinds:  # which there is not before the library is found
            out += [f"        {line}" for line in declaration] + [""]
            continue
        first += [f"            {line}" for line in declaration] + [""]
        bare = ", ".join(f"{kind.split('] ')[-1]} {escaped(one)}" for kind, (_, one) in zip(kinds, types))
        passed = ", ".join(how(kind) + escaped(one) for kind, (_, one) in zip(kinds, types))
        gives = "" if header.plain(result) == "void" else "return "
        heading = f"public static {header.plain(result)} {name}({bare})"
        out += [f"        {heading}", "        {", "            Loader.Prepare();", f"            {gives}Found.{name}({passed});", "        }", ""]
        found += ["            [MethodImpl(MethodImplOptions.NoInlining)]", f"            {heading}", "            {"]
        found += [f"                {gives}First.{name}({passed});", "            }", ""]
    out += ["        // Those that may be called before any other. Mono looks for a function when it compiles what calls it, so that has to happen when"]
    out += ["        // the library is found."]
    for name, lines in (("Found", found), ("First", first)):
        out += [f"        private static class {name}", "        {", *lines[:-1], "        }", ""]
    out[-1:] = ["    }", "}", ""]
    return "\n".join(out)


def how(kind: str) -> str:
    """How an argument of this type is passed on."""
    word = kind.split(" ")[0]
    return f"{word} " if word in ("out", "ref") else ""


def escaped(name: str) -> str:
    return f"@{name}" if name in KEYWORDS else name


def main(arguments: list[str]) -> None:
    if arguments == ["--check"]:
        if OUT.read_text(encoding="utf-8") != source(Header(HEADER.read_text(encoding="utf-8"))):
            sys.exit(f"{OUT.relative_to(HERE.parent.parent)} is not what include/ember.h gives: please run {pathlib.Path(__file__).name}")
        return
    header = pathlib.Path(arguments[0]) if arguments else HEADER
    out = pathlib.Path(arguments[1]) if len(arguments) > 1 else OUT
    out.write_text(source(Header(header.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
