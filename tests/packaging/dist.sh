#!/bin/sh
# Makes the archive twice, unpacks it and builds an example with nothing but what is in it.
#
#   tests/packaging/dist.sh FOLDER
#
# FOLDER holds the libraries as cargo makes them.
set -eu

[ $# -eq 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
from=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
model=$PWD/examples/models/ember-tales.gguf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "dist: $*" >&2; exit 1; }

archive=$(scripts/dist.sh "$from")
first=$(sha256sum <"$archive")
touch "$from/libember.a"
archive=$(umask 077 && scripts/dist.sh "$from")
[ "$(sha256sum <"$archive")" = "$first" ] || die "the same libraries give another archive"

tar -xzf "$archive" -C "$work"
top=$(ls "$work")
[ "$top.tar.gz" = "$(basename "$archive")" ] || die "the archive holds \"$top\""
mv "$work/$top" "$work/moved"
for file in README.md CHANGELOG.md ember.cdx.json licenses/LICENSE licenses/LICENSE-MIT licenses/LICENSE-APACHE; do
    [ -s "$work/moved/$file" ] || die "there is no $file in the archive"
done
if readelf -S "$work/moved/lib/libember.so" "$work/moved/lib/libember.a" | grep -q '\.debug_'; then
    die "there is debug information in the archive"
fi
(cd "$work/moved/lib" && "$OLDPWD/tests/capi/symbols.sh" .)

export PKG_CONFIG_LIBDIR="$work/moved/lib/pkgconfig"
cc=${CC:-cc}
mkdir "$work/elsewhere"
cp examples/c/generate.c examples/c/common.h "$work/elsewhere"
cd "$work/elsewhere"
# shellcheck disable=SC2046
"$cc" -std=c99 -Wall -Werror generate.c -o shared $(pkg-config --cflags --libs ember) "-Wl,-rpath,$work/moved/lib"
# shellcheck disable=SC2046
"$cc" -std=c99 -Wall -Werror generate.c -o static $(pkg-config --cflags ember) "$work/moved/lib/libember.a" \
    $(pkg-config --static --libs-only-l ember | sed 's/-lember//')
for program in shared static; do
    ./$program -m "$model" -p "Once upon a time" -n 4 --temp 0 2>/dev/null >$program.txt || die "the $program program fails"
    grep -q '^Once upon a time' $program.txt || die "the $program program prints \"$(cat $program.txt)\""
    echo "dist: the $program program runs"
done
cd "$OLDPWD"

python3 - "$work/moved" <<'PY'
import json, pathlib, subprocess, sys
root = pathlib.Path(sys.argv[1])
bill = json.loads((root / "ember.cdx.json").read_text())
text = (root / "licenses/THIRD-PARTY-LICENSES.txt").read_text()
assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5"), "the bill is CycloneDX 1.5"
listed = {(c["name"], c["version"]): c for c in bill["components"]}
tree = subprocess.run(
    ["cargo", "tree", "--offline", "--edges=normal", "--prefix=none", "--format={p}"], check=True, capture_output=True, text=True
).stdout
wanted = {tuple(line.split()[:2]) for line in tree.splitlines()}
wanted = {(name, version.removeprefix("v")) for name, version in wanted} - {("ember-inference", bill["metadata"]["component"]["version"])}
assert len(wanted) > 20, f"cargo tree names {len(wanted)} crates"
assert wanted | {k for k in listed if k[0] == "rust-std"} == set(listed), f"the bill differs from cargo tree: {wanted ^ set(listed)}"
for (name, version), component in listed.items():
    assert component.get("licenses"), f"{name} has no licence"
    assert name == "rust-std" or component["hashes"][0]["alg"] == "SHA-256", f"{name} has no checksum"
    if component["scope"] == "required":
        assert f"{name} {version}" in text or name == "rust-std", f"{name} is not in THIRD-PARTY-LICENSES.txt"
references = {c["bom-ref"] for c in bill["components"]} | {bill["metadata"]["component"]["bom-ref"]}
for entry in bill["dependencies"]:
    assert {entry["ref"], *entry["dependsOn"]} <= references, f"{entry['ref']} depends on what is not listed"
print(f"dist: the bill lists the {len(listed)} packages that cargo tree does")
PY
echo "dist: passed"
