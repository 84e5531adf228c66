"""Recipes of package managers for C and C++ over the archives in `c`: Conan's, vcpkg's and Homebrew's."""

import hashlib
import json
import re
import shutil

from common import ROOT, version

SOURCES = ROOT / "packaging"


def pack(out, targets):
    conan(out / "conan")
    archives = {}
    for path in (out / "c").iterdir():
        name = path.name.removeprefix(f"ember-{version()}-").removesuffix(".tar.gz").removesuffix(".zip")
        archives[name] = path.read_bytes()

    def filled(template, digest):
        """Checksums of archives that were not built stay empty, so that a package manager refuses what it downloads for them."""

        def value(match):
            if match[1] == "VERSION":
                return version()
            return digest(archives[match[1]]).hexdigest() if match[1] in archives else ""

        return re.sub(r"@([A-Za-z0-9_-]+)@", value, (SOURCES / template).read_text())

    port = out / "vcpkg/ember-inference"
    port.mkdir(parents=True)
    (port / "portfile.cmake").write_text(filled("vcpkg/portfile.cmake.in", hashlib.sha512))
    about = {
        "name": "ember-inference",
        "version": version(),
        "description": "Language models on the CPU, inside your own process, as a C library",
        "homepage": "https://ember.example",
        "license": "MIT OR Apache-2.0",
        "supports": "(windows & (x64 | arm64)) | (osx & (x64 | arm64)) | (linux & (x64 | arm64))",
    }
    (port / "vcpkg.json").write_text(json.dumps(about, indent=2) + "\n")
    (out / "homebrew").mkdir()
    (out / "homebrew/ember-inference.rb").write_text(filled("homebrew/ember-inference.rb.in", hashlib.sha256))


def conan(out):
    shutil.copytree(SOURCES / "conan", out, ignore=shutil.ignore_patterns("__pycache__"))
    (out / "VERSION").write_text(f"{version()}\n")
