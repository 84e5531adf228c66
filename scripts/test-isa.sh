#!/bin/sh
# Runs the tests of whole models once for each instruction-set level that this machine can run.
#
#   scripts/test-isa.sh
#
# CARGO names cargo. The levels are those that the library finds.
set -eu
cd "$(dirname "$0")/.."

cargo=${CARGO:-cargo}
levels=$("$cargo" test --test it -- --exact isa::levels_of_this_machine --nocapture | sed -n 's/.*level \([a-z0-9_]*\)$/\1/p')
[ -n "$levels" ] || { echo "$0: the library names no instruction set" >&2; exit 1; }
for level in $levels; do
    echo "== EMBER_ISA=$level"
    # The filter `embeddings::` is a part of real_embeddings:: too.
    EMBER_ISA=$level "$cargo" test --test it -- isa:: model_golden:: context_batching:: embeddings:: bundled_model:: \
        --skip real_embeddings::
done
