#!/bin/sh
# Builds the Swift package and a program that uses it, in each of the ways the library can be found, and runs the tests and
# the examples.
#
#   bindings/swift/test.sh LIBDIR CHAT_MODEL
#
# LIBDIR holds libember.so and libember.a; CHAT_MODEL is SmolLM2-135M-Instruct. Swift 6 is the machine's own, or else that of
# a Debian system which chroot.sh makes. Builds stay in build/swift.
set -eu

[ $# -eq 2 ] || { echo "usage: $0 LIBDIR CHAT_MODEL" >&2; exit 2; }
for file in "$1/libember.so" "$1/libember.a" "$2"; do
    [ -f "$file" ] || { echo "$0: there is no file $file" >&2; exit 2; }
done
lib=$(cd "$1" && pwd -P)
chat_model=$(cd "$(dirname "$2")" && pwd -P)/$(basename "$2")
here=$(cd "$(dirname "$0")" && pwd)
# The model that calls tools; the Debian system, which sees the repository, has no Python.
if command -v python3 >/dev/null; then
    mkdir -p "$here/../../build"
    python3 "$here/../tool_model.py" "$chat_model" "$here/../../build/tools.gguf"
fi
if ! command -v swift >/dev/null; then
    exec "$here/chroot.sh" --share "$lib" --share "$(dirname "$chat_model")" ./test.sh "$lib" "$chat_model"
fi
cd "$here/../.."
root=$(pwd)
scratch=$root/build/swift
golden=$root/tests/golden/bindings.json
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

swift --version 2>/dev/null | grep -q 'Swift version \([6-9]\|[1-9][0-9]\)' || { echo "$0: Swift 6 or newer is needed" >&2; exit 1; }

echo "== style"
swift format lint --strict --recursive --configuration bindings/swift/.swift-format bindings/swift/Package.swift \
    bindings/swift/Sources bindings/swift/Examples bindings/swift/Overhead bindings/swift/Tests

# Generations and replies are pulled; keys and values have types of their own; a reference is held by an object; statuses come with errors; engines
# have threads of their own.
echo "== every function of the header is used"
left_out=" ember_generate ember_generate_tokens ember_context_options_set_kv_type ember_model_retain ember_error_status ember_engine_step ember_conversation_send ember_tokenizer_retain "
for function in $(sh tests/capi/functions.sh); do
    case $left_out in *" $function "*) continue ;; esac
    grep -qrw "$function" bindings/swift/Sources/Ember || { echo "the Swift package does not use $function" >&2; exit 1; }
done

# build PACKAGE ARGUMENT...: builds a package with the library in a folder.
flags="-Xlinker -L$lib -Xlinker -rpath -Xlinker $lib -Xswiftc -warnings-as-errors"
echo "== package"
# shellcheck disable=SC2086
swift build --package-path bindings/swift --scratch-path "$scratch" --build-tests $flags 2>"$out/log" >&2 ||
    { cat "$out/log" >&2; exit 1; }
# shellcheck disable=SC2086
EMBER_CHAT_MODEL=$chat_model EMBER_TOOLS_MODEL=$root/build/tools.gguf swift test --package-path bindings/swift --scratch-path "$scratch" --skip-build --no-parallel $flags

echo "== what the compiler must refuse"
bin=$scratch/debug
# refused PROGRAM: a task and its maker both use something that one of them may use.
refused() {
    cat >"$out/refused.swift"
    if swiftc -emit-sil -o /dev/null -swift-version 6 -I "$bin/Modules" -Xcc "-fmodule-map-file=$root/bindings/swift/Sources/CEmber/module.modulemap" \
        "$out/refused.swift" 2>"$out/log"; then
        echo "the compiler takes this:" >&2
        cat "$out/refused.swift" >&2
        exit 1
    fi
    grep -qE 'risks causing data races|non-sendable|Sendable' "$out/log" || { cat "$out/log" >&2; exit 1; }
}
refused <<'SWIFT'
import Ember
func race(_ model: Model) async throws {
    let context = try Context(model)
    Task { try context.rewind() }
    try context.rewind()
}
SWIFT
refused <<'SWIFT'
import Ember
func race(_ context: Context) async throws {
    let generation = try context.generate("Once")
    Task { try generation.next() }
}
SWIFT
refused <<'SWIFT'
import Ember
func escape(_ context: AsyncContext) async throws -> Context {
    try await context.withContext { $0 }
}
SWIFT

