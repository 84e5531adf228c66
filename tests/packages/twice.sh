#!/usr/bin/env bash
# Packs the libraries of build/release twice, in other circumstances: the packages are the same bytes.
#
#   tests/packages/twice.sh [TARGET…]
#
# EMBER_BUILT names another folder of libraries. The Python that packs is that of EMBER_BUILD_TOOLS (default: build/tools).
set -euo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=${EMBER_BUILD_TOOLS:-build/tools}/bin/python3
# The time of the files, whatever is committed meanwhile.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
"$python" scripts/packages --out "$work/one" "$@" >/dev/null
sleep 2 # zip archives know even seconds
(umask 077 && TZ=Asia/Tokyo LC_ALL=C PYTHONHASHSEED=7 "$python" scripts/packages --out "$work/two" "$@" >/dev/null)
diff "$work/one/SHA256SUMS" "$work/two/SHA256SUMS" || { echo "twice: the same libraries give other packages" >&2; exit 1; }
echo "twice: $(wc -l <"$work/one/SHA256SUMS") files are the same bytes"
