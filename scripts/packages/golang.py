"""The Go modules, as a module proxy serves them: a folder for GOPROXY=file://….

The module itself has the sources and the header. A module for each system has the static library; build constraints choose one, so
`go build` needs a C compiler and nothing else. The module's path is that of bindings/go/go.mod, or the option --go-module.
"""

import json
import re
import time

from common import ROOT, SYSTEM_LIBRARIES, epoch, licences, version, write_zip

SOURCES = ROOT / "bindings/go"


def module_path():
    return re.search(r"^module (.*)", (SOURCES / "go.mod").read_text(), re.M)[1]


def publish(out, path, files):
    """What a proxy says of one version of a module."""
    folder = out / "go" / path / "@v"
    folder.mkdir(parents=True, exist_ok=True)
    tag = f"v{version()}"
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch()))
    (folder / "list").write_text(tag + "\n")
    (folder / f"{tag}.info").write_text(json.dumps({"Version": tag, "Time": stamp}) + "\n")
    (folder / f"{tag}.mod").write_bytes(files["go.mod"])
    write_zip(folder / f"{tag}.zip", {f"{path}@{tag}/{name}": files[name] for name in files})


def constraint(target):
    """When the static library of this system is linked: in no build that says where to find another one."""
    system, processor, libc = target.go
    musl = [] if system != "linux" else ["ember_musl" if libc == "musl" else "!ember_musl"]
    return " && ".join(["cgo", system, processor, *musl, "!ember_pkgconfig", "!ember_flags", "!ember_static"])


def library(out, path, target):
    """The module with one system's library."""
    name = f"{path}/lib/{target.go_name}"
    flags = " ".join(["${SRCDIR}/libember.a", *SYSTEM_LIBRARIES[target.go[0]]])
    files, bill = licences(target)
    files["ember.cdx.json"] = bill
    files["libember.a"] = (target.folder / "lib/libember.a").read_bytes()
    files["go.mod"] = f"module {name}\n\ngo 1.24\n".encode()
    files["lib.go"] = (
        f"// Package lib links Ember's C library for {target.name}. The package {path} imports it.\n"
        f"package lib\n\n// #cgo LDFLAGS: {flags}\nimport \"C\"\n"
    ).encode()
    publish(out, name, files)
    return name


def pack(out, targets, path=None):
    ours, path = module_path(), path or module_path()
    files = {"ember.h": (ROOT / "include/ember.h").read_bytes()}
    for source in sorted(SOURCES.rglob("*")):
        name = source.relative_to(SOURCES).as_posix()
        if source.suffix in (".go", ".c", ".h", ".md") and not name.endswith("_test.go") and "node_modules" not in name:
            files[name] = source.read_text().replace(ours, path).encode()
    for name in ("LICENSE", "LICENSE-MIT", "LICENSE-APACHE"):
        files[name] = (ROOT / name).read_bytes()
    requires = []
    for target in targets:
        name = library(out, path, target)
        requires.append(f"\t{name} v{version()}\n")
        files[f"link_{target.go_name}.go"] = (
            f"//go:build {constraint(target)}\n\npackage ember\n\n// #cgo CFLAGS: -I${{SRCDIR}}\nimport \"C\"\n\n"
            f"import _ \"{name}\"\n"
        ).encode()
    files["go.mod"] = f"module {path}\n\ngo 1.24\n\nrequire (\n{''.join(requires)})\n".encode()
    # An installed library is what remains where there is none of ours.
    others = " && ".join(f"!({constraint(target)})" for target in targets)
    linked = files["link_pkgconfig.go"].decode()
    files["link_pkgconfig.go"] = linked.replace(
        "//go:build !ember_flags && !ember_static\n", f"//go:build !ember_flags && !ember_static && {others}\n"
    ).encode()
    assert files["link_pkgconfig.go"].decode() != linked, "link_pkgconfig.go has another constraint"
    publish(out, path, files)
