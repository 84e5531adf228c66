#!/bin/sh
# Builds the Go package in its three ways and runs its tests with the race detector.
#
#   bindings/go/test.sh LIBDIR
#
# LIBDIR holds libember.so (a Mac: libember.dylib) and libember.a.
set -eu

[ $# -eq 1 ] || { echo "usage: $0 LIBDIR" >&2; exit 2; }
command -v go >/dev/null || { echo "$0: there is no go; Go 1.24 or newer is needed (Debian: golang-go, or go.dev/dl)" >&2; exit 1; }
shared=libember.so
[ "$(uname -s)" != Darwin ] || shared=libember.dylib
for file in "$1/$shared" "$1/libember.a"; do
    [ -f "$file" ] || { echo "$0: there is no file $file" >&2; exit 2; }
done
lib=$(cd "$1" && pwd)
cd "$(dirname "$0")"
include=$(cd ../../include && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

unformatted=$("$(go env GOROOT)/bin/gofmt" -l .)
[ -z "$unformatted" ] || { echo "gofmt would change: $unformatted" >&2; exit 1; }

# Tools are tested with smollm2, if scripts/fetch-model.sh fetched it.
chat_model=${EMBER_MODELS:-$HOME/.cache/ember/models}/SmolLM2-135M-Instruct.Q4_1.gguf
if [ -f "$chat_model" ]; then
    export EMBER_TOOLS_MODEL="$out/tools.gguf"
    python3 ../tool_model.py "$chat_model" "$EMBER_TOOLS_MODEL"
fi

export CGO_CFLAGS="-I$include -O2 -g -Wall -Werror"
export CGO_LDFLAGS="-L$lib -Wl,-rpath,$lib"
echo "== flags"
go vet -tags ember_flags ./...
go test -tags ember_flags -race -count=1 -skip TestMemoryDoesNotGrow ./...
go test -tags ember_flags -count=1 -run TestMemoryDoesNotGrow .
sh examples/test.sh -tags ember_flags

echo "== static"
# Apple's linker would take the shared library beside it.
mkdir "$out/static"
cp "$lib/libember.a" "$out/static"
CGO_LDFLAGS="-L$out/static" go build -tags ember_static -o "$out/" ./examples/hello
if { ldd "$out/hello" 2>/dev/null || otool -L "$out/hello"; } | grep -q libember; then
    echo "a static program asks for the shared library" >&2
    exit 1
fi
"$out/hello" | grep -q '^Once upon a time, I was'

echo "== pkg-config"
command -v pkg-config >/dev/null || { echo "$0: there is no pkg-config" >&2; exit 1; }
cat >"$out/ember.pc" <<PC
Name: Ember
Description: the library that is tested
Version: 0.1.0
Cflags: -I$include
Libs: -L$lib -lember
PC
unset CGO_CFLAGS CGO_LDFLAGS
PKG_CONFIG_PATH=$out go build -o "$out/" ./examples/hello
LD_LIBRARY_PATH=$lib DYLD_LIBRARY_PATH=$lib "$out/hello" | grep -q '^Once upon a time, I was'
echo "the Go package is fine"
