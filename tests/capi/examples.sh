#!/bin/sh
# Tries the example programs: what they print, and what they say about a wrong command line.
#
#   tests/capi/examples.sh BINDIR MODEL [CHAT_MODEL]
#
# CHAT_MODEL is SmolLM2-135M-Instruct; without it, it is not talked with. RUNNER, if set, goes before every program (a memory checker, for example).
set -eu

bin=$1
model=$2
chat_model=${3:-}
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
# What PyTorch gives for this model's weights (tests/fixtures/bundled/reference.json), where it is far from a tie.
run generate -m "$model" -p "It was a dark and stormy night, and the little boat" -n 48 --temp 0
expect "generate --temp 0 gives PyTorch's text" grep -q \
    "^It was a dark and stormy night, and the little boat was panting on the ground\. The boat was lifted up" "$work/out"
run generate -m "$model" -p "It was a dark and stormy night, and the little boat" -n 48 --temp 0 --stop "ground" --stop "The boat"
expect "generate --stop ends before the text" grep -qx \
    "It was a dark and stormy night, and the little boat was panting on the " "$work/out"
expect "generate --stop tells why it ended" grep -q "finish: stop text" "$work/err"
run hello
expect "hello prints more than its prompt" grep -q "^The sea was calm, and the moon.\{20\}" "$work/out"
run generate --help
expect "generate --help" grep -q "top-k, top-p, temperature" "$work/out"
run generate --stop
expect "generate --stop without a value" refused --stop 2
run generate --stop ''
expect "generate --stop of nothing" refused --stop 2
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

# A template that has its message come back as the sentence of an error, to see that every character arrives.
# shellcheck disable=SC2016 # {{ }} is the template's
telling='{% if messages[0].content == "Hello" %}Hello{% else %}{{ raise_exception("<" ~ messages[0].content ~ ">") }}{% endif %}'
awk 'BEGIN { for (i = 1; i < 128; i++) if (i != 10 && i != 13) printf "%c", i; print "\303\244\342\202\254\360\237\214\231" }' >"$work/line"
run chat -m "$model" --template "$telling" <"$work/line"
expect "chat goes on after a message that the template refuses" succeeded
expect "chat hands every character to the template" grep -qaF "<$(cat "$work/line")>" "$work/err"
printf 'a\377b\nx\355\240\200\n\300\200\n' >"$work/line"
run chat -m "$model" --template "$telling" <"$work/line"
expect "chat refuses bytes that are no UTF-8, each time" [ "$(grep -c UTF-8 "$work/err")" -eq 3 ]
# shellcheck disable=SC2016
plain='{% for m in messages %}{{ m.content }}{% endfor %}'
printf 'Once <|endoftext|>\nOnce upon a time\r\n there was\n/nonsense\n/reset\nOnce upon a time\n/quit\nlost\n' >"$work/line"
run chat -m "$model" --template "$plain" --temp 0 -n 6 -v -t 1 <"$work/line"
expect "chat" succeeded
expect "chat refuses control tokens" grep -q "control token" "$work/err"
expect "chat refuses commands that there are not" grep -q "/nonsense" "$work/err"
expect "chat answers three messages" [ "$(wc -l <"$work/out")" -eq 3 ]
expect "chat begins anew after /reset" [ "$(sed -n 1p "$work/out")" = "$(sed -n 3p "$work/out")" ]
expect "chat keeps what the context holds" grep -qE "^prompt [0-9]+ tokens, [1-9][0-9]* of them kept" "$work/err"
awk 'BEGIN { for (i = 0; i < 2000; i++) printf "sea "; print "" }' >"$work/line"
run chat -m "$model" --template "$plain" <"$work/line"
expect "chat with a message longer than the context" grep -q "n_ctx" "$work/err"
run chat -m "$model" --template "$plain" </dev/null
expect "chat of nothing" succeeded
expect "chat of nothing prints nothing" [ ! -s "$work/out" ]
run chat -m "$model" </dev/null
expect "chat with a model that has no template" refused template 1
run chat -m "$model" --template "$plain" --system "$(printf '\377')" </dev/null
expect "chat --system that is no UTF-8" refused UTF-8 1
run chat </dev/null
expect "chat without a model" refused -m 2
run chat -m no/such/file </dev/null
expect "chat with a model that is not there" refused no/such/file 1
for option in -n --temp --top-k --top-p --seed -t -c; do
    run chat "$option" 1x </dev/null
    expect "chat $option 1x" refused "$option" 2
done
run chat --wrong </dev/null
expect "chat --wrong" refused --wrong 2
run chat --help
expect "chat --help" grep -q "/reset" "$work/out"

