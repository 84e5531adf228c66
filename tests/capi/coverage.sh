#!/bin/sh
# Every function of the header is called by a C test.
set -eu
cd "$(dirname "$0")/../.."

missing=
n=0
for function in $(sh tests/capi/functions.sh); do
    n=$((n + 1))
    # A call, or the name handed to a macro that calls it; comments do not count.
    sed 's|/\*.*\*/||' tests/capi/test_*.c | grep -qE "\\b$function *[(,]" || missing="$missing $function"
done
[ "$n" -gt 0 ] || { echo "coverage: found no function in include/ember.h" >&2; exit 1; }
if [ -n "$missing" ]; then
    echo "coverage: no test calls:$missing" >&2
    exit 1
fi
echo "coverage: all $n functions are called"
