"""The NuGet package: one with the class library, and each system's library in the folder where .NET looks for it."""

import hashlib
import pathlib
import shutil
import struct
import subprocess
import tempfile

from common import ROOT, licences, version, write_zip

SOURCES = ROOT / "bindings/dotnet"
NAME = "Ember.Inference"
SPECIFICATION = f"""<?xml version="1.0" encoding="utf-8"?>
<package xmlns="http://schemas.microsoft.com/packaging/2013/05/nuspec.xsd">
  <metadata>
    <id>{NAME}</id>
    <version>VERSION</version>
    <authors>Ember</authors>
    <requireLicenseAcceptance>false</requireLicenseAcceptance>
    <license type="expression">MIT OR Apache-2.0</license>
    <readme>README.md</readme>
    <description>Runs language models on the CPU, inside the .NET process</description>
    <dependencies>
      <group targetFramework=".NETStandard2.0" />
    </dependencies>
  </metadata>
</package>
"""
# .NET Framework takes no native files of packages by itself: its projects copy them.
TARGETS = """<?xml version="1.0" encoding="utf-8"?>
<Project xmlns="http://schemas.microsoft.com/developer/msbuild/2003">
  <ItemGroup>
FILES  </ItemGroup>
</Project>
"""
COPIED = """    <None Include="$(MSBuildThisFileDirectory)..\\..\\NAME">
      <Link>NAME</Link>
      <CopyToOutputDirectory>PreserveNewest</CopyToOutputDirectory>
      <Visible>false</Visible>
    </None>
"""
TYPES = """<?xml version="1.0" encoding="utf-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
  <Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml" />
EXTENSIONS</Types>
"""
RELATIONS = f"""<?xml version="1.0" encoding="utf-8"?>
<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
  <Relationship Type="http://schemas.microsoft.com/packaging/2010/07/manifest" Target="/{NAME}.nuspec" Id="R1" />
</Relationships>
"""


def reproducible(assembly):
    """An assembly with the time of its making left out, and its random number in place of which it gets its hash."""
    data = bytearray(assembly)

    def u16(at):
        return struct.unpack_from("<H", data, at)[0]

    def u32(at):
        return struct.unpack_from("<I", data, at)[0]

    header = u32(0x3C)
    if data[header : header + 4] != b"PE\0\0" or u16(header + 24) != 0x10B:
        raise ValueError("Ember.dll is no 32-bit PE file, as compilers for .NET write")
    first = header + 24 + u16(header + 20)
    sections = [first + 40 * i for i in range(u16(header + 6))]

    def place(address):
        for section in sections:
            start = u32(section + 12)
            if start <= address < start + u32(section + 16):
                return u32(section + 20) + address - start
        raise ValueError(f"Ember.dll has nothing at address {address:#x}")

    struct.pack_into("<I", data, header + 8, 0)
    metadata = place(u32(place(u32(header + 24 + 96 + 14 * 8)) + 8))
    at = metadata + 16 + u32(metadata + 12)
    streams = {}
    for _ in range(u16(at + 2)):
        offset, size = struct.unpack_from("<II", data, at + 4)
        end = data.index(0, at + 12)
        streams[bytes(data[at + 12 : end])] = metadata + offset, size
        at += 8 + (end - at - 12) // 4 * 4 + 4
    guid, size = streams[b"#GUID"]
    if size != 16:
        raise ValueError(f"Ember.dll has {size // 16} random numbers, and not one")
    data[guid : guid + 16] = bytes(16)
    data[guid : guid + 16] = hashlib.sha256(data).digest()[:16]
    return bytes(data)


def pack(out, targets):
    if not shutil.which("mcs"):
        print("packages: there is no mcs (Debian's mono-mcs), so there is no package for .NET")
        return
    files = {}
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        subprocess.run([SOURCES / "compile.sh", work / "Ember.dll"], check=True)
        files["lib/netstandard2.0/Ember.dll"] = reproducible((work / "Ember.dll").read_bytes())
        files["lib/netstandard2.0/Ember.xml"] = (work / "Ember.xml").read_bytes()
    files["README.md"] = (SOURCES / "README.md").read_bytes()
    for name in ("LICENSE", "LICENSE-MIT", "LICENSE-APACHE"):
        files[name] = (ROOT / name).read_bytes()
    copied = []
    for target in targets:
        texts, bill = licences(target)
        files.update({f"licenses/{target.rid}/{name}": text for name, text in texts.items()})
        files[f"sbom/{target.rid}/ember.cdx.json"] = bill
        library = target.folder / target.library
        name = f"runtimes/{target.rid}/native/{library.name}"
        files[name] = library.read_bytes()
        copied.append(COPIED.replace("NAME", name.replace("/", "\\")))
    files[f"build/net471/{NAME}.targets"] = TARGETS.replace("FILES", "".join(copied)).encode()
    files[f"{NAME}.nuspec"] = SPECIFICATION.replace("VERSION", version()).encode()
    files["_rels/.rels"] = RELATIONS.encode()
    # Every part of the package has a type, by its extension or, without one, by its name.
    kinds = set()
    for name in files:
        last = name.rpartition("/")[2]
        if "." not in last:
            kinds.add(f'  <Override PartName="/{name}" ContentType="application/octet" />\n')
        elif not last.endswith(".rels"):
            kinds.add(f'  <Default Extension="{last.rpartition(".")[2]}" ContentType="application/octet" />\n')
    files["[Content_Types].xml"] = TYPES.replace("EXTENSIONS", "".join(sorted(kinds))).encode()
    write_zip(out / "dotnet" / f"{NAME}.{version()}.nupkg", files)
