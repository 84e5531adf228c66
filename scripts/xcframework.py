#!/usr/bin/env python3
"""Puts static libraries for iOS, and for macOS, together as an XCFramework, the folder in which Xcode expects them.

    scripts/xcframework.py FOLDER DEVICE.a SIMULATOR-ARM64.a SIMULATOR-X86_64.a [MACOS-ARM64.a MACOS-X86_64.a]

FOLDER is replaced. The two libraries for simulators, and those for macOS, become one for both processors (a universal file, as lipo makes
it).
"""

import pathlib
import plistlib
import shutil
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ARM64, X86_64 = (0x0100000C, 0), (0x01000007, 3)
# Libraries begin at multiples of 2 to this.
ALIGN = 14
# Not "Ember" or "CEmber", which are the modules of the Swift package.
MODULE = 'module EmberC {\n    header "ember.h"\n    export *\n}\n'


def universal(parts):
    """One file of several libraries; `parts` are pairs of a processor (type and subtype) and bytes. The header is in
    big-endian order (mach-o/fat.h)."""
    at = 8 + 20 * len(parts)
    header, body = struct.pack(">II", 0xCAFEBABE, len(parts)), b""
    for (kind, subtype), data in parts:
        start = -(-(at + len(body)) // (1 << ALIGN)) * (1 << ALIGN)
        body += bytes(start - at - len(body)) + data
        header += struct.pack(">IIIII", kind, subtype, start, len(data), ALIGN)
    return header + body


def main():
    if len(sys.argv) not in (5, 7):
        sys.exit(__doc__)
    folder, device, *pairs = map(pathlib.Path, sys.argv[1:])
    both = [universal([(ARM64, arm64.read_bytes()), (X86_64, x86_64.read_bytes())]) for arm64, x86_64 in zip(pairs[::2], pairs[1::2])]
    kinds = [
        ("ios-arm64_x86_64-simulator", {"SupportedPlatform": "ios", "SupportedPlatformVariant": "simulator"}),
        ("macos-arm64_x86_64", {"SupportedPlatform": "macos"}),
    ]
    libraries = [("ios-arm64", device.read_bytes(), ["arm64"], {"SupportedPlatform": "ios"})]
    libraries += [(name, data, ["arm64", "x86_64"], platform) for (name, platform), data in zip(kinds, both)]
    shutil.rmtree(folder, ignore_errors=True)
    listed = []
    for name, data, processors, more in libraries:
        headers = folder / name / "Headers"
        headers.mkdir(parents=True)
        (folder / name / "libember.a").write_bytes(data)
        shutil.copy(ROOT / "include/ember.h", headers)
        (headers / "module.modulemap").write_text(MODULE)
        listed.append(
            {
                "HeadersPath": "Headers",
                "LibraryIdentifier": name,
                "LibraryPath": "libember.a",
                "SupportedArchitectures": processors,
            }
            | more
        )
    info = {"AvailableLibraries": listed, "CFBundlePackageType": "XFWK", "XCFrameworkFormatVersion": "1.0"}
    (folder / "Info.plist").write_bytes(plistlib.dumps(info))
    print(folder)


if __name__ == "__main__":
    main()
