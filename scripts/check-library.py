#!/usr/bin/env python3
"""Checks that a library built for another system is for the machine it should be for and has every function of the header.

    scripts/check-library.py MACHINE [--page-size N] [--needs LIST] [--jni] FILE

FILE is a static library (an archive of ELF or Mach-O objects) or a shared one. With --page-size the segments of a shared
ELF library must be aligned to at least N bytes. With --needs the symbols that a shared one expects of the system must
all be in LIST, a file of one on each line (or a comment). A shared ELF library must not ask for relocations in its code.
With --jni the functions are those of bindings/android/jni.c, which calls those of the header.
"""

import argparse
import pathlib
import re
import struct
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The number of the machine in the file's header, and for Mach-O that of the platform it is for.
MACHINES = {
    "elf-aarch64": (183, None),
    "elf-x86_64": (62, None),
    "ios-arm64": (0x0100000C, 2),
    "ios-simulator-arm64": (0x0100000C, 7),
    "ios-simulator-x86_64": (0x01000007, 7),
    "macos-arm64": (0x0100000C, 1),
    "macos-x86_64": (0x01000007, 1),
}


def die(text):
    sys.exit(f"check-library: {text}")


def some(names):
    """The first few names, sorted, and how many there are more."""
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(sorted(names)[:8]) + more


def members(data):
    """The names and contents of an archive's files, without its indices."""
    at, long_names = 8, b""
    while at < len(data):
        name, size = data[at : at + 16].decode().rstrip(), int(data[at + 48 : at + 58])
        body = data[at + 60 : at + 60 + size]
        at += 60 + size + size % 2
        if name == "//":  # GNU's long names
            long_names = body
            continue
        if name in ("/", "/SYM64/"):
            continue
        if name.startswith("#1/"):  # BSD's
            length = int(name[3:])
            name, body = body[:length].rstrip(b"\0").decode(), body[length:]
        elif name[0] == "/":
            start = int(name[1:])
            name = long_names[start : long_names.index(b"\n", start)].decode()
        if not name.startswith("__.SYMDEF"):
            yield name.rstrip("/"), body


def text(table, at):
    return table[at : table.index(b"\0", at)].decode(errors="replace")


def elf(data, dynamic):
    """The machine, no platform, and the global symbols that a 64-bit ELF file defines and needs."""
    machine = struct.unpack_from("<H", data, 18)[0]
    offset = struct.unpack_from("<Q", data, 40)[0]
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]
    found, needed = set(), set()
    for _, kind, _, _, start, length, link, *_ in sections:
        if kind != (11 if dynamic else 2):  # SHT_DYNSYM, SHT_SYMTAB
            continue
        strings = data[sections[link][4] : sections[link][4] + sections[link][5]]
        for at in range(start, start + length, 24):
            name, info, _, section, _, _ = struct.unpack_from("<IBBHQQ", data, at)
            if info >> 4 in (1, 2) and name:  # STB_GLOBAL, STB_WEAK
                (found if section else needed).add(text(strings, name))
    return machine, None, found, needed


def macho(data):
    """The machine, the platform if it is said, and the external symbols that a 64-bit Mach-O file defines and needs."""
    machine, _, _, n_commands = struct.unpack_from("<IIII", data, 4)
    at, platform, found, needed = 32, None, set(), set()
    for _ in range(n_commands):
        command, size = struct.unpack_from("<II", data, at)
        if command == 0x32:  # LC_BUILD_VERSION
            platform = struct.unpack_from("<I", data, at + 8)[0]
        elif command == 2:  # LC_SYMTAB
            symbols, n_symbols, start, length = struct.unpack_from("<IIII", data, at + 8)
            strings = data[start : start + length]
            for i in range(n_symbols):
                name, kind, section, _, _ = struct.unpack_from("<IBBHQ", data, symbols + 16 * i)
                if kind & 1:  # N_EXT
                    (found if section else needed).add(text(strings, name).removeprefix("_"))
        at += size
    return machine, platform, found, needed


def segments(data):
    """The program headers of a 64-bit ELF file."""
    offset = struct.unpack_from("<Q", data, 32)[0]
    size, count = struct.unpack_from("<HH", data, 54)
    return [struct.unpack_from("<IIQQQQQQ", data, offset + i * size) for i in range(count)]


def has_text_relocations(data):
    """Whether the dynamic section of a 64-bit ELF file says that the loader must change code (DT_TEXTREL, DF_TEXTREL)."""
    for kind, _, offset, _, _, size, *_ in segments(data):
        if kind == 2:  # PT_DYNAMIC
            entries = [struct.unpack_from("<QQ", data, at) for at in range(offset, offset + size, 16)]
            return any(tag == 22 or tag == 30 and value & 4 for tag, value in entries)
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machine", choices=MACHINES)
    parser.add_argument("--page-size", type=int)
    parser.add_argument("--needs", type=pathlib.Path)
    parser.add_argument("--jni", action="store_true")
    parser.add_argument("file", type=pathlib.Path)
    args = parser.parse_args()
    data = args.file.read_bytes()
    is_archive = data.startswith(b"!<arch>\n")
    objects = list(members(data)) if is_archive else [(args.file.name, data)]
    machine, platform = MACHINES[args.machine]
    found, needed, n_objects, says_platform = set(), set(), 0, False
    for name, body in objects:
        if body.startswith(b"\x7fELF\x02\x01"):
            its_machine, its_platform, defined, expected = elf(body, not is_archive)
        elif body.startswith(b"\xcf\xfa\xed\xfe"):
            its_machine, its_platform, defined, expected = macho(body)
        else:
            die(f"{args.file}: {name} is no object file that is known")
        if its_machine != machine:
            die(f"{args.file}: {name} is for machine {its_machine:#x}, expected {machine:#x}")
        if its_platform not in (None, platform):
            die(f"{args.file}: {name} is for platform {its_platform}, expected {platform}")
        says_platform |= its_platform is not None
        found |= defined
        needed |= expected
        n_objects += 1
    if platform and not says_platform:
        die(f"{args.file}: no object says which platform it is for, expected {platform}")
    functions = subprocess.run(
        ["sh", ROOT / "tests/capi/functions.sh"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.split()
    if args.jni:
        needed -= set(functions)
        text = (ROOT / "bindings/android/jni.c").read_text()
        functions = ["JNI_OnLoad", *(f"Java_ember_kotlin_Jni_{name}" for name in re.findall(r"^FUNCTION\(\w+, (\w+)\)", text, re.M))]
    missing = set(functions) - found
    if missing or not functions:
        die(f"{args.file}: these functions are missing: {some(missing)}")
    if not is_archive and (more := found - set(functions)):
        die(f"{args.file}: these are exported and no functions of the header: {some(more)}")
    needed -= found
    if args.needs:
        system = set(args.needs.read_text().split("\n"))
        if unknown := needed - system:
            die(f"{args.file}: these symbols of the system are not in {args.needs}: {some(unknown)}")
    if not is_archive and data.startswith(b"\x7fELF"):
        if has_text_relocations(data):
            die(f"{args.file}: its code must be changed when it is loaded")
        if args.page_size and min(s[7] for s in segments(data) if s[0] == 1) < args.page_size:  # PT_LOAD
            die(f"{args.file}: segments are aligned to less than {args.page_size} bytes")
    source = "jni.c" if args.jni else "the header"
    n = f"{n_objects} objects" if is_archive else "a shared library"
    print(f"{args.file}: {args.machine}, {n}, all {len(functions)} functions of {source}, {len(needed)} of the system")


if __name__ == "__main__":
    main()
