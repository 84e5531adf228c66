#!/bin/sh
# Tests the packages of Java and Node, and their one-page examples, on the bundled model: their text is the golden one. Chat is
# tested with smollm2, if scripts/fetch-model.sh fetched it.
#
#   bindings/pages.sh LIBDIR
#
# Needs Java 22 or newer (JAVA names it), node and npm, which fetches koffi into bindings/node/node_modules.
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
[ -d bindings/node/node_modules/koffi ] || (cd bindings/node && npm install --no-audit --no-fund --no-package-lock)
EMBER_LIBRARY=$lib expect node bindings/node/generate.mjs
EMBER_LIBRARY=$lib EMBER_CHAT_MODEL=$chat_model node --test bindings/node/ember.test.mjs
echo "the package and the page for Node are fine"
expect "${JAVA:-java}" --enable-native-access=ALL-UNNAMED "-Dember.library=$lib" bindings/java/Generate.java
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
# block LANGUAGE prints the README's block in it.
block() { sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/p" bindings/java/README.md | sed '/^`/d'; }
# The README's program is a file of its own; javac stands beside java.
block java >"$out/Chat.java"
[ "$(wc -l <"$out/Chat.java")" -lt 20 ]
bin=$(dirname "$(readlink -f "$(command -v "${JAVA:-java}")")")
"$bin/javac" -Xlint:all,-restricted -Werror -d "$out/tests" bindings/java/ember/*.java bindings/java/test/*.java
"$bin/java" --enable-native-access=ALL-UNNAMED "-Dember.library=$lib" -cp "$out/tests" EmberTest \
    examples/models/ember-tales.gguf "$chat_model" "$prompt" "$n" "$(golden text)"
if [ -f "$chat_model" ]; then
    block sh | sed -e "s|classes|$out/classes|g" -e "s|Chat.java|$out/Chat.java|" -e "s|build/lib/libember.so|$lib|" -e "s|model.gguf|$chat_model|" |
        PATH=$bin:$PATH sh -eu | grep -q "^L'Étoile," # llama.cpp begins this answer in the same way
fi
echo "the package and the page for Java are fine"