if [ -n "$chat_model" ]; then
    printf 'What is 2+2?\nWhat is the capital of France?\n' >"$work/line"
    run chat -m "$chat_model" --temp 0 -n 24 -v <"$work/line"
    expect "chat can add" grep -q " 4" "$work/out"
    expect "chat knows France" grep -qx "The capital of France is Paris\." "$work/out"
    expect "chat runs what is new of a conversation" grep -qE "^prompt 66 tokens, 4[0-9] of them kept" "$work/err"
    run chat -m "$chat_model" --temp 0 -n 24 --system 'You say "yes" or "no".' <"$work/line"
    expect "chat --system" succeeded
    # Ctrl-C in the midst of a long answer; the next message is answered all the same.
    mkfifo "$work/keys"
    : >"$work/out" # what says that the answer has begun
    : >"$work/err"
    # shellcheck disable=SC2086
    $runner "$bin/chat" -m "$chat_model" --temp 0 -n 4000 -v <"$work/keys" >"$work/out" 2>"$work/err" &
    chat=$!
    exec 9>"$work/keys"
    echo 'What is the capital of France?' >&9
    while kill -0 $chat && [ ! -s "$work/out" ]; do sleep 0.05; done
    kill -INT $chat
    while kill -0 $chat && ! grep -q "^prompt" "$work/err"; do sleep 0.05; done
    echo 'What is 2+2?' >&9
    exec 9>&-
    code=0
    wait $chat || code=$?
    expect "chat goes on after Ctrl-C" succeeded
    expect "Ctrl-C ends the answer" grep -q "^prompt.*interrupted" "$work/err"
    expect "chat answers after Ctrl-C" [ "$(grep -c '^prompt' "$work/err")" -eq 2 ]
fi

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

# llama.cpp's vocabulary files, which have no tensors. Too many programs for a memory checker.
if [ -z "$runner" ]; then
    code=0
    EMBER_MODELS=$(dirname "$(scripts/fetch-model.sh vocabs)")
    export EMBER_MODELS
    python3 tests/capi/vocabs.py "$bin/tokenize" 2 >"$work/err" 2>&1 || code=$?
    expect "tokenize with vocabulary files" succeeded
fi

