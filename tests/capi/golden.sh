#!/bin/sh
# The functions that the library exports and the types of the header are what tests/golden/symbols.txt and
# tests/golden/abi.txt say (sizes and offsets: on 64-bit machines).
#
#   tests/capi/golden.sh LIBDIR [--update [--break]]
#
# Something removed or changed breaks programs that are compiled already: that fails. So does something added, until
# --update writes it down (make abi-golden). --update refuses what breaks programs unless --break says that it shall; the
# first number of the version must change then. LIBDIR holds libember.so. CC names the compiler.
set -eu

usage() { echo "usage: $0 LIBDIR [--update [--break]]" >&2; exit 2; }
[ $# -ge 1 ] || usage
lib=$(cd "$1" && pwd)/libember.so
[ -f "$lib" ] || { echo "$0: there is no file $lib" >&2; exit 2; }
update='' breaking=''
shift
for argument; do
    case $argument in
    --update) update=yes ;;
    --break) breaking=yes ;;
    *) usage ;;
    esac
done
cd "$(dirname "$0")/../.."
golden=tests/golden
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 tests/capi/abi/abi.py facts include/ember.h >"$work/abi.txt"
nm -D --defined-only "$lib" | awk '{ print $NF }' | sort >"$work/symbols.txt"

worst=0
# judge FILE WORDS: what FILE says against the golden one; WORDS go before a line of it to make it a fact.
judge() {
    sed "s/^/$2/" "$golden/$1" >"$work/old"
    sed "s/^/$2/" "$work/$1" >"$work/new"
    code=0
    python3 tests/capi/abi/abi.py compare "$work/old" "$work/new" >"$work/report" || code=$?
    [ "$code" -le 2 ] || exit 1
    [ "$code" -eq 0 ] || sed "s|^|$1: |" "$work/report" >&2
    [ "$code" -le "$worst" ] || worst=$code
}
if [ -f "$golden/abi.txt" ] && [ -f "$golden/symbols.txt" ]; then
    judge abi.txt ''
    judge symbols.txt 'opaque '
elif [ -z "$update" ]; then
    echo "$0: there is no $golden/abi.txt and symbols.txt" >&2
    exit 2
fi

if [ "$worst" -eq 2 ] && [ -z "$breaking" ]; then
    echo "golden: this breaks programs that are compiled already" >&2
    exit 1
elif [ -n "$update" ]; then
    cp "$work/abi.txt" "$work/symbols.txt" "$golden"
    echo "golden: wrote $golden/abi.txt and symbols.txt"
elif [ "$worst" -ne 0 ]; then
    echo "golden: to write the additions down: make abi-golden" >&2
    exit 1
else
    echo "golden: the $(wc -l <"$golden/symbols.txt") functions and $(wc -l <"$golden/abi.txt") facts of the ABI are as written down"
fi
