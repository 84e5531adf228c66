#!/bin/sh
# Compiles the C tests and the C examples against the static and the shared library and runs them.
#
#   tests/capi/run.sh LIBDIR MODEL [plain|asan|valgrind]
#
# LIBDIR holds libember.a and libember.so; MODEL is a GGUF file with a byte-level BPE tokenizer. CC names the compiler. As many
# programs run at a time as there are processors.
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
ldflags=
linkages="static shared"
case $mode in
plain)
    # The library's debug information takes long to copy, and nothing shows lines here.
    ldflags=-Wl,-S
    ;;
asan)
    flags="$flags -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
    # An exit code that no program here has, lest a finding pass for an expected refusal.
    export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:exitcode=99
    export UBSAN_OPTIONS=print_stacktrace=1
    ;;
valgrind)
    # The shared library has the same code, and valgrind takes its time.
    linkages=static
    # Without fair scheduling a thread that computes can keep the others waiting for minutes.
    runner="valgrind --quiet --suppressions=$PWD/tests/capi/valgrind.supp --fair-sched=try --child-silent-after-fork=yes --leak-check=full --errors-for-leak-kinds=definite,indirect,possible --error-exitcode=99"
    ;;
*)
    echo "$0: the mode is plain, asan or valgrind, not \"$mode\"" >&2
    exit 2
    ;;
esac

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# The functions of the header, for the tests that call them all.
python3 tests/capi/abi/abi.py table include/ember.h >"$out/functions.h"
export CFLAGS="$flags -I$out" LDFLAGS="$ldflags" RUNNER="$runner" OUT="$out" LIB="$lib" MODEL="$model"
# Two more copies of the library, for the test that opens them beside its own.
cp "$lib/libember.so" "$out/one.so"
cp "$lib/libember.so" "$out/two.so"
export EMBER_TEST_COPIES="$out"

# Too large for valgrind.
CHAT_MODEL=
[ "$mode" = valgrind ] || CHAT_MODEL=$(scripts/fetch-model.sh smollm2)
export CHAT_MODEL

# What takes longest comes first.
tasks="examples test_misuse test_engine"
for source in tests/capi/test_*.c; do
    name=$(basename "$source" .c)
    case " $tasks " in *" $name "*) ;; *) tasks="$tasks $name" ;; esac
done
failed=
for linkage in $linkages; do
    echo "== $mode, $linkage"
    export LINKAGE="$linkage"
    # shellcheck disable=SC2086
    printf '%s\n' $tasks | xargs -P "$(getconf _NPROCESSORS_ONLN)" -n 1 sh tests/capi/task.sh || failed="$failed $linkage"
done
if [ -n "$failed" ]; then
    echo "failed:$failed" >&2
    exit 1
fi
