#!/bin/sh
# Programs that are compiled already run with today's library.
#
#   tests/capi/abi.sh LIBDIR MODEL [OLD_LIBEMBER.SO]
#
# - Changed copies of the header (tests/capi/abi/abi.py variants) are sorted into those that break programs and those
#   that only add, by the comparison that tests/capi/golden.sh uses, and by abidiff (of libabigail), which compares libraries
#   compiled from them. So both notice what they are for.
# - Today's header keeps what each frozen header (tests/golden/ember-v*.h) promised, by both judges.
# - A program compiled with each frozen header runs with LIBDIR/libember.so.
# - Given a shared library that was built earlier, abidiff compares it with LIBDIR/libember.so: names alone, since release
#   builds hold no types.
#
# MODEL is a GGUF file with a tokenizer. CC names the compiler.
set -eu

[ $# -ge 2 ] || { echo "usage: $0 LIBDIR MODEL [OLD_LIBEMBER.SO]" >&2; exit 2; }
command -v abidiff >/dev/null || { echo "$0: there is no abidiff (Debian: abigail-tools)" >&2; exit 2; }
lib=$(cd "$1" && pwd)
model=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
old=${3:+$(cd "$(dirname "$3")" && pwd)/$(basename "$3")}
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
abi="python3 tests/capi/abi/abi.py"

# compile FOLDER: FOLDER/ember.h as a library with debug information that does nothing, FOLDER/libember.so.
compile() {
    $abi stub "$1/ember.h" >"$1/stub.c"
    "${CC:-cc}" -std=c99 -g -O0 -w -fno-eliminate-unused-debug-types -fPIC -shared "-I$1" "$1/stub.c" -o "$1/libember.so" \
        -Wl,-soname,libember.so.0
}

# by_facts OLD NEW: what the comparison of facts says of two folders: 0 same, 1 addition, 2 break.
by_facts() {
    [ -f "$1/facts" ] || $abi facts "$1/ember.h" >"$1/facts"
    [ -f "$2/facts" ] || $abi facts "$2/ember.h" >"$2/facts"
    code=0
    $abi compare "$1/facts" "$2/facts" >"$work/report" || code=$?
    return $code
}

# by_abidiff OLD NEW: 0 when programs go on working. abidiff cannot know that structs which carry their size may grow at
# their end (its option for that lets fields through that were put in between), so those that by_facts lets grow are named.
by_abidiff() {
    code=0
    by_facts "$1" "$2" || code=$?
    : >"$work/grown"
    if [ $code -eq 1 ]; then
        sed -n 's/^added: field \([a-z_]*\) .*/[suppress_type]\nname = \1\nhas_data_member_inserted_at = end\n/p' \
            "$work/report" >"$work/grown"
    fi
    abidiff --suppressions "$work/grown" --no-added-syms "$1/libember.so" "$2/libember.so" >"$work/report" 2>&1
}

# fail SENTENCE: with what the judge said.
fail() {
    echo "abi: $1" >&2
    cat "$work/report" >&2
    exit 1
}

mkdir "$work/today"
cp include/ember.h "$work/today"
compile "$work/today"

mkdir "$work/variants"
$abi variants include/ember.h "$work/variants" >"$work/list"
n=0
while read -r name verdict seen; do
    n=$((n + 1))
    variant=$work/variants/$name
    code=0
    by_facts "$work/today" "$variant" || code=$?
    case $code in 0) said=same ;; 1) said=addition ;; 2) said="break" ;; *) said=nothing ;; esac
    [ "$said" = "$verdict" ] || fail "the comparison of facts takes $name for $said, not $verdict"
    [ "$seen" = seen ] || continue
    compile "$variant"
    said=works
    by_abidiff "$work/today" "$variant" || said=broken
    case $verdict-$said in
    break-broken | same-works | addition-works) ;;
    *) fail "abidiff takes $name for $said" ;;
    esac
done <"$work/list"
echo "abi: $n changes of the header are distinguished"

n=0
for frozen in tests/golden/ember-v*.h; do
    n=$((n + 1))
    version=$(basename "$frozen" .h)
    mkdir "$work/$version"
    cp "$frozen" "$work/$version/ember.h"
    compile "$work/$version"
    code=0
    by_facts "$work/$version" "$work/today" || code=$?
    [ "$code" -le 1 ] || fail "include/ember.h breaks programs compiled with $frozen"
    by_abidiff "$work/$version" "$work/today" || fail "include/ember.h breaks programs compiled with $frozen, says abidiff"
    "${CC:-cc}" -std=c99 -g -O1 -Wall -Wextra -Werror -pedantic "-I$work/$version" tests/capi/abi/old_program.c \
        -o "$work/$version/program" "-L$lib" -lember "-Wl,-rpath,$lib"
    "$work/$version/program" "$model" >"$work/report" || fail "a program compiled with $frozen fails"
    echo "abi: $frozen: programs compiled with it run ($(cat "$work/report"))"
done

if [ -n "$old" ]; then
    abidiff --no-added-syms "$old" "$lib/libember.so" >"$work/report" || fail "$lib/libember.so breaks programs linked with $old"
    echo "abi: $lib/libember.so has every function of $old"
fi