# lines WHAT N: N lines of JSON tell of WHAT.
lines() { [ "$(grep -cE "^\{.*\"what\": \"$1\".*\}\$" "$work/out")" -eq "$2" ]; }
run bench -m "$model" -p 5,9 -n 3 -d 0,4 -b 1,2 -t 1 -r 2
expect "bench" succeeded
expect "bench measures prompts at each depth, with one sequence" lines prefill 4
expect "bench measures generation at each depth with each number of sequences" lines decode 4
expect "bench tells loading" lines load 1
expect "bench tells memory" grep -q '"peak_kib": [1-9]' "$work/out"
expect "bench tells the instruction set" grep -qE '"isa": "[a-z0-9_-]+"' "$work/out"
# shellcheck disable=SC2016 # these are awk's
expect "bench counts the tokens of all sequences" awk -F'[][]' '
    /"decode".*"batch": 2/ { split($2, s, ", "); split($4, v, ", "); d = v[2] * s[2] / 6; ok += d > 0.99 && d < 1.01 }
    END { exit ok != 2 }' "$work/out"
run bench -m "$model" -p 0 -n 0 -t 1
expect "bench of nothing" lines prefill 0
run bench -m "$model" --cold -t 1
expect "bench --cold" lines cold 1
printf '\n\n' >"$work/steps"
run bench -m "$model" -p 4 -n 4 -t 1 -r 2 --step <"$work/steps"
expect "bench --step repeats as often as asked" lines prefill 2
expect "bench --step ends with its input" lines decode 0
for option in -p -n -d -b -t -r --n-batch; do
    run bench "$option" 1x
    expect "bench $option 1x" refused "$option" 2
done
run bench -p 1,
expect "bench -p 1," refused -p 2
run bench -p 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17
expect "bench with too many prompts" refused -p 2
run bench -b 0
expect "bench -b 0" refused -b 2
run bench -m no/such/file
expect "bench without its model" refused no/such/file 1
run bench -m tests/fixtures/models/bert.gguf -p 4 -n 0
expect "bench of an encoder" refused encoder 1

fixture=tests/fixtures/models/gpt2-quant-q8_0
# The tokens of the fixture's reference logits.
ids=$(sed 's/.*"tokens":\[\([0-9,]*\)\].*/\1/; s/,/ /g' "$fixture.json")
# shellcheck disable=SC2086
run logits $fixture.gguf "$work/logits.f32" $ids
expect "logits" succeeded
expect "logits has a row for each token" [ "$(wc -c <"$work/logits.f32")" -eq "$(wc -c <$fixture.logits.f32)" ]
# shellcheck disable=SC2086
run logits $fixture.gguf "$work/scalar.f32" $ids --scalar -t 1
expect "logits --scalar" succeeded
# shellcheck disable=SC2086
run logits $fixture.gguf "$work/again.f32" $ids -t 1
expect "logits has the same bits on one thread" cmp -s "$work/logits.f32" "$work/again.f32"
# shellcheck disable=SC2086
run logits $fixture.gguf "$work/half.f32" $ids --kv-f16
expect "logits --kv-f16 has other bits" [ "$(cmp "$work/logits.f32" "$work/half.f32" | wc -l)" -eq 1 ]

# close_to BOUND A B: the relative root-mean-square error of file A to file B, a number a line, is at most BOUND.
close_to() {
    paste "$2" "$3" | awk -v bound="$1" '
        { e += ($1 - $2) ^ 2; n += $2 ^ 2 }
        END { exit !(n > 0 && sqrt(e / n) <= bound) }'
}
# within BOUND A B: as close_to for files of float32 numbers.
within() {
    od -An -v -tf4 -w4 "$2" >"$work/a"
    od -An -v -tf4 -w4 "$3" >"$work/b"
    close_to "$1" "$work/a" "$work/b"
}
# The logits of every position against PyTorch's: int8 activations, and plain F32.
expect "logits agrees with PyTorch" within 3.5e-2 "$work/logits.f32" $fixture.logits.f32
expect "logits --scalar agrees with PyTorch" within 3.5e-2 "$work/scalar.f32" $fixture.logits.f32
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

# unit_vectors FILE: every line is a vector of length 1.
unit_vectors() {
    awk '{ s = 0; for (i = 1; i <= NF; i++) s += $i ^ 2; if (s < 0.9999 || s > 1.0001) exit 1 }' "$1"
}
# The hidden states of every token against PyTorch's, and what is made of them.
for name in bert nomic-bert; do
    fixture=tests/fixtures/models/$name
    ids=$(sed 's/.*"tokens":\[\([0-9,]*\)\].*/\1/; s/,/ /g' "$fixture.json")
    # shellcheck disable=SC2086
    run embed $fixture.gguf --out "$work/rows.f32" --pooling none --tokens $ids
    expect "embed of $name agrees with PyTorch" within 1e-4 "$work/rows.f32" $fixture.embd.f32
    # shellcheck disable=SC2086
    run embed $fixture.gguf --tokens $ids --pooling none --scalar
    expect "embed prints a line for each token" [ "$(wc -l <"$work/out")" -eq "$(echo "$ids" | wc -w)" ]
    tr ' ' '\n' <"$work/out" >"$work/a"
    od -An -v -tf4 -w4 $fixture.embd.f32 >"$work/b"
    expect "embed prints what PyTorch gives" close_to 1e-4 "$work/a" "$work/b"
    # shellcheck disable=SC2086
    run embed --tokens $ids $fixture.gguf --pooling mean --no-normalize
    tr ' ' '\n' <"$work/out" >"$work/a"
    awk '{ s[(NR - 1) % 36] += $1 } END { for (i = 0; i < 36; i++) print s[i] / (NR / 36) }' "$work/b" >"$work/mean"
    expect "embed --pooling mean is the mean" close_to 1e-4 "$work/a" "$work/mean"
done
printf 'Once upon a time\nthe sea\r\nx' >"$work/lines"
run embed "$model" <"$work/lines"
expect "embed has a vector for each line" [ "$(wc -l <"$work/out")" -eq 3 ]
expect "embed scales vectors to length 1" unit_vectors "$work/out"
cp "$work/out" "$work/first"
printf 'Once upon a time\nthe sea\nx\n' >"$work/lines"
run embed "$model" -t 1 <"$work/lines"
expect "embed takes both kinds of line ends" cmp -s "$work/out" "$work/first"
run embed "$model" --pooling last --normalize --out "$work/last.f32" <"$work/lines"
expect "embed --out" succeeded
run embed "$model" </dev/null
expect "embed of nothing" succeeded
expect "embed of nothing prints nothing" [ ! -s "$work/out" ]
run embed "$fixture.gguf" <"$work/lines"
expect "embed without a tokenizer" refused tokenizer 1
run embed "$model" --pooling max </dev/null
expect "embed --pooling max" refused max 2
run embed "$model" --wrong </dev/null
expect "embed --wrong" refused --wrong 2
run embed "$model" words </dev/null
expect "embed words" refused words 2
run embed "$model" --tokens
expect "embed --tokens without ids" refused --tokens 2
run embed "$model" --tokens 1 2x
expect "embed --tokens of a word" refused 2x 2
run embed "$model" --tokens 99999999
expect "embed of a token that does not exist" refused 99999999 1
run embed "$model" --tokens 1 --out "$work/no/x.f32"
expect "embed to a folder that does not exist" refused no/x.f32 1
run embed </dev/null
expect "embed without a model" refused model 2
run logits "$fixture.gguf" "$work/x.f32" 1
expect "logits of an encoder" refused encoder 1

echo "examples: $n_failed failed"
[ "$n_failed" -eq 0 ]
