"""Debian packages of the library: libember0 and libember-dev. Any Debian or Ubuntu with glibc 2.28 takes them."""

import gzip
import hashlib
import os
import pathlib
import re
import subprocess
import tempfile
import time

from common import ROOT, epoch, licences, version

# Debian's name of the architecture, and of its folder of libraries.
ARCHITECTURES = {"x86_64-linux-gnu": ("amd64", "x86_64-linux-gnu"), "aarch64-linux-gnu": ("arm64", "aarch64-linux-gnu")}
MAINTAINER = "Ember's authors <packages@ember.example>"
ABOUT = """ Ember loads GGUF files and Hugging Face folders and gives text, tool calls,
 embeddings or logits, inside the process that calls it."""


def control(name, architecture, size, fields, short, more):
    lines = {
        "Package": name,
        "Source": "ember",
        "Version": version(),
        "Architecture": architecture,
        "Maintainer": MAINTAINER,
        "Installed-Size": str(size),
        **fields,
        "Multi-Arch": "same",
        "Priority": "optional",
        "Homepage": "https://ember.example",
        "Description": short,
    }
    return "".join(f"{key}: {value}\n" for key, value in lines.items()) + f"{ABOUT}\n .\n {more}\n"


def copyright_file(texts):
    """What is said of the code, in Debian's machine-readable form: Ember's own terms, then those of the code in it."""

    def indented(text):
        return "".join(f" {line.rstrip()}\n" if line.strip() else " .\n" for line in text.splitlines())

    own = texts["LICENSE-MIT"].decode()
    head = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: Ember\nSource: https://ember.example\n"
    others = "Crates in the library, with their licences, are listed in THIRD-PARTY-LICENSES.txt in this folder.\n"
    files = f"Files: *\nCopyright: {re.search(r'(?i)copyright.*', own)[0]}\nLicense: Expat or Apache-2.0\n"
    apache = "License: Apache-2.0\n On Debian systems the full text is in /usr/share/common-licenses/Apache-2.0.\n"
    return f"{head}Comment: {others}\n{files}\nLicense: Expat\n{indented(own)}\n{apache}".encode()


def changelog(name):
    """Debian's own: what changed stands in CHANGELOG.md."""
    date = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(epoch()))
    text = f"ember ({version()}) unstable; urgency=medium\n\n  * Release {version()}: see CHANGELOG.md.\n\n -- {MAINTAINER}  {date}\n"
    return gzip.compress(text.encode(), 9, mtime=0)


def build(out, name, architecture, tree, fields, short, more, scripts=()):
    """Writes the package of the files in `tree`, which are bytes, or targets of links, by their paths."""
    with tempfile.TemporaryDirectory() as work:
        root = pathlib.Path(work) / "root"
        size, sums = 0, []
        for path, content in sorted(tree.items()):
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, str):
                os.symlink(content, file)
                continue
            file.write_bytes(content)
            file.chmod(0o644)
            size += -(-len(content) // 1024)
            sums.append(f"{hashlib.md5(content).hexdigest()}  {path}\n")
        about = root / "DEBIAN"
        about.mkdir()
        (about / "control").write_text(control(name, architecture, size, fields, short, more))
        (about / "md5sums").write_text("".join(sums))
        for file, text in dict(scripts).items():
            (about / file).write_text(text)
        for folder, folders, files in os.walk(root):
            for inside in folders:
                os.chmod(f"{folder}/{inside}", 0o755)
            if folder == str(about):
                for inside in files:
                    os.chmod(f"{folder}/{inside}", 0o644)
        package = out / f"{name}_{version()}_{architecture}.deb"
        command = ["dpkg-deb", "--root-owner-group", "-Zxz", "--uniform-compression", "--build", str(root), str(package)]
        # Times of files are no later than this.
        settings = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch())}
        for folder, _, files in os.walk(root):
            for path in [folder, *(f"{folder}/{file}" for file in files)]:
                os.utime(path, (epoch(), epoch()), follow_symlinks=False)
        subprocess.run(command, check=True, env=settings, stdout=subprocess.DEVNULL)


def documents(name, texts, bill):
    folder = f"usr/share/doc/{name}"
    return {
        f"{folder}/copyright": copyright_file(texts),
        f"{folder}/changelog.gz": changelog(name),
        f"{folder}/THIRD-PARTY-LICENSES.txt.gz": gzip.compress(texts["THIRD-PARTY-LICENSES.txt"], 9, mtime=0),
        f"{folder}/ember.cdx.json.gz": gzip.compress(bill, 9, mtime=0),
    }


def pack(out, targets):
    out = out / "debian"
    for target in targets:
        if target.name not in ARCHITECTURES:
            continue
        out.mkdir(parents=True, exist_ok=True)
        architecture, folder = ARCHITECTURES[target.name]
        major = version().split(".")[0]
        with tempfile.TemporaryDirectory() as work:
            settings = {**os.environ, "DESTDIR": work, "PREFIX": "/usr", "LIBDIR": f"/usr/lib/{folder}", "INCLUDEDIR": "/usr/include"}
            subprocess.run([ROOT / "scripts/install.sh", target.folder / "lib"], check=True, env=settings)
            shared, develop = {}, {}
            for inside, _, files in os.walk(work):
                for file in files:
                    path = f"{inside}/{file}"
                    content = os.readlink(path) if os.path.islink(path) else pathlib.Path(path).read_bytes()
                    (shared if f"libember.so.{major}" in file else develop)[os.path.relpath(path, work)] = content
        texts, bill = licences(target)
        name = f"libember{major}"
        build(
            out,
            name,
            architecture,
            {**shared, **documents(name, texts, bill)},
            {"Section": "libs", "Depends": "libc6 (>= 2.28)"},
            "language models on the CPU, inside your process (shared library)",
            "This package has the shared library.",
            {"shlibs": f"libember {major} {name} (>= {version()})\n", "triggers": "activate-noawait ldconfig\n"},
        )
        build(
            out,
            "libember-dev",
            architecture,
            {**develop, **documents("libember-dev", texts, bill)},
            {"Section": "libdevel", "Depends": f"{name} (= {version()})"},
            "language models on the CPU, inside your process (development files)",
            "This package has the headers for C and C++, the static library, and files\n for pkg-config and CMake.",
        )
