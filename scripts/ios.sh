#!/usr/bin/env bash
# Builds the static library for iOS, devices and simulators, into build/ios/Ember.xcframework, which Xcode and Package.swift take as it is,
# with the licences beside it. The libraries for macOS go into it too, if `make release` built both (aarch64-apple-darwin and
# x86_64-apple-darwin). Needs nothing but Rust and Python; no Mac.
#
# FEATURES are options of cargo that choose features, IPHONEOS_DEPLOYMENT_TARGET is the oldest iOS that the library is for
# (default 13.0).
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/cross.sh
. scripts/cross.sh

export IPHONEOS_DEPLOYMENT_TARGET=${IPHONEOS_DEPLOYMENT_TARGET:-13.0}
out=build/ios
rm -rf "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
linker=$(cross_linker ld64.lld)
libraries=()
for triple in aarch64-apple-ios:ios-arm64:ios aarch64-apple-ios-sim:ios-simulator-arm64:ios-simulator \
    x86_64-apple-ios:ios-simulator-x86_64:ios-simulator; do
    IFS=: read -r target machine platform <<<"$triple"
    cross_build "$target" staticlib
    library=$work/$machine.a
    cp "$built/libember.a" "$library"
    cross_strip "$library"
    scripts/check-library.py "$machine" "$library"
    # The oldest system that Rust builds for: simulators on Arm begin with 14.0.
    oldest=$(rustc --print deployment-target --target "$target" | cut -d= -f2)
    # Linked as an app would, but without the system's libraries.
    "$linker" -dylib -arch "${machine##*-}" -platform_version "$platform" "$oldest" "$oldest" \
        -undefined dynamic_lookup -dead_strip -S -x -exported_symbol '_ember_*' -all_load "$library" \
        -o "$work/libember.dylib"
    scripts/check-library.py "$machine" "$work/libember.dylib"
    echo "$machine: $(stat -c %s "$work/libember.dylib") bytes in an app"
    libraries+=("$library")
done
macs=(build/release/aarch64-apple-darwin/lib/libember.a build/release/x86_64-apple-darwin/lib/libember.a)
if [ -f "${macs[0]}" ] && [ -f "${macs[1]}" ]; then
    scripts/check-library.py macos-arm64 "${macs[0]}"
    scripts/check-library.py macos-x86_64 "${macs[1]}"
    libraries+=("${macs[@]}")
fi
scripts/xcframework.py "$out/Ember.xcframework" "${libraries[@]}"
cross_licenses "$out/licenses" aarch64-apple-ios
