#!/bin/sh
# The header compiles as C99, C11, C23 and C++17 with strict warnings, included twice, and needs no other header. The examples of its
# sections compile too, and the comments of functions have all their parts.
set -eu
cd "$(dirname "$0")/../.."

strict="-Wall -Wextra -Werror -pedantic -Iinclude -fsyntax-only"
# A use of each kind of declaration, so that it is more than parsed.
source='#include "ember.h"
#include "ember.h"
int main(void)
{
    ember_model_info info = {sizeof info, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, EMBER_POOLING_AUTO, 0, 0, 0, 0, 0, 0, 0, 0};
    ember_context_options *options = 0;
    ember_status status = ember_context_options_set_kv_type(options, EMBER_KV_F32, 0);
    return status == EMBER_OK && info.n_vocab == EMBER_TOKEN_NONE && sizeof info == EMBER_NUL_TERMINATED;
}'

n_c=0
n_cxx=0
# check COMPILER LANGUAGE STANDARD
check() {
    command -v "$1" >/dev/null || return 0
    # shellcheck disable=SC2086
    printf '%s\n' "$source" | "$1" -x "$2" -std="$3" $strict -
    case $2 in c) n_c=$((n_c + 1)) ;; *) n_cxx=$((n_cxx + 1)) ;; esac
}
# c2x is C23, as compilers called it before it was published.
for standard in c99 c11 c2x; do
    check "${CC:-cc}" c $standard
    check gcc c $standard
    check clang c $standard
done
for standard in c++17 c++20; do
    check "${CXX:-c++}" c++ $standard
    check g++ c++ $standard
    check clang++ c++ $standard
done
[ "$n_c" -gt 0 ] || { echo "$0: there is no C compiler" >&2; exit 1; }
[ "$n_cxx" -gt 0 ] || { echo "$0: there is no C++ compiler" >&2; exit 1; }

python3 tests/capi/sections.py comments
# shellcheck disable=SC2086
python3 tests/capi/sections.py examples | "${CC:-cc}" -x c -std=c99 $strict -
echo "header: $n_c compilations as C and $n_cxx as C++ passed"
