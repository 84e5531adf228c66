#!/bin/sh
# Fetches Kotlin's compiler and the libraries that Kotlin programs need from Maven's repository, checks them, and prints their folder.
#
#   scripts/fetch-kotlin.sh
#
# The cache is $EMBER_KOTLIN, by default ~/.cache/ember/kotlin-VERSION. What is there with the right checksum is not fetched again; a failed
# download is tried three times. Needs Maven (mvn). The compiler: java -cp "FOLDER/*" org.jetbrains.kotlin.cli.jvm.K2JVMCompiler
set -eu

folder=${EMBER_KOTLIN:-$HOME/.cache/ember/kotlin-2.3.0}
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
sums=$root/packaging/kotlin.sha256

say() { echo "fetch-kotlin: $*" >&2; }
checked() { (cd "$folder" && sha256sum --quiet -c "$sums") >/dev/null 2>&1; }

mkdir -p "$folder"
if ! checked; then
    command -v mvn >/dev/null || { say "mvn is needed to fetch Kotlin: please install maven"; exit 1; }
    say "fetching Kotlin's compiler (70 MB) once into $folder"
    for pause in 2 10 0; do
        mvn -q -B -f "$root/packaging/kotlin.pom.xml" dependency:copy-dependencies "-DoutputDirectory=$folder" >&2 </dev/null && break
        say "that failed"
        sleep "$pause"
    done
    checked || { say "these are not the files of $sums; please remove $folder and try again"; exit 1; }
fi
echo "$folder"