# expect WANT PROGRAM ARGUMENT...: the program succeeds and prints that.
expect() {
    want=$1
    shift
    got=$("$@")
    [ "$got" = "$want" ] || { printf '%s gave\n%s\ninstead of\n%s\n' "$*" "$got" "$want" >&2; exit 1; }
}

# refuses CODE PROGRAM ARGUMENT...: the program ends with that exit code and a sentence.
refuses() {
    code=0
    want=$1
    shift
    said=$("$@" 2>&1 >/dev/null) || code=$?
    if [ "$code" != "$want" ] || [ -z "$said" ]; then
        echo "$*: exit code $code, not $want; it said: $said" >&2
        exit 1
    fi
}

# golden NAME: the text of a generation that all bindings must give.
golden() { sed -n "/\"name\": \"$1\"/,/\"text\"/s/^ *\"text\": \"\\(.*\\)\",\$/\\1/p" "$golden"; }

echo "== examples"
hello=$(golden greedy)
expect "Once upon a time$hello" "$bin/ember-hello"
expect "Once upon a time$hello" "$bin/ember-generate" -p 'Once upon a time' -n 32 --temp 0
expect "The wolf said$(golden top_k_top_p)" \
    "$bin/ember-generate" -p 'The wolf said' -n 24 --top-k 40 --top-p 0.9375 --temp 0.5 --seed 6
# The last digits are those of the instructions and of the cache, which is of another type on x86-64 than elsewhere.
cosine=0.7739
if [ "$(uname -m)" = x86_64 ]; then cosine=0.7744; fi
expect "$cosine" env EMBER_ISA=scalar "$bin/ember-embed" 'The sea was calm, and the moon was bright.' 'A bright moon stood over the quiet sea.'
# A very small model; llama.cpp begins this answer in the same way.
expect "L'Étoile," "$bin/ember-chat" -m "$chat_model" -p 'What is the capital of France?' -n 6 --temp 0
refuses 1 "$bin/ember-generate" -m no-such-model.gguf
refuses 1 "$bin/ember-chat"
refuses 2 "$bin/ember-generate" -n many
refuses 2 "$bin/ember-generate" --cook
refuses 2 "$bin/ember-embed" one
"$bin/ember-overhead" -n 4 1 | grep -q '^Swift .* us more'

# The manifest of the README, with the program hello; found through pkg-config, and linked statically.
mkdir -p "$out/story/Sources/story" "$out/static" "$out/pkgconfig"
sed -n '/^\/\/ swift-tools-version/,/^)$/p' bindings/swift/README.md |
    sed "s|/path/to/ember|$root|" >"$out/story/Package.swift"
cp bindings/swift/Examples/hello/main.swift "$out/story/Sources/story/main.swift"
cat >"$out/pkgconfig/ember.pc" <<PC
Name: Ember
Description: the library that is tested
Version: 0.1.0
Cflags: -I$root/include
Libs: -L$lib -lember
PC
# story NAME ARGUMENT...: builds the program of the README.
story() {
    name=$1
    shift
    swift build --package-path "$out/story" --scratch-path "$scratch-$name" --product story "$@" >"$out/log" 2>&1 ||
        { cat "$out/log" >&2; exit 1; }
    story=$scratch-$name/debug/story
}
if command -v pkg-config >/dev/null; then
    echo "== pkg-config"
    PKG_CONFIG_PATH=$out/pkgconfig story pkg-config
    expect "Once upon a time$hello" env "LD_LIBRARY_PATH=$lib" "$story"
fi
echo "== static"
ln -s "$lib/libember.a" "$out/static/libember.a"
story static -Xlinker "-L$out/static"
if ldd "$story" | grep -q libember; then
    echo "a static program asks for libember.so" >&2
    exit 1
fi
expect "Once upon a time$hello" "$story"
echo "the Swift package is fine"
