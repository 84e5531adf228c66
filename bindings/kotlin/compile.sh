#!/bin/sh
# Compiles Kotlin: the classes of one of the packages, or programs for them.
#
#   bindings/kotlin/compile.sh OUT TARGET CLASSPATH FILE-OR-OPTION…
#
# OUT is a folder or a jar, TARGET the oldest Java that runs the classes (1.8, 22). JAVA names the Java that runs the compiler, which
# scripts/fetch-kotlin.sh fetches. Kotlin's own libraries are on the class path.
set -eu

[ $# -ge 4 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
kotlin=$("$root/scripts/fetch-kotlin.sh")
out=$1 target=$2 classes=$3
shift 3
java=${JAVA:-java}
# The compiler uses Java's insides, of which newer Javas warn.
quiet=--sun-misc-unsafe-memory-access=allow
"$java" $quiet -version >/dev/null 2>&1 || quiet=
# shellcheck disable=SC2086 # an option, or none
exec "$java" $quiet --enable-native-access=ALL-UNNAMED -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx1g -cp "$kotlin/*" org.jetbrains.kotlin.cli.jvm.K2JVMCompiler -no-stdlib -no-reflect -progressive -Werror \
    -jvm-target "$target" -cp "$(ls "$kotlin"/kotlin-stdlib-*.jar):$(ls "$kotlin"/kotlinx-coroutines-core-jvm-*.jar):$classes" -d "$out" "$@"
