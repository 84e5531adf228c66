#!/usr/bin/env bash
# Tests the library for Windows on x86-64 under Wine: the C tests that need nothing of POSIX but threads, paths as Windows has
# them, the C examples, and what the DLL exports and imports.
#
#   scripts/test-windows.sh [FOLDER]
#
# FOLDER is what scripts/release.sh made of x86_64-windows-gnu (default: build/release/x86_64-windows-gnu). Needs Debian's wine64
# and mingw-w64. TESTS names the C tests, all that are not left out if there are none.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { echo "test-windows: $*" >&2; exit 1; }
at=$(cd "${1:-build/release/x86_64-windows-gnu}" && pwd) || die "there is nothing; please run make release TARGET=x86_64-windows-gnu"
gcc=x86_64-w64-mingw32-gcc
command -v $gcc >/dev/null || die "there is no $gcc; please install mingw-w64"
wine=$(command -v wine64 || echo /usr/lib/wine/wine64)
[ -x "$wine" ] || die "there is no wine64; please install it"
export WINEDEBUG=${WINEDEBUG:--all} WINEPREFIX=${WINEPREFIX:-$PWD/build/wine}
mkdir -p "$WINEPREFIX"

out=build/windows
rm -rf "$out"
mkdir -p "$out"
cp "$at/bin/ember.dll" "$out"
# Debian's Wine lacks it.
$gcc -shared -O1 tests/windows/bcryptprimitives.c -o "$out/bcryptprimitives.dll" -ladvapi32

# What is exported is the header's functions, and what is imported is the system's.
x86_64-w64-mingw32-objdump -p "$at/bin/ember.dll" >"$out/headers"
awk '/\[Ordinal\/Name Pointer\] Table/{on = 1; next} on && NF == 0 {exit} on {print $NF}' "$out/headers" | sort >"$out/exports"
sh tests/capi/functions.sh | sort >"$out/functions"
missing=$(comm -23 "$out/functions" "$out/exports")
[ -z "$missing" ] || die "the DLL does not export $missing"
others=$(comm -13 "$out/functions" "$out/exports")
[ -z "$others" ] || die "the DLL exports what is not in the header: $others"
imports=$(sed -n 's/^\tDLL Name: //p' "$out/headers" | tr '\n' ' ')
for dll in $imports; do
    case $(echo "$dll" | tr "[:upper:]" "[:lower:]") in
    kernel32.dll | ntdll.dll | msvcrt.dll | bcryptprimitives.dll | userenv.dll | ws2_32.dll | api-ms-win-*.dll | advapi32.dll) ;;
    *) die "the DLL needs $dll, which is not Windows'" ;;
    esac
done
echo "ember.dll: $(wc -l <"$out/exports") functions, of the system's $imports"

# What these need that Windows does not have.
left_out="test_fork:fork test_fork_engine:fork test_faults:dlsym_of_malloc test_interrupt:sigaction test_state:setrlimit
    test_files:mkfifo,_symlinks_and_descriptors test_copies:dlopen test_stack:threads_with_stacks_of_chosen_size
    test_cancel_soon:measures_time test_rounds:the_size_of_the_process test_inside:sigaction test_cancel:sigaction test_isa:setenv test_load:sys/mman.h"
tests=${TESTS:-$(find tests/capi -name 'test_*.c' -printf '%f\n' | sed 's/\.c$//' | sort)}
python3 tests/capi/abi/abi.py table include/ember.h >"$out/functions.h"
flags="-std=c99 -O1 -g0 -Wall -Wextra -Werror -pedantic -Wno-unused-variable -Wno-unused-function -D__USE_MINGW_ANSI_STDIO=1 -Iinclude -I$out"
model=examples/models/ember-tales.gguf
passed=0 failed=''
run() { timeout "${LIMIT:-300}" "$wine" "$@"; }
for test in $tests; do
    reason=$(echo "$left_out" | tr ' ' '\n' | sed -n "s/^$test://p")
    if [ -n "$reason" ]; then
        echo "$test: left out, for it needs ${reason//_/ }"
        continue
    fi
    # shellcheck disable=SC2086 # several options in one
    if $gcc $flags "tests/capi/$test.c" -o "$out/$test.exe" "$at/lib/libember.dll.a" -static -lpthread >"$out/$test.log" 2>&1 &&
        run "$out/$test.exe" "$model" >>"$out/$test.log" 2>&1; then
        passed=$((passed + 1))
        echo "$test: $(tail -n 1 "$out/$test.log" | tr -d '\r')"
    else
        failed+=" $test"
        echo "$test: FAILED"
        tail -n 12 "$out/$test.log"
    fi
