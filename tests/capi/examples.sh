#!/bin/sh
# Tries the example programs: what they print, and what they say about a wrong command line.
#
#   tests/capi/examples.sh BINDIR MODEL
#
# RUNNER, if set, goes before every program (a memory checker, for example).
set -eu

bin=$1
model=$2
runner=${RUNNER:-}
n_failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# run PROGRAM ARGUMENT...: runs it with its standard input; the exit code goes to $code, output to $work/{out,err}.
run() {
    program=$1
    shift
    code=0
    # shellcheck disable=SC2086
    $runner "$bin/$program" "$@" >"$work/out" 2>"$work/err" || code=$?
}

# expect WHAT COMMAND...: the command succeeds.
expect() {
    what=$1
    shift
    if ! "$@"; then
        n_failed=$((n_failed + 1))
        echo "examples: failed: $what (exit code $code)"
        head -c 600 "$work/err"
    fi
}

# refused WORD CODE: the program ended with CODE, and a sentence on standard error names WORD.
refused() { [ "$code" -eq "$2" ] && grep -qF -- "$1" "$work/err"; }

succeeded() { [ "$code" -eq 0 ]; }

run generate -m "$model" -p "Once upon a time" -n 12 --seed 7 -t 2
expect "generate prints text" succeeded
expect "generate begins with the prompt" grep -q "^Once upon a time" "$work/out"
expect "generate tells its timings" grep -q "load .* prefill .* decode .* seed 7" "$work/err"
cp "$work/out" "$work/first"
run generate -m "$model" -p "Once upon a time" -n 12 --seed 7 -t 1
expect "the seed decides" cmp -s "$work/out" "$work/first"
run generate -m "$model" -p "Once upon a time" -n 12 --seed 7 --scalar
expect "generate --scalar prints text" succeeded
# What PyTorch gives for this model's weights (tests/fixtures/bundled/reference.json).
run generate -m "$model" -p "Once upon a time" -n 48 --temp 0
expect "generate --temp 0 gives PyTorch's text" grep -q \
    "^Once upon a time, I was in the habit of making a little more of the matter\. I was in the habit of" "$work/out"
run hello
expect "hello prints more than its prompt" grep -q "^The sea was calm, and the moon.\{20\}" "$work/out"
run generate --help
expect "generate --help" grep -q "top-k, top-p, temperature" "$work/out"
for option in -n --temp --top-k --top-p --seed -t -c; do
    run generate "$option" 1x
    expect "generate $option 1x" refused "$option" 2
    run generate "$option"
    expect "generate $option without a value" refused "$option" 2
done
run generate --temp -1
expect "generate --temp -1" refused --temp 2
run generate --temp nan
expect "generate --temp nan" refused --temp 2
run generate -n 4294967296
expect "generate -n 4294967296" refused -n 2
run generate --wrong
expect "generate --wrong" refused --wrong 2
run generate words
expect "generate words" refused words 2
run generate -m no/such/file
expect "generate without its model" refused no/such/file 1
run generate -m "$model" -c 2 -p "Once upon a time"
expect "generate in a context that is too small" refused n_ctx 1

printf 'Once \303\274pon\n <|endoftext|>a\0b' >"$work/text"
for option in "" --no-bos --no-special; do
    run tokenize "$model" ${option:+"$option"} <"$work/text"
    expect "tokenize $option" grep -qE '^[0-9]+( [0-9]+)*$' "$work/out"
    cp "$work/out" "$work/ids"
    # Special tokens that were text must come back as text: --no-special is for tokenizing alone.
    run tokenize "$model" --decode --no-bos <"$work/ids"
    expect "tokenize $option and back" cmp -s "$work/out" "$work/text"
done
run tokenize "$model" --decode --no-special <"$work/ids"
expect "tokenize --decode --no-special" succeeded
run tokenize "$model" </dev/null
expect "tokenize of nothing" succeeded
run tokenize "$model" --decode </dev/null
expect "tokenize --decode of nothing" succeeded
printf 'a\377' >"$work/bad"
run tokenize "$model" <"$work/bad"
expect "tokenize of bytes that are no UTF-8" refused UTF-8 1
printf '1 x 2' >"$work/bad"
run tokenize "$model" --decode <"$work/bad"
expect "tokenize --decode of a word" refused '"x"' 2
printf '4294967295' >"$work/bad"
run tokenize "$model" --decode <"$work/bad"
expect "tokenize --decode of a token that does not exist" refused 4294967295 1
run tokenize </dev/null
expect "tokenize without a model" refused model 2
run tokenize "$model" --wrong </dev/null
expect "tokenize --wrong" refused --wrong 2

fixture=tests/fixtures/models/gpt2-quant-q8_0
# The tokens of the fixture's reference logits.
ids=$(sed 's/.*"tokens":\[\([0-9,]*\)\].*/\1/; s/,/ /g' "$fixture.json")
# shellcheck disable=SC2086
run logits $fixture.gguf "$work/logits.f32" $ids
expect "logits" succeeded
expect "logits has a row for each token" [ "$(wc -c <"$work/logits.f32")" -eq "$(wc -c <$fixture.logits.f32)" ]
# shellcheck disable=SC2086
run logits $fixture.gguf "$work/scalar.f32" $ids --scalar -t 1
expect "logits --scalar has the same bits" cmp -s "$work/logits.f32" "$work/scalar.f32"
# shellcheck disable=SC2086
run logits $fixture.gguf "$work/half.f32" $ids --kv-f16
expect "logits --kv-f16 has other bits" [ "$(cmp "$work/logits.f32" "$work/half.f32" | wc -l)" -eq 1 ]

# within BOUND A B: the relative root-mean-square error of file A of floats to file B is at most BOUND.
within() {
    od -An -v -tf4 -w4 "$2" >"$work/a"
    od -An -v -tf4 -w4 "$3" >"$work/b"
    paste "$work/a" "$work/b" | awk -v bound="$1" '
        { e += ($1 - $2) ^ 2; n += $2 ^ 2 }
        END { exit !(n > 0 && sqrt(e / n) <= bound) }'
}
# The logits of every position against PyTorch's: int8 activations, and plain F32.
expect "logits agrees with PyTorch" within 3.5e-2 "$work/logits.f32" $fixture.logits.f32
fixture=tests/fixtures/models/llama3-untied-biased
ids=$(sed 's/.*"tokens":\[\([0-9,]*\)\].*/\1/; s/,/ /g' "$fixture.json")
# shellcheck disable=SC2086
run logits $fixture.gguf "$work/f32.f32" $ids
expect "logits of an F32 file agrees with PyTorch" within 1e-4 "$work/f32.f32" $fixture.logits.f32
run logits $fixture.gguf "$work/x.f32" 1 -2
expect "logits of a negative id" refused -2 2
run logits $fixture.gguf "$work/x.f32" 1 2x
expect "logits of a word" refused 2x 2
run logits $fixture.gguf "$work/x.f32" 1 101
expect "logits of a token that does not exist" refused 101 1
run logits $fixture.gguf "$work/x.f32"
expect "logits of nothing" refused id 2
run logits $fixture.gguf "$work/no/x.f32" 1
expect "logits to a folder that does not exist" refused no/x.f32 1

echo "examples: $n_failed failed"
[ "$n_failed" -eq 0 ]
