#!/usr/bin/env bash
# Runs tests under Miri, an interpreter that notices undefined behaviour: accesses outside of an allocation, of freed or
# uninitialised memory, at addresses that are not aligned, against the rules of references, races between threads; and leaks.
#
#   scripts/miri.sh                           what is listed below
#   scripts/miri.sh OPTION… [-- FILTER…]      `cargo miri test` with these options, such as --lib, instead
#
# Needs nightly Rust with Miri: rustup toolchain install nightly --component miri,rust-src. CARGO names cargo.
#
# Miri is some thousand times slower than the machine. Files cannot be mapped in it, and it reports a processor without vector
# instructions, so that the scalar kernels run.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo=${CARGO:-cargo}
"$cargo" +nightly miri --version >/dev/null 2>&1 || {
    echo "$0: there is no Miri: rustup toolchain install nightly --component miri,rust-src" >&2
    exit 1
}
# Tests look at files and the clock; those that compare bits want the same ones each time.
export MIRIFLAGS="${MIRIFLAGS:-} -Zmiri-disable-isolation -Zmiri-deterministic-floats"

if (($#)); then
    exec "$cargo" +nightly miri test "$@"
fi

# Modules with unsafe code, or whose types such code relies on, and of the others what takes seconds.
modules=(
    cancel:: capi:: context:: error:: generate:: gguf:: kernels::select:: memory:: nn:: threads:: tokenizer::json_parts::
    tokenizer::vocab:: chat::clock:: sampler::rng::
    # Of safe code that is long numbers, a few.
    quant::activation:: quant::bf16:: quant::bits:: quant::f32:: quant::q4_0:: quant::q4_1:: quant::q8_0::
    quant::f16::tests::ties_go_to_even quant::tests::the_registry_is_consistent
)
skipped=(
    # Files are mapped.
    advice_changes_no_byte mapped_and_read_bytes_are_the_file a_file_is_the_same_mapped_and_read
    parts_are_read_where_they_are_and_those_that_are_gone_are_errors
    # What Linux says of the process's memory.
    zeroed_memory_is_taken_when_it_is_touched
    # Miri ends where there is no memory.
    memory_for_much_is_looked_for
    # Hundreds of thousands of cases, or of numbers, in code without `unsafe`.
    every_split_of_short_texts_gives_the_same random_splits_of_long_texts_give_the_same
    the_error_is_smaller_than_the_plain_rules integer_dot_extremes what_rows_see_is_never_written_over
    many_logits_are_added_up_side_by_side strings_that_need_not_be_utf_8_are_written_as_lossy_texts_are
)
"$cargo" +nightly miri test --lib -- "${modules[@]}" "${skipped[@]/#/--skip=}"
# A whole model, from the host's bytes to the text of an engine's requests.
"$cargo" +nightly miri test --test it -- tiny_model::
