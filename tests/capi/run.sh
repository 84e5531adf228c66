#!/bin/sh
# Compiles the C tests and the C examples against the static and the shared library and runs them.
#
#   tests/capi/run.sh LIBDIR MODEL [plain|asan|valgrind]
#
# LIBDIR holds libember.a and libember.so; MODEL is a GGUF file with a byte-level BPE tokenizer. CC names the compiler.
set -eu

[ $# -ge 2 ] || { echo "usage: $0 LIBDIR MODEL [plain|asan|valgrind]" >&2; exit 2; }
for file in "$1/libember.a" "$1/libember.so" "$2"; do
    [ -f "$file" ] || { echo "$0: there is no file $file" >&2; exit 2; }
done
absolute() { (cd "$(dirname "$1")" && printf '%s/%s' "$(pwd)" "$(basename "$1")"); }
lib=$(absolute "$1")
model=$(absolute "$2")
mode=${3:-plain}
cd "$(dirname "$0")/../.."

flags="-std=c99 -g -O1 -Wall -Wextra -Werror -pedantic -Iinclude"
runner=
linkages="static shared"
case $mode in
plain) ;;
asan)
    flags="$flags -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
    # An exit code that no program here has, lest a finding pass for an expected refusal.
    export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:exitcode=99
    export UBSAN_OPTIONS=print_stacktrace=1
    ;;
valgrind)
    # The shared library has the same code, and valgrind takes its time.
    linkages=static
    runner="valgrind --quiet --child-silent-after-fork=yes --leak-check=full --errors-for-leak-kinds=definite,indirect,possible --error-exitcode=99"
    ;;
*)
    echo "$0: the mode is plain, asan or valgrind, not \"$mode\"" >&2
    exit 2
    ;;
esac

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# compile SOURCE PROGRAM static|shared
compile() {
    if [ "$3" = static ]; then
        set -- "$1" "$2" "$lib/libember.a" -lpthread -ldl -lm
    else
        set -- "$1" "$2" "-L$lib" -lember "-Wl,-rpath,$lib" -lpthread -ldl -lm
    fi
    source=$1 program=$2
    shift 2
    # shellcheck disable=SC2086
    "${CC:-cc}" $flags "$source" -o "$program" "$@"
}

# The functions of the header, for the tests that call them all.
python3 tests/capi/abi/abi.py table include/ember.h >"$out/functions.h"
flags="$flags -I$out"
# Two more copies of the library, for the test that opens them beside its own.
cp "$lib/libember.so" "$out/one.so"
cp "$lib/libember.so" "$out/two.so"
export EMBER_TEST_COPIES="$out"

# Too large for valgrind.
chat_model=
[ "$mode" = valgrind ] || chat_model=$(scripts/fetch-model.sh smollm2)

failed=
for linkage in $linkages; do
    echo "== $mode, $linkage"
    for source in tests/capi/test_*.c; do
        name=$(basename "$source" .c)
        compile "$source" "$out/$name" "$linkage"
        # shellcheck disable=SC2086
        $runner "$out/$name" "$model" || failed="$failed $name-$linkage"
    done
    for source in examples/c/*.c; do
        compile "$source" "$out/$(basename "$source" .c)" "$linkage"
    done
    # shellcheck disable=SC2086 # nothing, or one path
    RUNNER=$runner sh tests/capi/examples.sh "$out" "$model" $chat_model || failed="$failed examples-$linkage"
done
if [ -n "$failed" ]; then
    echo "failed:$failed" >&2
    exit 1
fi
