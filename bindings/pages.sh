#!/bin/sh
# Runs the one-page examples of Java and Node on the bundled model and compares their text with the golden one.
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
[ -d bindings/node/node_modules/koffi ] || (cd bindings/node && npm install --no-audit --no-fund --no-package-lock)
EMBER_LIBRARY=$lib expect node bindings/node/generate.mjs
echo "the page for Node is fine"
expect "${JAVA:-java}" --enable-native-access=ALL-UNNAMED "-Dember.library=$lib" bindings/java/Generate.java
echo "the page for Java is fine"
