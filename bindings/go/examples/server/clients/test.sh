#!/bin/sh
# Runs the official OpenAI clients for Python and Node, unchanged, against the example server.
#
#   bindings/go/examples/server/clients/test.sh LIBDIR FOLDER
#
# LIBDIR holds libember.so; the program, the environments and the server's logs go to FOLDER. Needs Go, python3 with venv, node
# and npm, and the models smollm2 and minilm of scripts/fetch-model.sh. The blocks of README.md are run, too.
set -eu

[ $# -eq 2 ] || { echo "usage: $0 LIBDIR FOLDER" >&2; exit 2; }
for tool in go python3 node npm; do
    command -v $tool >/dev/null || { echo "$0: there is no $tool" >&2; exit 1; }
done
lib=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
cd "$(dirname "$0")"
here=$PWD
root=$(cd ../../../../.. && pwd)
models=${EMBER_MODELS:-$HOME/.cache/ember/models}

# block N prints a block of README.md.
block() { awk -v n="$1" '/^```/ { inside = !inside; i += inside; next } inside && i == n' "$here/../README.md"; }

# The first block builds and starts the server; here the library is there already, and the program goes elsewhere.
block 1 | sed -e '/^make lib/d' -e '/^\.\/server/d' -e "s|\$PWD/../../build/lib|$lib|g" -e "s|-o server|-o $out/server|" >"$out/build.sh"
grep -q "go build .*-o $out/server" "$out/build.sh"
(cd "$root" && sh -eu "$out/build.sh")
[ -x "$out/python/bin/python" ] || python3 -m venv "$out/python"
"$out/python/bin/pip" install --quiet --disable-pip-version-check -r requirements.txt
mkdir -p "$out/node"
cp package.json client.test.mjs "$out/node"
(cd "$out/node" && npm install --silent --no-audit --no-fund --no-package-lock)

pids=
# What was started ends with this script, whatever happens.
trap 'for pid in $pids; do kill "$pid" 2>/dev/null || true; done' EXIT
# start NAME ARGUMENT... starts a server and puts its address into $url.
start() {
    name=$1
    shift
    rm -f "$out/$name.log" # of an earlier run
    "$out/server" -addr 127.0.0.1:0 "$@" 2>"$out/$name.log" &
    pid=$!
    pids="$pids $pid"
    until url=$(sed -n 's/.*msg=listening addr=\([^ ]*\).*/http:\/\/\1/p' "$out/$name.log" 2>/dev/null) && [ -n "$url" ]; do
        kill -0 $pid 2>/dev/null || { cat "$out/$name.log" >&2; exit 1; }
        sleep 0.1
    done
}
unset EMBER_API_KEYS OPENAI_API_KEY OPENAI_BASE_URL
smollm2=$models/SmolLM2-135M-Instruct.Q4_1.gguf
start small -m "smollm2=$smollm2" -parallel 1 -queue 1
export EMBER_SMALL_URL="$url"
start real -m "smollm2=$smollm2" -m "minilm=$models/all-MiniLM-L6-v2"
export EMBER_REAL_URL="$url"
echo secret >"$out/keys"
start main -m "toy=$root/examples/models/ember-tales.gguf" -chat-template template.jinja -api-keys "$out/keys"
export EMBER_URL="$url" EMBER_ROOT="$root"
main=$pid

block 2 | sed "s|curl|curl -s|; s|localhost:8080|$EMBER_REAL_URL|" | sh -eu >"$out/curl.out"
grep -q '^data: {.*"content":' "$out/curl.out" && grep -q '^data: \[DONE\]' "$out/curl.out"
(echo "import openai" && block 3 | sed "s|http://localhost:8080|$EMBER_REAL_URL|") | "$out/python/bin/python" -
"$out/python/bin/python" -m unittest -v "$here/test_client.py"
node --test "$out/node/client.test.mjs"

# Asked to end, the server does.
kill -TERM "$main"
wait "$main" || { cat "$out/main.log" >&2; exit 1; }
grep -q 'msg=stopped' "$out/main.log"
echo "the example server is fine"
