#!/bin/sh
# Compiles and runs every block of docs/c.md and of the guides: programs and parts of programs with strict warnings and the address and
# undefined-behaviour sanitizers, commands as they stand. What a block is said to print is what it prints.
#
#   tests/capi/guide.sh LIBDIR CHAT_MODEL
#
# LIBDIR holds libember.so and libember.a; CHAT_MODEL is SmolLM2-135M-Instruct. CC and CXX name the compilers.
set -eu

[ $# -eq 2 ] || { echo "usage: $0 LIBDIR CHAT_MODEL" >&2; exit 2; }
lib=$(cd "$1" && pwd)
chat_model=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
cd "$(dirname "$0")/../.."
root=$(pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/bin" "$work/home" "$work/guide"
# `make install` of the guide installs what was built already.
cat >"$work/bin/make" <<END
#!/bin/sh
[ "\$1" = install ] && [ \$# -eq 2 ] || { echo "the guide runs make \$*" >&2; exit 1; }
exec env "\$2" "$root/scripts/install.sh" "$lib"
END
chmod +x "$work/bin/make"
[ -z "${CC:-}" ] || ln -s "$(command -v "$CC")" "$work/bin/cc"
PATH=$work/bin:$PATH
HOME=$work/home
export PATH HOME ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1

# docs/guides/errors.md has the function that the programs of the others check statuses with.
python3 tests/capi/guide.py "$work/guide" docs/guides/errors.md docs/c.md docs/guides/text.md docs/guides/structured-output.md docs/guides/chat.md \
    docs/guides/tools.md docs/guides/embeddings.md docs/guides/tokenizers.md docs/guides/threads.md docs/guides/many-users.md \
    docs/guides/state.md docs/guides/models.md docs/guides/memory.md >"$work/list"
cd "$work/guide"
ln -s "$root/examples/models/ember-tales.gguf" model.gguf
ln -s "$chat_model" chat.gguf
ln -s "$root/tests/fixtures/rank/bert-rerank.gguf" reranker.gguf
flags="-g -O1 -Wall -Wextra -Werror -pedantic -fsanitize=address,undefined -fno-sanitize-recover=all -I$root/include"
link="-L$lib -lember -Wl,-rpath,$lib -lpthread"
n=0
# All commands in one shell, as somebody would type them: what one exports the next one has.
: >commands
while read -r block; do
    n=$((n + 1))
    case $block in
    *.sh)
        cat "$block" >>commands
        continue
        ;;
    *.cpp) compiler="${CXX:-c++} -std=c++17" ;;
    *.c) compiler="${CC:-cc} -std=c99 -D_POSIX_C_SOURCE=200809L" ;;
    esac
    # shellcheck disable=SC2086
    $compiler $flags "$block" -o program $link
    ./program >printed || { echo "guide: this fails:" >&2; cat "$block" printed >&2; exit 1; }
    if [ -f "$block.out" ] && ! cmp -s printed "$block.out"; then
        echo "guide: this does not print what its page says:" >&2
        cat "$block" printed >&2
        exit 1
    fi
done <"$work/list"
[ "$n" -gt 10 ] || { echo "guide: the guides have only $n blocks to run" >&2; exit 1; }
sh -eu commands >printed 2>&1 || { cat printed >&2; exit 1; }
said=$(grep -c "^Once upon a time, I was in the habit of making a little more" printed || true)
if [ "$said" -ne 3 ]; then
    cat printed >&2
    echo "guide: $said of the 3 first programs continue the text" >&2
    exit 1
fi
echo "guide: all $n blocks of the guides run"
