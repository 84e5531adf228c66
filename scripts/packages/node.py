"""The npm packages: the module, and one for each system with the library, of which npm installs the one that fits."""

import json

from common import ROOT, licences, version, write_tar

SOURCES = ROOT / "bindings/node"


def tarball(out, package, files):
    name = package["name"].lstrip("@").replace("/", "-")
    files = {**files, "package.json": (json.dumps(package, indent=2) + "\n").encode()}
    write_tar(out / "node" / f"{name}-{package['version']}.tgz", {f"package/{file}": files[file] for file in files})


def pack(out, targets):
    package = json.loads((SOURCES / "package.json").read_text())
    for unwanted in ("private", "devDependencies"):
        package.pop(unwanted)
    package["files"] = ["*"]
    package["optionalDependencies"] = {}
    shared = {"license": package["license"], "version": version(), "engines": package["engines"]}
    for target in targets:
        system, processor, libc = target.node
        name = f"@{package['name']}/{target.node_name}"
        package["optionalDependencies"][name] = version()
        files, bill = licences(target)
        files["ember.cdx.json"] = bill
        files[target.library.split("/")[1]] = (target.folder / target.library).read_bytes()
        files["README.md"] = f"Ember's library for {target.name}. The package {package['name']} loads it.\n".encode()
        part = {"name": name, "description": f"Ember's library for {target.name}", **shared, "os": [system], "cpu": [processor]}
        if libc:
            part["libc"] = ["glibc" if libc == "gnu" else libc]
        tarball(out, part, files)
    files = {
        path.name: path.read_bytes()
        for path in sorted(SOURCES.iterdir())
        if path.suffix in (".mjs", ".ts", ".mts", ".md") and ".test." not in path.name and ".check." not in path.name
    }
    for name in ("LICENSE", "LICENSE-MIT", "LICENSE-APACHE"):
        files[name] = (ROOT / name).read_bytes()
    tarball(out, package, files)
