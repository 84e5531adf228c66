#!/bin/sh
# Compiles the package for .NET with Mono's compiler and tests it under Mono: the declarations against the header, the results that all
# bindings share, and the programs of README.md. Chat and tools are tested with smollm2, if scripts/fetch-model.sh fetched it.
#
#   bindings/dotnet/test.sh LIBDIR
#
# Needs Debian's mono-mcs, a C++ compiler and python3. DOTNET names a `dotnet` of .NET Core 3.0 or newer, if the tests shall run under that too.
set -eu
export LC_ALL=C.UTF-8 # what programs print

[ $# -eq 1 ] || { echo "usage: $0 LIBDIR" >&2; exit 2; }
lib=$(cd "$1" && pwd)/libember.so
root=$(cd "$(dirname "$0")/../.." && pwd)
here=$root/bindings/dotnet
command -v mcs >/dev/null || { echo "there is no mcs, Mono's compiler: scripts/setup.sh install installs it" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

python3 "$here/generate_native.py" --check
"$here/compile.sh" Ember.dll
# Mono's runtime finds Ember.dll beside a program.
compile() {
    out=$1
    shift
    mcs -nologo -codepage:utf8 -warnaserror -r:Ember.dll "-out:$out" "$@"
}
compile Abi.exe "$here/tests/Abi.cs"
compile First.exe "$here/tests/First.cs"
compile Tests.exe "$here"/tests/*Test.cs
# block LANGUAGE [N] prints the README's first block in it, or the N-th.
block() { awk -v start="^\`\`\`$1\$" -v n="${2:-1}" '/^```$/ { on = 0 } on; $0 ~ start { on = ++i == n }' "$here/README.md"; }
block cs >Chat.cs
block cs 2 >Weather.cs
for program in Chat Weather; do
    [ "$(grep -c . $program.cs)" -lt 20 ] || { echo "$program of README.md has 20 lines or more" >&2; exit 1; }
    compile $program.exe $program.cs
done

chat_model=${EMBER_MODELS:-$HOME/.cache/ember/models}/SmolLM2-135M-Instruct.Q4_1.gguf
[ ! -f "$chat_model" ] || python3 "$root/bindings/tool_model.py" "$chat_model" tools.gguf
for kind in dense rank generate vectors score shift; do python3 "$root/bindings/lines.py" $kind >$kind.txt; done

# runs RUNTIME…: the tests with it.
runs() {
    EMBER_LIBRARY=$lib "$@" Abi.exe >abi.txt
    python3 "$here/tests/abi.py" "$lib" abi.txt
    EMBER_LIBRARY=$lib "$@" Tests.exe "$root" "$work" "$chat_model"
    for name in load bytes descriptor borrowed inspect estimate tokenizer sampler version feature log; do
        EMBER_LIBRARY=$lib "$@" First.exe $name "$root/examples/models/ember-tales.gguf" >first.txt 2>&1 ||
            { cat first.txt; echo "the library is not found where $name is called first" >&2; exit 1; }
    done
    if EMBER_LIBRARY=none.so "$@" Abi.exe >none.txt 2>&1 || ! grep -q "none.so, which EMBER_LIBRARY names" none.txt; then
        echo "a library that is not there is not refused by its name" >&2
        exit 1
    fi
    [ -f tools.gguf ] || return 0
    EMBER_LIBRARY=$lib "$@" Weather.exe tools.gguf | grep -q "sunny.*21 degrees"
}

runs mono
if [ -f "$chat_model" ]; then
    mkdir reader
    cp Chat.cs reader
    block sh | sed -e "s|bindings/dotnet|$here|" -e "s|build/lib/libember.so|$lib|" -e "s|model.gguf|$chat_model|" |
        (cd reader && sh -eu) | grep -q "^L'Étoile," # llama.cpp begins this answer in the same way
fi
if [ -n "${DOTNET:-}" ]; then
    version=$("$DOTNET" --list-runtimes | sed -n 's/^Microsoft.NETCore.App \([^ ]*\).*/\1/p' | tail -n 1)
    echo "{\"runtimeOptions\": {\"framework\": {\"name\": \"Microsoft.NETCore.App\", \"version\": \"$version\"}}}" >config.json
    for program in Abi First Tests Weather; do cp config.json $program.runtimeconfig.json; done
    export DOTNET_SYSTEM_GLOBALIZATION_INVARIANT=1
    runs "$DOTNET" exec
    echo "the package for .NET is fine under .NET $version, too"
fi
echo "the package for .NET is fine"
