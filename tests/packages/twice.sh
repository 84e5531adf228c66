#!/usr/bin/env bash
# Packs the libraries of build/release twice, in other circumstances: the packages are the same bytes.
#
#   tests/packages/twice.sh [TARGET…]
#
# The Python that packs is that of EMBER_BUILD_TOOLS (default: build/tools).
set -euo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=${EMBER_BUILD_TOOLS:-build/tools}/bin/python3
"$python" scripts/packages --out "$work/one" "$@" >/dev/null
sleep 2 # zip archives know even seconds
(umask 077 && TZ=Asia/Tokyo LC_ALL=C PYTHONHASHSEED=7 "$python" scripts/packages --out "$work/two" "$@" >/dev/null)
diff "$work/one/SHA256SUMS" "$work/two/SHA256SUMS" || { echo "twice: the same libraries give other packages" >&2; exit 1; }
echo "twice: $(wc -l <"$work/one/SHA256SUMS") files are the same bytes"
