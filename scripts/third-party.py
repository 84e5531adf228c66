#!/usr/bin/env python3
"""What other authors' code is in the library: their licences, and a bill of materials.

    scripts/third-party.py FOLDER [--target TRIPLE] [--program] [--runtime NAME VERSION LICENCE FILE] [CARGO-OPTION…]

With --program the same of the command-line program, in THIRD-PARTY-LICENSES-PROGRAM.txt and ember-program.cdx.json. Writes THIRD-PARTY-LICENSES.txt and ember.cdx.json (CycloneDX 1.5) into FOLDER. Both say what `cargo metadata` says of
the crates that the library is built from, with the features that CARGO-OPTION chooses, without using the network; the
texts of the licences are those in the crates' packages. --runtime names what the linker puts into the library beside them, with the
file of its licence, or - for none. The same sources give the same bytes.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Names of files that hold a licence or a notice.
LICENCE = re.compile(r"(?i)^(licen[cs]e|copying|copyright|notice|unlicense)([-._].*)?$")


def run(*command):
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def compiler():
    """The compiler's version and its own target, by the name of the field."""
    return dict(line.split(": ", 1) for line in run("rustc", "-vV").splitlines() if ": " in line)


def linked(metadata, built):
    """The packages that the library is built from, out of those that are `built` (pairs of a name and a version; the
    graph of `cargo metadata` has some that no feature asks for), each with whether its code ends up in the library: what only the
    compiler runs (macros, and what they use) does not."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    packages = {package["id"]: package for package in metadata["packages"]}

    def is_macro(package):
        return any("proc-macro" in target["kind"] for target in package["targets"])

    found = {}
    todo = [(metadata["resolve"]["root"], True)]
    while todo:
        name, inside = todo.pop()
        inside = inside and not is_macro(packages[name])
        if found.get(name, False) or (name in found and not inside):
            continue
        found[name] = inside
        for dependency in nodes[name]["deps"]:
            package = packages[dependency["pkg"]]
            is_built = (package["name"], package["version"]) in built
            if is_built and any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                todo.append((dependency["pkg"], inside))
    edges = {
        name: sorted(
            d["pkg"]
            for d in nodes[name]["deps"]
            if d["pkg"] in found and any(k["kind"] is None for k in d["dep_kinds"])
        )
        for name in found
    }
    return {name: (packages[name], inside) for name, inside in found.items()}, edges


def expression(package):
    """The licence as an SPDX expression; old packages write a slash for OR."""
    return (package["license"] or "").replace("/", " OR ").replace("  ", " ") or None


def texts(package):
    """The licence texts in a package: pairs of a file's name and its text."""
    folder = pathlib.Path(package["manifest_path"]).parent
    names = {name for name in os.listdir(folder) if LICENCE.match(name) and (folder / name).is_file()}
    if package["license_file"]:
        names.add(package["license_file"])
    return [(name, (folder / name).read_text(encoding="utf-8", errors="replace")) for name in sorted(names)]


def reference(package):
    """The package's address; Ember itself comes from no registry."""
    kind = "cargo" if package["source"] else "generic"
    return f"pkg:{kind}/{package['name']}@{package['version']}"


