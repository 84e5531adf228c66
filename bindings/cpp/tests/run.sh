#!/bin/sh
# Compiles the C++ header with strict warnings, its tests, the examples and the programs in its README, and runs them.
#
#   bindings/cpp/tests/run.sh LIBDIR CHAT_MODEL [plain|asan]
#
# LIBDIR holds libember.so; CHAT_MODEL is SmolLM2-135M-Instruct. Every compiler there is of g++, clang++ and $CXX is tried, each with C++17 and C++20.
set -eu

[ $# -ge 2 ] || { echo "usage: $0 LIBDIR CHAT_MODEL [plain|asan]" >&2; exit 2; }
[ -f "$1/libember.so" ] || { echo "$0: there is no file $1/libember.so" >&2; exit 2; }
[ -f "$2" ] || { echo "$0: there is no file $2" >&2; exit 2; }
lib=$(cd "$1" && pwd)
chat_model=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
mode=${3:-plain}
cd "$(dirname "$0")/../../.."
root=$(pwd)
model=$root/examples/models/ember-tales.gguf
golden=$root/tests/golden/bindings.json

flags="-g -O1 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -Iinclude -Ibindings/cpp"
case $mode in
plain) ;;
asan)
    flags="$flags -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
    # An exit code that no program here has, lest a finding pass for an expected refusal.
    export ASAN_OPTIONS=detect_leaks=1:exitcode=99
    export UBSAN_OPTIONS=print_stacktrace=1
    ;;
*)
    echo "$0: the mode is plain or asan, not \"$mode\"" >&2
    exit 2
    ;;
esac

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# compile COMPILER STANDARD SOURCE: a script, so that several can run at a time.
cat >"$out/compile" <<END
#!/bin/sh
"\$1" -std="\$2" $flags "\$3" -o "$out/\$(basename "\$3" .cpp)" "-L$lib" -lember "-Wl,-rpath,$lib" -pthread
END
chmod +x "$out/compile"

# expect OUTPUT PROGRAM ARGUMENT...: the program succeeds and prints that.
expect() {
    expected=$1
    shift
    got=$("$@")
    [ "$got" = "$expected" ] || { echo "$*: printed \"$got\", not \"$expected\"" >&2; exit 1; }
}

# refuses CODE PROGRAM ARGUMENT...: the program ends with that exit code and a sentence.
refuses() {
    code=0
    expected=$1
    shift
    said=$("$@" 2>&1 >/dev/null) || code=$?
    if [ "$code" != "$expected" ] || [ -z "$said" ]; then
        echo "$*: exit code $code, not $expected" >&2
        exit 1
    fi
}

python3 bindings/cpp/tests/readme.py bindings/cpp/README.md "$out"
mkdir "$out/readme"
ln -s "$model" "$out/readme/model.gguf"
ln -s "$model" "$out/readme/small.gguf"
ln -s "$chat_model" "$out/readme/chat.gguf"
python3 bindings/tool_model.py "$chat_model" "$out/readme/tools.gguf"
# The streamed chat with a tool is short.
tools=$(grep -l tools.gguf "$out"/readme_*.cpp)
[ "$(grep -c . "$tools")" -lt 20 ] || { echo "the README's chat with a tool has 20 lines or more" >&2; exit 1; }
n=0
for compiler in ${CXX:-} g++ clang++; do
    command -v "$compiler" >/dev/null || continue
    for standard in c++17 c++20; do
        n=$((n + 1))
        # Two files that include it, so that what is not inline would clash.
        printf '#include "ember.hpp"\n#include "ember.hpp"\nint main() { return ember::version().empty(); }\n' >"$out/main.cpp"
        printf '#include "ember.hpp"\nvoid f() { ember::clear_log(); }\n' >"$out/other.cpp"
        # shellcheck disable=SC2086
        "$compiler" -std=$standard $flags "$out/main.cpp" "$out/other.cpp" -o "$out/main" "-L$lib" -lember "-Wl,-rpath,$lib"
        "$out/main"
        # The sanitizers once, with the first compiler.
        if [ "$mode" = asan ] && [ "$n" -gt 1 ]; then continue; fi
        printf '%s\n' bindings/cpp/tests/test_*.cpp bindings/cpp/examples/*.cpp "$out"/readme_*.cpp |
            xargs -P "$(getconf _NPROCESSORS_ONLN)" -n 1 "$out/compile" "$compiler" "$standard"
        "$out/test_golden" "$model" "$golden" tests/fixtures
        "$out/test_ember" "$model" "$chat_model"
        "$out/test_loading" "$model" "$chat_model" tests/fixtures/models
        "$out/test_engine" "$model" "$out"
        "$out/test_drafts" "$model" tests/fixtures/models
        "$out/test_chat" "$model" "$out/readme/tools.gguf" tests/fixtures
        "$out/chat" -m "$chat_model" -p "What is 2+2?" -n 24 --temp 0 | grep -q " 4" || { echo "$out/chat cannot add" >&2; exit 1; }
        refuses 1 "$out/chat" -m "$model"
        for program in "$out"/readme_*.cpp; do
            (cd "$out/readme" && "${program%.cpp}" >"$out/printed") || { echo "$program of the README failed" >&2; exit 1; }
            if [ "$program" = "$tools" ]; then grep -q "21 degrees" "$out/printed"; fi
        done
        expect "Once upon a time, I was in the" "$out/generate" -m "$model" -p "Once upon a time" -n 5 --temp 0
        # The last digits are those of the instructions and of the cache, which is of another type on x86-64 than elsewhere.
        cosine=0.7739
        if [ "$(uname -m)" = x86_64 ]; then cosine=0.7744; fi
        expect "$cosine" env EMBER_ISA=scalar "$out/embed" -m "$model" "The sea was calm, and the moon was bright." \
            "A bright moon stood over the quiet sea."
        refuses 1 "$out/generate" -m no-such-model.gguf
        refuses 2 "$out/generate" -n many
        refuses 2 "$out/embed" -m "$model" one
    done
done
[ "$n" -gt 0 ] || { echo "$0: there is no C++ compiler" >&2; exit 1; }
echo "ember.hpp, $mode: $n combinations of compiler and standard passed"
