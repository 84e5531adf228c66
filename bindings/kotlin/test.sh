#!/usr/bin/env bash
# Tests the package for Kotlin, over Java's package, and the one for Android, over JNI, with the Java of this machine. Both have the same
# classes, so the same tests run with each. So do the program of the README and the chat of all packages.
#
#   bindings/kotlin/test.sh LIBDIR
#
# Needs Java 22 or newer (JAVA names it), a C compiler, and Maven, which fetches Kotlin's compiler. Conversations are tested with smollm2,
# if scripts/fetch-model.sh fetched it.
set -euo pipefail

[ $# -eq 1 ] || { echo "usage: $0 LIBDIR" >&2; exit 2; }
lib=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
java=$(readlink -f "$(command -v "${JAVA:-java}")")
export JAVA=$java
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
kotlin=$(scripts/fetch-kotlin.sh)
chat_model=${EMBER_MODELS:-$HOME/.cache/ember/models}/SmolLM2-135M-Instruct.Q4_1.gguf
[ ! -f "$chat_model" ] || python3 bindings/tool_model.py "$chat_model" "$out/tools.gguf"
golden() { python3 -c 'import json, sys; print(json.load(open("tests/golden/bindings.json"))["generate"][0][sys.argv[1]])' "$1"; }

"${java%/java}/javac" --release 22 -Xlint:-options -d "$out/java" bindings/java/ember/*.java
bindings/kotlin/compile.sh "$out/jvm" 22 "$out/java" -Xexplicit-api=strict -module-name ember bindings/kotlin/common/*.kt bindings/kotlin/jvm/*.kt
bindings/kotlin/compile.sh "$out/android" 1.8 "" -Xexplicit-api=strict -module-name ember bindings/kotlin/common/*.kt bindings/android/kotlin/*.kt
# The README's program is a file of its own.
awk '/^```$/ { on = 0 } on; /^```kotlin$/ { on = ++n == 1 }' bindings/kotlin/README.md >"$out/Hello.kt"
[ "$(grep -c . "$out/Hello.kt")" -lt 20 ]
bindings/kotlin/compile.sh "$out/tests" 22 "$out/jvm:$out/java" bindings/kotlin/test/*.kt tests/packages/kotlin/Chat.kt "$out/Hello.kt"
home=${java%/bin/java}
"${CC:-cc}" -std=c11 -Wall -Wextra -Werror -pedantic -O2 -fPIC -fvisibility=hidden -shared -Iinclude "-I$home/include" "-I$home/include/linux" \
    bindings/android/jni.c -o "$out/libember_jni.so" "-L$lib" -lember "-Wl,-rpath,$lib"

# run CLASSES OPTION... -- PROGRAM ARGUMENT...
run() {
    local classes=$1 options=()
    shift
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    "$java" --enable-native-access=ALL-UNNAMED --add-opens java.base/java.io=ALL-UNNAMED "${options[@]}" \
        -cp "$classes:$out/tests:$(ls "$kotlin"/kotlin-stdlib-*.jar):$(ls "$kotlin"/kotlinx-coroutines-core-jvm-*.jar)" "$@"
}
tests() {
    run "$@" -- TestsKt examples/models/ember-tales.gguf tests/fixtures/models/llama-tied-f32.gguf tests/fixtures/dense-folder \
        "$chat_model" "$out/tools.gguf" "$(golden prompt)" "$(golden max_tokens)" "$(golden text)"
}
# The README's program, and the chat of all packages.
programs() {
    [ -f "$chat_model" ] || return 0
    run "$@" -- HelloKt "$chat_model" >"$out/said"
    grep -q '^L.Étoile,' "$out/said" || { cat "$out/said"; echo "the README's program says something else" >&2; exit 1; } # as llama.cpp begins
    run "$@" -- ChatKt "$chat_model" <tests/packages/messages.txt | diff tests/packages/chat.golden -
}
tests "$out/jvm:$out/java" "-Dember.library=$lib/libember.so"
programs "$out/jvm:$out/java" "-Dember.library=$lib/libember.so"
echo "the package for Kotlin is fine"
# Java checks what jni.c does with JNI, and warns.
tests "$out/android" "-Dember.jni=$out/libember_jni.so" -Xcheck:jni | tee "$out/log"
if grep -E 'WARNING|FATAL' "$out/log"; then
    echo "jni.c uses JNI as nobody should" >&2
    exit 1
fi
programs "$out/android" "-Dember.jni=$out/libember_jni.so"
echo "the package for Android is fine, on this machine"
