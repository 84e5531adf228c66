"""Packs libraries that scripts/release.sh built for C, Go, Java, Kotlin, .NET, Node and Python, into build/packages. Needs no Rust. The
packages for Java and Kotlin need javac 22, beside JAVA or in PATH, Kotlin's needs Maven, which fetches its compiler, and .NET's needs mcs,
Mono's compiler; they are left out without these.

    python3 scripts/packages [--out FOLDER] [--go-module PATH] [TARGET…]

TARGET are names of scripts/release.sh; without one all that lie in build/release, or in
EMBER_BUILT, are packed. The same libraries give the same bytes.
"""

import argparse
import hashlib
import os
import pathlib
import shutil
import sys

import android
import c
import debian
import dotnet
import golang
import java
import kotlin
import node
import python
import recipes
from common import BUILT, ROOT, TARGETS


def main():
    parser = argparse.ArgumentParser(prog="packages", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/packages")
    parser.add_argument("--go-module", help="the Go module's path; default: that of bindings/go/go.mod")
    parser.add_argument("targets", nargs="*")
    args = parser.parse_args()
    known = {target.name: target for target in TARGETS}
    for name in args.targets:
        if name not in known:
            sys.exit(f"packages: there is no target {name}; there are {', '.join(known)}")
        if not known[name].folder.is_dir():
            sys.exit(f"packages: there is no {known[name].folder}; please run make release TARGET={name}")
    targets = [target for target in TARGETS if (target.name in args.targets or not args.targets) and target.folder.is_dir()]
    if not targets:
        sys.exit(f"packages: nothing lies in {BUILT}; please run make release TARGET=x86_64-linux-gnu")
    os.umask(0o022)
    shutil.rmtree(args.out, ignore_errors=True)
    c.pack(args.out, targets)
    debian.pack(args.out, targets)
    recipes.pack(args.out, targets)
    golang.pack(args.out, targets, args.go_module)
    node.pack(args.out, targets)
    python.pack(args.out, targets)
    java.pack(args.out, targets)
    kotlin.pack(args.out, targets)
    android.pack(args.out)
    dotnet.pack(args.out, targets)
    files = sorted(path for path in args.out.rglob("*") if path.is_file())
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(args.out).as_posix()}\n" for path in files]
    (args.out / "SHA256SUMS").write_text("".join(sums))
    for path in files:
        if path.suffix in (".zip", ".tgz", ".gz", ".whl", ".jar", ".aar", ".nupkg", ".deb"):
            print(f"{path.stat().st_size:12,}  {path.relative_to(args.out)}")


main()
