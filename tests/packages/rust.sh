#!/usr/bin/env bash
# Makes the Rust package, and has a program in an empty folder use it as one of crates.io would be: its text is that of chat.golden.
#
#   tests/packages/rust.sh
#
# Nothing of the checkout but the package is used. It compiles the library once more, which takes minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."

here=$PWD/tests/packages
model=$(scripts/fetch-model.sh smollm2)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The program below compiles what `cargo package` packed.
cargo package --no-verify --quiet "$@" --target-dir "$work/target"
tar -xzf "$work"/target/package/ember-inference-*.crate -C "$work"
mv "$work"/ember-inference-* "$work/ember-inference"
cp -r "$here/rust" "$work/chat"
cp Cargo.lock "$work/chat" # the versions that Ember is tested with
cargo build --release --quiet --manifest-path "$work/chat/Cargo.toml" --target-dir "$work/target"
"$work/target/release/chat" "$model" <"$here/messages.txt" >"$work/said"
diff "$here/chat.golden" "$work/said"
echo "packages: the chat in Rust is chat.golden, after $SECONDS s; the package has $(wc -c <"$work"/target/package/ember-inference-*.crate) bytes"