done

# A share of which the files may only be read: Wine has shares below dosdevices/unc. Root may write everything, without this right it
# may not. Wine's server opens the files, so it begins anew.
wineserver=$(command -v wineserver || echo /usr/lib/wine/wineserver)
"$wineserver" -k || true
share=$PWD/$out/share
mkdir -p "$share/models" "$WINEPREFIX/dosdevices/unc/ember"
ln -sfn "$share" "$WINEPREFIX/dosdevices/unc/ember/share"
cp tests/fixtures/models/gpt2-tied.gguf "$share/models/Modell für 😀.gguf"
chmod 444 "$share/models/"*.gguf
chmod 555 "$share/models"
trap 'chmod 755 "$share/models"' EXIT
reader=()
[ "$(id -u)" != 0 ] || reader=(setpriv --bounding-set "-dac_override,-dac_read_search,-fowner")
# shellcheck disable=SC2086
if $gcc $flags -Itests/capi tests/windows/share.c -o "$out/share.exe" "$at/lib/libember.dll.a" -static >"$out/share.log" 2>&1 &&
    "${reader[@]}" timeout "${LIMIT:-300}" "$wine" "$out/share.exe" ember/share/models >>"$out/share.log" 2>&1; then
    passed=$((passed + 1))
    echo "share: $(tail -n 1 "$out/share.log" | tr -d '\r')"
else
    failed+=" share"
    tail -n 12 "$out/share.log"
fi
"$wineserver" -k || true

# The examples with the shared and with the static library: the same words as on Linux, for the numbers are the same. The model's
# path has what the encodings of Windows lack.
at_home="$out/ein Ordner 😀"
mkdir -p "$at_home"
cp $model "$at_home/größe.gguf"
want="Once upon a time"
smollm2=$(scripts/fetch-model.sh smollm2)
for linkage in shared static; do
    case $linkage in
    shared) libraries=("$at/lib/libember.dll.a") ;;
    static) libraries=("$at/lib/libember.a" -lws2_32 -luserenv -lntdll -lbcrypt -ladvapi32) ;;
    esac
    for example in generate hello chat; do
        # shellcheck disable=SC2086
        $gcc $flags "examples/c/$example.c" -o "$out/$example-$linkage.exe" "${libraries[@]}" -static -lpthread ||
            { failed+=" $example-$linkage"; continue; }
    done
    said=$(run "$out/generate-$linkage.exe" -m "$at_home/größe.gguf" -p "$want" -n 12 --temp 0 2>"$out/generate.log" | tr -d '\r') ||
        failed+=" generate-$linkage"
    case $said in
    "$want, I was in the habit of making a little more") echo "generate, $linkage: $said"; passed=$((passed + 1)) ;;
    *) failed+=" generate-$linkage"; echo "$said"; cat "$out/generate.log" ;;
    esac
done
# As tests/packages has every language ask.
said=$(tr '\n' '\r' <tests/packages/messages.txt | sed 's/\r/\r\n/g' |
    run "$out/chat-shared.exe" -m "$smollm2" --temp 0 -n 32 2>"$out/chat.log" | tr -d '\r') || failed+=" chat"
if [ "$said" = "$(cat tests/packages/chat.golden)" ]; then
    echo "chat: the same as tests/packages/chat.golden"
    passed=$((passed + 1))
else
    failed+=" chat"
    echo "$said"
    cat "$out/chat.log"
fi
[ -z "$failed" ] || die "failed:$failed"
echo "$passed passed, 0 failed"
