#!/bin/sh
# Runs the blocks of README.md, of pages of docs/ and of other READMEs, and the commands of the pages of the bindings, or holds those to the sources that take hours or install things (readme.py says which).
#
#   tests/capi/readme.sh LIBDIR BINDIR CHAT_MODEL EMBED_MODEL
#
# LIBDIR holds libember.so, BINDIR the example programs; CHAT_MODEL is SmolLM2-135M-Instruct, EMBED_MODEL all-MiniLM-L6-v2.
set -eu

[ $# -eq 4 ] || { echo "usage: $0 LIBDIR BINDIR CHAT_MODEL EMBED_MODEL" >&2; exit 2; }
absolute() { (cd "$(dirname "$1")" && printf '%s/%s' "$(pwd)" "$(basename "$1")"); }
lib=$(cd "$1" && pwd)
bin=$(cd "$2" && pwd)
chat_model=$(absolute "$3")
embed_model=$(absolute "$4")
cd "$(dirname "$0")/../.."
root=$(pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "readme: $*" >&2; exit 1; }

python3 tests/capi/readme.py "$work" README.md CONTRIBUTING.md bench/README.md bench/history.md docs/models.md docs/install.md docs/packages.md \
    docs/command-line.md docs/guides/chat.md docs/guides/tools.md docs/guides/embeddings.md docs/guides/mobile.md \
    docs/guides/performance.md examples/models/README.md bindings/*/README.md
mkdir -p "$work/build" "$work/bindings/go"
cp -R bindings/go/bench "$work/bindings/go"
ln -s "$root/include" "$work/include"
ln -s "$lib" "$work/build/lib"
ln -s "$bin" "$work/build/bin"
ln -s "$root/scripts" "$work/scripts"
ln -s "$root/examples/models/ember-tales.gguf" "$work/tales.gguf"
ln -s "$chat_model" "$work/chat.gguf"
ln -s "$embed_model" "$work/minilm"
python3 bindings/tool_model.py "$chat_model" "$work/tools.gguf"
cd "$work"
# part NAME WANT: the part of a program prints something that has WANT in it.
part() {
    "${CC:-cc}" -std=c99 -Wall -Wextra -Werror -pedantic -I"$root/include" "$1.c" -o "$1" -L"$lib" -lember "-Wl,-rpath,$lib"
    "./$1" >"$1.out" || die "the program with $1 fails"
    grep -q "$2" "$1.out" || { cat "$1.out" >&2; die "the program with $1 does not print \"$2\""; }
}
part ember_conversation_new 'problem is 4'
part ember_chat_options_set_tools 'sunny.*21 degrees'
part readme_program '4'
part ember_embed '^768 -\{0,1\}0\.'
[ "$(find . -maxdepth 1 -name '*.c' | wc -l)" -eq 4 ] || die "there are parts of programs that are not run"
sh -eu commands >out 2>err || { cat out err >&2; die "the commands fail"; }
grep -q '^Hello' out || { cat out err >&2; die "no text continues \"Hello\""; }
[ "$(grep -cE '^-?[0-9.e-]+( -?[0-9.e-]+){383}$' out)" -eq 2 ] || { cut -c 1-100 out >&2; die "there are not two vectors of 384 numbers"; }

# The benchmark itself, as little of it as there can be.
cd "$root"
[ "$bin" = "$root/build/bin" ] || die "bench/run.py runs build/bin/bench, so BINDIR has to be build/bin"
python3 bench/run.py --models smollm2-q4_1 --only prefill,decode -p 8 -n 2 -d 0 -b 1 -t 1 -r 1 --no-llama --no-peaks \
    --out "$work/table.csv" 2>"$work/err" || { cat "$work/err" >&2; die "bench/run.py fails"; }
[ "$(grep -c '^smollm2-q4_1,' "$work/table.csv")" -eq 2 ] || { cat "$work/table.csv" >&2; die "the benchmark's table has not two rows"; }
echo "readme: all blocks run"
