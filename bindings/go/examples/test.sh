#!/bin/sh
# Runs the example programs as their users do; arguments are go's flags.
set -eu
cd "$(dirname "$0")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
go build "$@" -o "$out/" ./examples/...

# expect WANT PROGRAM ARGUMENT...
expect() {
    want=$1
    shift
    got=$("$@" 2>&1) || true
    [ "$got" = "$want" ] || { printf '%s gave\n%s\ninstead of\n%s\n' "$*" "$got" "$want" >&2; exit 1; }
}
expect 'Once upon a time, I was in the habit of' "$out/generate" -p 'Once upon a time' -n 8 -temp 0
seeded=$("$out/generate" -p 'The wolf said' -n 30 --seed 5)
expect "$seeded" "$out/generate" -p 'The wolf said' -n 30 --seed 5
expect 1.0000 "$out/embed" 'The sea.' 'The sea.'
expect 'usage: embed -m MODEL TEXT TEXT' "$out/embed" 'The sea.'
# A refusal is a sentence and a failure.
for program in "$out/generate -m no.gguf" "$out/chat -m ../../examples/models/ember-tales.gguf" "$out/embed -m no.gguf a b"; do
    # shellcheck disable=SC2086
    if sentence=$($program 2>&1); then
        echo "$program succeeded" >&2
        exit 1
    fi
    case $sentence in ember:*) ;; *) echo "$program gave: $sentence" >&2; exit 1 ;; esac
done
# With a model that can chat, if make models fetched it.
model=$HOME/.cache/ember/models/SmolLM2-135M-Instruct.Q4_1.gguf
if [ -f "$model" ]; then
    # A very small model; llama.cpp begins this answer in the same way.
    expect "L'Étoile," "$out/chat" -m "$model" -p 'What is the capital of France?' -n 6 -temp 0
else
    echo "no $model: the chat with a real model is left out"
fi
