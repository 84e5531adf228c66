#!/usr/bin/env bash
# Builds and tests Ember on this machine, Linux or macOS, and says at the end what passed. For owners of machines that nobody has tested
# on: please send the last lines.
#
#   scripts/check-here.sh [STEP…]
#
# Steps: lib run rust install python go. Without one all run. Needs Rust, a C compiler, make, Python 3 with pip, npm, pkg-config and Go; a
# step whose tools are missing fails and says so. It installs nothing outside build/ and the cache of models.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
results=() failed=0

# step NAME COMMAND…: runs it, with its output in a log that is shown when it fails.
step() {
    local name=$1 begin=$SECONDS
    shift
    echo "== $name: $*"
    if "$@" >"$work/$name.log" 2>&1; then
        results+=("passed  $name, $((SECONDS - begin)) s")
    else
        results+=("FAILED  $name, $((SECONDS - begin)) s")
        failed=1
        tail -n 40 "$work/$name.log"
    fi
    echo "${results[${#results[@]} - 1]}"
}

# The library where `make install` puts it, found by pkg-config, in a program of C.
# shellcheck disable=SC2317 # called by step
installed() {
    make install PREFIX="$work/prefix" || return
    # shellcheck disable=SC2046 # several options
    PKG_CONFIG_PATH=$work/prefix/lib/pkgconfig cc -std=c99 examples/c/hello.c -o "$work/hello" \
        $(PKG_CONFIG_PATH=$work/prefix/lib/pkgconfig pkg-config --cflags --libs ember) "-Wl,-rpath,$work/prefix/lib" || return
    "$work/hello"
}

if [ $# -eq 0 ]; then set -- lib run rust install python go; fi
for name; do
    case $name in
    lib) step lib make lib ;;
    run) step run make run ;;
    rust) step rust make test-rust ;;
    install) step install installed ;;
    python) step python make test-python ;;
    go) step go make test-go ;;
    *) echo "check-here: there is no step $name" >&2; exit 2 ;;
    esac
done

echo
echo "Ember $(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1) on $(uname -sm), $(rustc --version)"
printf '%s\n' "${results[@]}"
exit $failed
