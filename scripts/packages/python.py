"""Python's wheels, one for each system: pip's, made by setuptools, which bindings/python/setup.py tells the system. And a source
distribution, from which pip builds the library with cargo."""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib

from common import ROOT, epoch, licences, program, version, write_tar

SOURCES = ROOT / "bindings/python"


def pack(out, targets):
    folder = out / "python"
    folder.mkdir(parents=True, exist_ok=True)
    source(folder)
    for target in targets:
        with tempfile.TemporaryDirectory() as work:
            # In a copy, because building leaves files among the sources.
            for name in ("pyproject.toml", "setup.py", "README.md"):
                shutil.copy(SOURCES / name, work)
            shutil.copytree(SOURCES / "src", f"{work}/src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so"))
            os.mkdir(f"{work}/licenses")
            ember, texts, _ = program(target)
            for name, text in {**licences(target)[0], **texts}.items():
                with open(f"{work}/licenses/{name}", "wb") as file:
                    file.write(text)
            # Under the name by which the program looks for it.
            library = shutil.copy(target.folder / target.library, f"{work}/{target.soname}")
            bills = [str(target.folder / "ember.cdx.json")]
            if ember:
                shutil.copy(ember, work)
                bills.append(str(ember.parent / "ember-program.cdx.json"))
            # As files lie here they may be for their owner alone.
            for inside, folders, files in os.walk(work):
                for name in folders:
                    os.chmod(f"{inside}/{name}", 0o755)
                for name in files:
                    os.chmod(f"{inside}/{name}", 0o755 if ember and name == ember.name else 0o644)
            settings = {
                "EMBER_LIBRARY": library,
                "EMBER_WHEEL_PLATFORM": target.wheel,
                "EMBER_PROGRAM": f"{work}/{ember.name}" if ember else "",
                "EMBER_WHEEL_BILLS": os.pathsep.join(bills),
                "SOURCE_DATE_EPOCH": str(max(epoch(), 315532800)),
            }
            command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation"]
            subprocess.run([*command, "-w", str(folder), work], check=True, env={**os.environ, **settings})


def source(folder):
    """The source distribution: setuptools', in an archive that has the same bytes each time."""
    with tempfile.TemporaryDirectory() as work:
        for name in ("pyproject.toml", "setup.py", "README.md"):
            shutil.copy(SOURCES / name, work)
        shutil.copytree(SOURCES / "src", f"{work}/src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so"))
        os.mkdir(f"{work}/licenses")
        for name in ("LICENSE", "LICENSE-APACHE", "LICENSE-MIT"):
            shutil.copy(ROOT / name, f"{work}/licenses")
        for name in rust_files():
            file = f"{work}/rust/{name}"
            os.makedirs(os.path.dirname(file), exist_ok=True)
            shutil.copy(ROOT / name, file)
        with open(f"{work}/MANIFEST.in", "w") as file:
            file.write("graft rust\ngraft licenses\n")
        made = "import os, sys, setuptools.build_meta as b; print(b.build_sdist(sys.argv[1]))"
        subprocess.run([sys.executable, "-c", made, f"{work}/out"], cwd=work, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        name = f"ember_inference-{version()}.tar.gz"
        with tarfile.open(f"{work}/out/{name}") as archive:
            files = {m.name: archive.extractfile(m).read() for m in archive if m.isfile()}
        write_tar(folder / name, files)


def rust_files():
    """The files of the Rust package, as the list `include` in Cargo.toml has them."""
    with open(ROOT / "Cargo.toml", "rb") as file:
        patterns = tomllib.load(file)["package"]["include"]
    names = [pattern.removeprefix("/") for pattern in patterns] + ["Cargo.toml", "Cargo.lock"]
    listed = subprocess.check_output(["git", "ls-files", "-z", "--", *names], cwd=ROOT, text=True)
    return sorted(filter(None, listed.split("\0")))
