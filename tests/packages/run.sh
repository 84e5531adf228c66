#!/usr/bin/env bash
# Installs the packages in an empty folder, without Rust in PATH, and streams a chat with SmolLM2 in each language: the text is that of
# chat.golden.
#
#   tests/packages/run.sh [FOLDER [LANGUAGE…]]
#
# FOLDER is what scripts/packages made (default: build/packages), LANGUAGE c (with C++), python, go or node; without one all. Other
# authors' packages (koffi, setuptools) come from where npm and pip are set to. Needs a C and a C++ compiler, CMake, pkg-config, Go 1.24,
# Node 20 with npm.
set -euo pipefail
cd "$(dirname "$0")/../.."

packages=$(cd "${1:-build/packages}" && pwd)
[ $# -eq 0 ] || shift
here=$PWD/tests/packages
model=$(scripts/fetch-model.sh smollm2)
registry=$(npm config get registry 2>/dev/null || true)
work=$(mktemp -d)
server=
cleanup() {
    [ -z "$server" ] || kill "$server"
    chmod -R u+w "$work" # Go's module cache may only be read
    rm -rf "$work"
}
trap cleanup EXIT
die() { echo "packages: $*" >&2; exit 1; }

# Folders that have Rust are left out of PATH.
path=
for folder in ${PATH//:/ }; do
    if ! [ -x "$folder/cargo" ] && ! [ -x "$folder/rustc" ]; then path+=${path:+:}$folder; fi
done
export PATH=$path
if command -v cargo >/dev/null; then die "there is still cargo in PATH"; fi
unset EMBER_LIBRARY PKG_CONFIG_PATH CGO_CFLAGS CGO_LDFLAGS LD_LIBRARY_PATH PYTHONPATH

# expect NAME PROGRAM ARGUMENT...: the program's chat is the golden one.
expect() {
    local name=$1
    shift
    "$@" "$model" <"$here/messages.txt" >"$work/said" || die "the chat in $name fails"
    diff "$here/chat.golden" "$work/said" || die "the chat in $name is another one"
    echo "packages: the chat in $name is chat.golden, after $SECONDS s"
}

# archive: that for C of this system.
archive() {
    local libc=gnu
    if ldd --version 2>&1 | grep -q musl; then libc=musl; fi
    ls "$packages"/c/ember-*-"$(uname -m)-linux-$libc.tar.gz"
}

test_c() {
    tar -xzf "$(archive)"
    local root
    root=$(ls -d "$PWD"/ember-*)
    cp "$here"/c/* .
    export PKG_CONFIG_PATH=$root/lib/pkgconfig
    # shellcheck disable=SC2046 # several options
    cc chat.c -o chat $(pkg-config --cflags --libs ember) "-Wl,-rpath,$root/lib"
    expect "C, pkg-config" ./chat
    if ! { cmake -S . -B build -DCMAKE_PREFIX_PATH="$root" -DCMAKE_BUILD_TYPE=Release && cmake --build build; } >cmake.log 2>&1; then
        cat cmake.log
        die "CMake builds nothing"
    fi
    expect "C, CMake, shared library" build/shared
    expect "C, CMake, static library" build/static
    expect "C++, CMake" build/cpp
    unset PKG_CONFIG_PATH
}

test_python() {
    python3 -m venv env
    env/bin/pip install -q --disable-pip-version-check --no-index --find-links "$packages/python" ember-inference
    cp "$here/python/chat.py" .
    expect Python env/bin/python chat.py
}

test_go() {
    cp "$here/go/chat.go" .
    export GOPROXY=file://$packages/go GONOSUMDB='*' GONOSUMCHECK=1 GOFLAGS=-mod=mod GONOPROXY=none GOTOOLCHAIN=local
    export GOMODCACHE=$PWD/cache GOSUMDB=off GOCACHE=$PWD/build
    go mod init example.com/chat 2>/dev/null
    go get "$(sed -n 's/^module //p' "$OLDPWD/bindings/go/go.mod")@latest" 2>go.log || { cat go.log; die "go get fails"; }
    go build -o chat . || die "go build fails"
    if ldd chat 2>/dev/null | grep ember; then die "the program looks for the shared library"; fi
    expect Go ./chat
}

test_node() {
    python3 "$here/registry.py" "$packages/node" "$registry" "$work/address" &
    server=$!
    for _ in $(seq 50); do [ -s "$work/address" ] || sleep 0.1; done
    npm init -y >/dev/null
    npm install --no-audit --no-fund --silent --cache "$PWD/cache" --registry "$(cat "$work/address")" ember-inference ||
        die "npm install fails"
    cp "$here/node/chat.mjs" .
    expect Node node chat.mjs
}

for language in "${@:-c}"; do
    case $language in c | python | go | node) ;; *) die "the language is c, python, go or node, not \"$language\"" ;; esac
done
[ $# -gt 0 ] || set -- c python go node
for language; do
    mkdir "$work/$language"
    cd "$work/$language"
    "test_$language"
    cd "$OLDPWD"
done
