#!/usr/bin/env bash
# Builds the tests for WebAssembly (wasm32-wasip1: 32 bits, scalar kernels, one thread, no memory mapping, panics end the
# program) and runs them under Node.js.
#
#   scripts/test-wasm.sh                      the unit tests and most test files
#   scripts/test-wasm.sh OPTION… [-- FILTER…] `cargo test` with these options, such as --lib, instead
#
# Needs Node.js 20 or later. Rust's standard library for the target is added with rustup if it is not there.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/cross.sh
. scripts/cross.sh

target=wasm32-wasip1
command -v node >/dev/null || { echo "$0: node is missing; please install Node.js" >&2; exit 1; }
# Node's own functions of WASI may start a garbage collection within a fast call, which crashes it (nodejs/node#46777).
export CARGO_TARGET_WASM32_WASIP1_RUNNER="node --no-warnings --no-turbo-fast-api-calls $PWD/scripts/wasi.mjs"
cross_std $target
if (($#)); then
    "$cargo" test --target $target "${build_std[@]}" "$@"
    exit
fi

# The rest: architecture, readme and models_doc read the sources; bad_models, cancel and model_keys need threads or go on
# after a panic; allocation, idle and memory measure threads or what the system says of the process; real models and large
# vocabularies take many minutes of one thread.
files=()
for name in bundled_model context_batching embeddings engine generate gguf_errors gguf_split isa model_errors model_golden \
    sampler_dry sequences shift speculate; do
    files+=("$name::")
done
"$cargo" test --target $target "${build_std[@]}" --lib --test gguf_hostile
# The filter `embeddings::` is a part of real_embeddings:: too.
"$cargo" test --target $target "${build_std[@]}" --test it -- "${files[@]}" --skip real_embeddings::
