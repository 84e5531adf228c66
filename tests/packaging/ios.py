#!/usr/bin/env python3
"""Checks that what `make ios` made is an XCFramework: what its Info.plist lists is there and nothing else, each library is
for the processors and the platform that are said, and its module can be imported.

    tests/packaging/ios.py [FOLDER]     default: build/ios/Ember.xcframework

Needs clang and llvm-objdump (CLANG and OBJDUMP name them). It has never seen Xcode: that needs a Mac.
"""

import os
import pathlib
import plistlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# The oldest systems that the libraries are for.
OLDEST = {"ios": "ios13.0", "macos": "macos11.0"}
CHECK = ROOT / "scripts/check-library.py"


def tool(variable, name):
    found = os.environ.get(variable) or shutil.which(name)
    return found or sys.exit(f"ios: there is no {name}; please install it or name one in {variable}")


def libraries(objdump, path):
    """The libraries of a file by processor, as llvm-objdump reads its header; None for the processor of one alone."""
    data = path.read_bytes()
    if data.startswith(b"!<arch>\n"):
        return {None: data}
    said = subprocess.run([objdump, "--macho", "--universal-headers", path], check=True, stdout=subprocess.PIPE, text=True)
    found = {}
    for part in said.stdout.split("\narchitecture ")[1:]:
        offset, size = (int(re.search(rf"^ *{name} (\d+)$", part, re.MULTILINE)[1]) for name in ("offset", "size"))
        found[part.split()[0]] = data[offset : offset + size]
    return found


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/ios/Ember.xcframework")
    clang, objdump = tool("CLANG", "clang"), tool("OBJDUMP", "llvm-objdump")
    info = plistlib.loads((folder / "Info.plist").read_bytes())
    assert (info["CFBundlePackageType"], info["XCFrameworkFormatVersion"]) == ("XFWK", "1.0"), info
    listed = {entry["LibraryIdentifier"]: entry for entry in info["AvailableLibraries"]}
    assert {path.name for path in folder.iterdir()} == {"Info.plist", *listed}
    slices = {}
    for name, entry in listed.items():
        library, headers = folder / name / entry["LibraryPath"], folder / name / entry["HeadersPath"]
        assert {path.name for path in (folder / name).iterdir()} == {library.name, headers.name}
        assert (headers / "ember.h").read_bytes() == (ROOT / "include/ember.h").read_bytes()
        variant, processors = entry.get("SupportedPlatformVariant", ""), entry["SupportedArchitectures"]
        system = entry["SupportedPlatform"]
        assert name == "-".join(filter(None, [system, "_".join(processors), variant])), name
        parts = libraries(objdump, library)
        # A library for one processor does not say which; its objects do, below.
        assert set(parts) == (set(processors) if len(processors) > 1 else {None}), set(parts)
        for processor in processors:
            slices[system, variant, processor] = parts.get(processor, parts.get(None))
            target = f"{processor}-apple-{OLDEST[system]}" + ("-simulator" if variant else "")
            program = "@import EmberC;\nconst char *version(void) { return ember_version_string(); }\n"
            options = ["-fsyntax-only", "-Werror", "-ffreestanding", "-fmodules", "-x", "objective-c", "-target", target]
            with tempfile.TemporaryDirectory() as cache:
                options += ["-I", headers, f"-fmodules-cache-path={cache}"]
                subprocess.run([clang, *options, "-"], check=True, input=program, text=True)
    wanted = {("ios", "", "arm64"), ("ios", "simulator", "arm64"), ("ios", "simulator", "x86_64")}
    # Those for macOS are there if they were built before.
    if any(system == "macos" for system, _, _ in slices):
        wanted |= {("macos", "", "arm64"), ("macos", "", "x86_64")}
    assert set(slices) == wanted, slices
    with tempfile.TemporaryDirectory() as work:
        for (system, variant, processor), data in slices.items():
            thin = pathlib.Path(work) / f"{system}{variant}{processor}.a"
            thin.write_bytes(data)
            machine = "-".join(filter(None, [system, variant, processor]))
            subprocess.run([sys.executable, CHECK, machine, thin], check=True)
    print("ios: passed")


if __name__ == "__main__":
    main()
