#!/bin/sh
# Compiles the package for .NET: compile.sh OUT, an Ember.dll. Needs Debian's mono-mcs.
set -eu
export LC_ALL=C # one order of the sources

[ $# -eq 1 ] || { echo "usage: $0 OUT" >&2; exit 2; }
out=$1
here=$(cd "$(dirname "$0")" && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml" | head -n 1)
information=$(mktemp)
trap 'rm -f "$information"' EXIT
cat >"$information" <<EOF
[assembly: System.Reflection.AssemblyTitle("Ember")]
[assembly: System.Reflection.AssemblyVersion("$version.0")]
[assembly: System.Reflection.AssemblyFileVersion("$version.0")]
[assembly: System.Reflection.AssemblyInformationalVersion("$version")]
[assembly: System.Runtime.Versioning.TargetFramework(".NETStandard,Version=v2.0")]
EOF
mcs -nologo -codepage:utf8 -optimize -warnaserror -target:library -doc:"${out%.dll}.xml" -out:"$out" "$here"/Ember/*.cs "$information"
