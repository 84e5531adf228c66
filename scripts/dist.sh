#!/bin/sh
# Packs what was built into build/dist/ember-VERSION-TARGET.tar.gz: the header, both libraries without debug information,
# the files for pkg-config and CMake, the licences, and a bill of materials. It may be unpacked anywhere. The same
# libraries give the same bytes.
#
#   scripts/dist.sh [FOLDER [CARGO-OPTION…]]
#
# FOLDER holds the libraries (default: target/release); CARGO-OPTION are those that choose features. SOURCE_DATE_EPOCH is
# the time that all files bear (default: that of the last commit).
set -eu

cd "$(dirname "$0")/.."
from=${1:-${CARGO_TARGET_DIR:-target}/release}
[ $# -eq 0 ] || shift
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
target=$(rustc -vV | sed -n 's/^host: //p')
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
name=ember-$version-$target

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A prefix of its own, so that paths from one folder to another are right; where it lies does not matter.
env -u LIBDIR -u INCLUDEDIR DESTDIR="$work" PREFIX="/$name" scripts/install.sh --strip --relocatable "$from"
mkdir -p "$work/$name/licenses"
cp LICENSE LICENSE-APACHE LICENSE-MIT "$work/$name/licenses"
cp CHANGELOG.md "$work/$name"
cp packaging/archive.md "$work/$name/README.md"
python3 scripts/third-party.py "$work/$name/licenses" "$@"
mv "$work/$name/licenses/ember.cdx.json" "$work/$name"
chmod -R u=rwX,go=rX "$work/$name"

mkdir -p build/dist
tar --create --directory "$work" --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mtime="@$epoch" "$name" |
    gzip -9n >"build/dist/$name.tar.gz.new"
chmod 644 "build/dist/$name.tar.gz.new"
mv "build/dist/$name.tar.gz.new" "build/dist/$name.tar.gz"
echo "build/dist/$name.tar.gz"
