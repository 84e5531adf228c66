"""What the packages of all languages share: the systems, the version, and archives that are the same bytes each time."""

import gzip
import io
import os
import pathlib
import re
import subprocess
import tarfile
import time
import zipfile
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# What scripts/release.sh built.
BUILT = ROOT / os.environ.get("EMBER_BUILT", "build/release")


class Target(NamedTuple):
    """A system: what scripts/release.sh calls it, and what the packages of each language do."""

    name: str
    library: str  # the shared library below the folder of that name
    wheel: str
    node: tuple[str, str, str]  # platform, processor, C library
    go: tuple[str, str, str]  # GOOS, GOARCH, C library
    java: str

    @property
    def soname(self):
        """The name by which programs look for the shared library."""
        name, major = self.library.split("/")[1], version().split(".")[0]
        return {"libember.so": f"libember.so.{major}", "libember.dylib": f"libember.{major}.dylib"}.get(name, name)

    @property
    def node_name(self):
        return "-".join(part for part in self.node if part)

    @property
    def rid(self):
        """What .NET calls the system: linux-musl-x64, say."""
        system, processor, libc = self.node
        return "-".join([{"darwin": "osx", "win32": "win"}.get(system, system), *(["musl"] if libc == "musl" else []), processor])

    @property
    def go_name(self):
        return "_".join(part for part in self.go if part)

    @property
    def folder(self):
        return BUILT / self.name


TARGETS = [
    Target("x86_64-linux-gnu", "lib/libember.so", "manylinux_2_28_x86_64", ("linux", "x64", "gnu"), ("linux", "amd64", ""), "linux-x86_64"),
    Target("aarch64-linux-gnu", "lib/libember.so", "manylinux_2_28_aarch64", ("linux", "arm64", "gnu"), ("linux", "arm64", ""), "linux-aarch64"),
    Target("x86_64-linux-musl", "lib/libember.so", "musllinux_1_2_x86_64", ("linux", "x64", "musl"), ("linux", "amd64", "musl"), "musl-x86_64"),
    Target("aarch64-linux-musl", "lib/libember.so", "musllinux_1_2_aarch64", ("linux", "arm64", "musl"), ("linux", "arm64", "musl"), "musl-aarch64"),
    Target("x86_64-apple-darwin", "lib/libember.dylib", "macosx_11_0_x86_64", ("darwin", "x64", ""), ("darwin", "amd64", ""), "macos-x86_64"),
    Target("aarch64-apple-darwin", "lib/libember.dylib", "macosx_11_0_arm64", ("darwin", "arm64", ""), ("darwin", "arm64", ""), "macos-aarch64"),
    Target("x86_64-windows-gnu", "bin/ember.dll", "win_amd64", ("win32", "x64", ""), ("windows", "amd64", ""), "windows-x86_64"),
    Target("aarch64-windows-gnullvm", "bin/ember.dll", "win_arm64", ("win32", "arm64", ""), ("windows", "arm64", ""), "windows-aarch64"),
]

# What a static library made by Rust needs of the system.
SYSTEM_LIBRARIES = {
    "linux": ["-lpthread", "-ldl", "-lm"],
    "darwin": [],
    "windows": ["-lws2_32", "-luserenv", "-lntdll", "-lbcrypt", "-ladvapi32"],
}


def version():
    """That of Cargo.toml."""
    return re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]


def epoch():
    """The time that all files bear: SOURCE_DATE_EPOCH, or that of the last commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return int(given or subprocess.check_output(["git", "log", "-1", "--format=%ct"], cwd=ROOT))


def licences(target):
    """The licences of all code in a library, and its bill of materials, by their names in a package."""
    files = {path.name: path.read_bytes() for path in sorted((target.folder / "licenses").iterdir())}
    return files, (target.folder / "ember.cdx.json").read_bytes()


def program(target):
    """The command-line program, the licences of the code in it by their names, and its bill of materials; none where it was not built."""
    folder = target.folder / "program"
    if not folder.is_dir():
        return None, {}, b""
    name = "ember.exe" if "windows" in target.name else "ember"
    licences = {"THIRD-PARTY-LICENSES-PROGRAM.txt": (folder / "THIRD-PARTY-LICENSES-PROGRAM.txt").read_bytes()}
    return folder / name, licences, (folder / "ember-program.cdx.json").read_bytes()


def write_zip(path, files):
    """`files` are the bytes by their names."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Zip has two-second steps that begin in 1980.
    stamp = time.gmtime(max(epoch(), 315532800))[:6]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, stamp)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system, info.external_attr = 3, 0o100644 << 16
            archive.writestr(info, files[name])


def write_tar(path, files, links=()):
    """A .tar.gz; `links` are targets of symbolic links by their names."""
    path.parent.mkdir(parents=True, exist_ok=True)
    links = dict(links)
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted([*files, *links]):
            info = tarfile.TarInfo(name)
            info.mtime = epoch()
            runs = ".so" in name or name.endswith((".dylib", ".dll")) or "/bin/" in name
            info.mode = 0o755 if runs else 0o644
            if name in links:
                info.type, info.linkname = tarfile.SYMTYPE, links[name]
                archive.addfile(info)
            else:
                info.size = len(files[name])
                archive.addfile(info, io.BytesIO(files[name]))
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(raw.getbuffer())