def component(package, inside, checksum):
    out = {
        "type": "library",
        "bom-ref": reference(package),
        "name": package["name"],
        "version": package["version"],
        "purl": reference(package),
        "scope": "required" if inside else "excluded",
    }
    if package["authors"]:
        out["author"] = ", ".join(package["authors"])
    if package["description"]:
        out["description"] = " ".join(package["description"].split())
    if expression(package):
        out["licenses"] = [{"expression": expression(package)}]
    if checksum:
        out["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package["repository"]:
        out["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--target", help="what the library is built for; default: this machine")
    parser.add_argument("--program", action="store_true", help="of the command-line program, not of the library")
    parser.add_argument("--runtime", nargs=4, action="append", default=[], metavar=("NAME", "VERSION", "LICENCE", "FILE"))
    args, options = parser.parse_known_args()
    what, where, mark = ("program", ROOT / "cli", "-PROGRAM") if args.program else ("library", ROOT, "")
    rust = compiler()
    target = args.target or rust["host"]
    cargo, fixed = os.environ.get("CARGO", "cargo"), ["--manifest-path", str(where / "Cargo.toml"), "--locked", "--offline", *options]
    metadata = json.loads(run(cargo, "metadata", "--format-version=1", "--filter-platform", target, *fixed))
    tree = run(cargo, "tree", "--target", target, "--edges=normal", "--prefix=none", "--format={p}", *fixed)
    built = {(name, version.removeprefix("v")) for name, version, *_ in map(str.split, tree.splitlines())}
    found, edges = linked(metadata, built)
    root = metadata["resolve"]["root"]
    with open(where / "Cargo.lock", "rb") as lock:
        checksums = {(p["name"], p["version"]): p.get("checksum") for p in tomllib.load(lock)["package"]}
    # Ember's own packages come from no registry.
    others = sorted(
        (entry for name, entry in found.items() if entry[0]["source"]), key=lambda e: (e[0]["name"], e[0]["version"])
    )
    args.folder.mkdir(parents=True, exist_ok=True)

    std = {
        "type": "library",
        "bom-ref": f"rust-std@{rust['release']}",
        "name": "rust-std",
        "version": rust["release"],
        "description": "The Rust standard library, as the compiler brings it",
        "licenses": [{"expression": "MIT OR Apache-2.0"}],
        "scope": "required",
        "externalReferences": [{"type": "vcs", "url": "https://github.com/rust-lang/rust"}],
    }
    runtimes = [
        {
            "type": "library",
            "bom-ref": f"{name}@{version}",
            "name": name,
            "version": version,
            "licenses": [{"expression": licence}],
            "scope": "required",
        }
        for name, version, licence, _ in args.runtime
    ]
    ember, _ = found[root]
    main_component = component(ember, True, None) | {"bom-ref": reference(ember)}
    main_component["properties"] = [{"name": "ember:target", "value": target}]
    components = [component(p, inside, checksums[p["name"], p["version"]]) for p, inside in others]
    components += [component(p, inside, None) for name, (p, inside) in found.items() if not p["source"] and name != root]
    components += [std, *runtimes]
    dependencies = [
        {"ref": reference(found[name][0]), "dependsOn": sorted(reference(found[d][0]) for d in edges[name])}
        for name in sorted(found, key=lambda name: reference(found[name][0]))
    ]
    dependencies[[d["ref"] for d in dependencies].index(reference(ember))]["dependsOn"] += [
        entry["bom-ref"] for entry in (std, *runtimes)
    ]
    content = json.dumps([main_component, components, dependencies], sort_keys=True)
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        # A name for exactly this content.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, content)}",
        "version": 1,
        "metadata": {"component": main_component},
        "components": components,
        "dependencies": dependencies,
    }
    (args.folder / f"ember{mark.lower()}.cdx.json").write_text(json.dumps(bill, indent=1, ensure_ascii=False) + "\n")

    # Each text once, with the crates that come with it.
    by_text, bare = {}, []
    for package, inside in others:
        if not inside:
            continue
        own = texts(package)
        for name, text in own:
            by_text.setdefault(text.strip().replace("\r\n", "\n"), []).append((package, name))
        if not own:
            bare.append(package)
        if not own and not expression(package):
            sys.exit(f"third-party: {package['name']} {package['version']} names no licence")
    lines = [
        f"The {what} contains code of these packages, each used under a licence that its authors offer.",
        f"Target: {target}. The Rust standard library {rust['release']} (MIT OR Apache-2.0,",
        "https://github.com/rust-lang/rust) is part of it too.",
        *(f"So is {name} {version} ({licence})." for name, version, licence, _ in args.runtime),
        "",
    ]
    lines += [
        f"  {p['name']} {p['version']}: {expression(p) or 'see below'}" for p, inside in others if inside
    ]
    if bare:
        lines += ["", "These come without the text of their licence; they are:"]
        lines += [f"  {p['name']} {p['version']}, by {', '.join(p['authors']) or p['repository']}" for p in bare]
    for text, owners in sorted(by_text.items(), key=lambda item: [(p["name"], n) for p, n in item[1]]):
        names = ", ".join(f"{p['name']} {p['version']} ({name})" for p, name in owners)
        lines += ["", "=" * 100, names, "=" * 100, "", text]
    for name, version, _, file in args.runtime:
        if file != "-":
            lines += ["", "=" * 100, f"{name} {version}", "=" * 100, "", pathlib.Path(file).read_text(encoding="utf-8").strip()]
    (args.folder / f"THIRD-PARTY-LICENSES{mark}.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
