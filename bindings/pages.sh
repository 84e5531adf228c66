#!/bin/sh
# Tests the packages of Java and Node, and their one-page examples, on the bundled model: their text is the golden one. Chat and
# tools are tested with smollm2, if scripts/fetch-model.sh fetched it.
#
#   bindings/pages.sh LIBDIR
#
# Needs Java 22 or newer (JAVA names it), node and npm, which fetches koffi and the compiler of TypeScript into bindings/node/node_modules.
set -eu

[ $# -eq 1 ] || { echo "usage: $0 LIBDIR" >&2; exit 2; }
lib=$(cd "$1" && pwd)/libember.so
cd "$(dirname "$0")/.."
golden() { python3 -c 'import json, sys; print(json.load(open("tests/golden/bindings.json"))["generate"][0][sys.argv[1]])' "$1"; }
prompt=$(golden prompt)
n=$(golden max_tokens)
want=$prompt$(golden text)

# expect PROGRAM ARGUMENT...
expect() {
    got=$("$@" -p "$prompt" -n "$n" --temp 0)
    [ "$got" = "$want" ] || { printf '%s gave\n%s\ninstead of\n%s\n' "$*" "$got" "$want" >&2; exit 1; }
    if "$@" -m no.gguf 2>/dev/null; then
        echo "$* loads a model that is not there" >&2
        exit 1
    fi
}
chat_model=${EMBER_MODELS:-$HOME/.cache/ember/models}/SmolLM2-135M-Instruct.Q4_1.gguf
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
[ ! -f "$chat_model" ] || python3 bindings/tool_model.py "$chat_model" "$out/tools.gguf"
if ! [ -d bindings/node/node_modules/koffi ] || ! [ -d bindings/node/node_modules/typescript ]; then
    (cd bindings/node && npm install --no-audit --no-fund --no-package-lock)
fi
EMBER_LIBRARY=$lib expect node bindings/node/generate.mjs
EMBER_LIBRARY=$lib EMBER_CHAT_MODEL=$chat_model EMBER_TOOLS_MODEL=$out/tools.gguf node --test bindings/node/*.test.mjs
(cd bindings/node && node_modules/.bin/tsc --project .)
echo "the package and the page for Node are fine"
expect "${JAVA:-java}" --enable-native-access=ALL-UNNAMED "-Dember.library=$lib" bindings/java/Generate.java
# block LANGUAGE [N] prints the README's first block in it, or the N-th.
block() { awk -v start="^\`\`\`$1\$" -v n="${2:-1}" '/^```$/ { on = 0 } on; $0 ~ start { on = ++i == n }' bindings/java/README.md; }
# The README's programs are files of their own; javac stands beside java.
block java >"$out/Chat.java"
block java 2 >"$out/Weather.java"
for program in Chat Weather; do [ "$(grep -c . "$out/$program.java")" -lt 20 ]; done
bin=$(dirname "$(readlink -f "$(command -v "${JAVA:-java}")")")
"$bin/javac" -Xlint:all,-restricted -Werror -d "$out/tests" bindings/java/ember/*.java bindings/java/test/*.java
tales=examples/models/ember-tales.gguf
rotary=tests/fixtures/models/llama-tied-f32.gguf
# java_test TEST ARGUMENT...
java_test() { "$bin/java" --enable-native-access=ALL-UNNAMED "-Dember.library=$lib" -cp "$out/tests" "$@"; }
java_test EmberTest $tales "$chat_model" "$prompt" "$n" "$(golden text)"
java_test ChatTest $tales "$out/tools.gguf"
java_test CompletionsTest $tales
java_test SamplerTest $tales
for test in BlocksTest ModelTest; do java_test $test $tales $rotary "$prompt" "$n" "$(golden text)"; done
python3 bindings/lines.py dense >"$out/dense.txt"
python3 bindings/lines.py rank >"$out/rank.txt"
java_test ScoresTest tests/fixtures/dense-folder "$out/dense.txt" tests/fixtures/rank "$out/rank.txt"
if [ -f "$chat_model" ]; then
    "$bin/javac" -cp "$out/tests" -d "$out/tests" "$out/Weather.java"
    java_test Weather "$out/tools.gguf" | grep -q "sunny.*21 degrees"
    block sh | sed -e "s|classes|$out/classes|g" -e "s|Chat.java|$out/Chat.java|" -e "s|build/lib/libember.so|$lib|" -e "s|model.gguf|$chat_model|" |
        PATH=$bin:$PATH sh -eu | grep -q "^L'Étoile," # llama.cpp begins this answer in the same way
fi
echo "the package and the page for Java are fine"
