#!/bin/sh
# Runs a command in a Debian system that has Swift 6, and makes that system first if it is not there.
#
#   bindings/swift/chroot.sh [--share FOLDER]... COMMAND [ARGUMENT...]
#
# The system is in $EMBER_SWIFT_ROOT, by default ~/.cache/ember/swift. The command runs in this folder, and sees the
# repository and the shared folders under their own paths. Needs Linux, root, debootstrap and, the first time, 5 GB of disk
# and a network; EMBER_DEBIAN_MIRROR names another mirror than deb.debian.org.
set -eu

root=${EMBER_SWIFT_ROOT:-$HOME/.cache/ember/swift}
mirror=${EMBER_DEBIAN_MIRROR:-http://deb.debian.org/debian}
# The compiler, what it links with, and pkg-config.
packages="swiftlang libc6-dev libstdc++-14-dev zlib1g-dev git pkgconf"

die() { echo "$0: $*" >&2; exit 1; }

# All mounts are in a namespace of their own, and gone with it.
if [ "${EMBER_SWIFT_MOUNTS:-}" != own ]; then
    [ "$(id -u)" = 0 ] || die "making a Debian system with Swift needs root; or install Swift 6 (swift.org) and try again"
    EMBER_SWIFT_MOUNTS=own exec unshare --mount "$0" "$@"
fi

repository=$(cd "$(dirname "$0")/../.." && pwd)

if [ ! -f "$root/complete" ]; then
    command -v debootstrap >/dev/null || die "there is neither swift nor debootstrap (Debian: apt-get install debootstrap)"
    [ ! -e "$root" ] || die "$root is there and no Debian system of this script's; remove it, or set EMBER_SWIFT_ROOT"
    mkdir -p "$(dirname "$root")"
    free=$(df -Pk "$(dirname "$root")" | awk 'NR == 2 { print $4 }')
    [ "$free" -ge 5242880 ] || die "$(dirname "$root") has $((free / 1024)) MB free, and 5120 are needed"
    echo "making a Debian system with Swift in $root"
    part=$root.part
    rm -rf --one-file-system "$part"
    debootstrap --variant=minbase trixie "$part" "$mirror" >"$root.log" 2>&1 || die "debootstrap failed, see $root.log"
    [ ! -e /etc/resolv.conf ] || cp -L /etc/resolv.conf "$part/etc/resolv.conf"
    if command -v apt-config >/dev/null; then
        apt-config dump | grep -i '^Acquire::[a-z]*::Proxy' >"$part/etc/apt/apt.conf.d/90proxy" || true
    fi
    mount -t proc proc "$part/proc"
    for command in update "install -y --no-install-recommends $packages" clean; do
        # shellcheck disable=SC2086
        chroot "$part" env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin http_proxy="${http_proxy:-}" \
            DEBIAN_FRONTEND=noninteractive apt-get $command >>"$root.log" 2>&1 || die "apt-get failed, see $root.log"
    done
    umount "$part/proc"
    touch "$part/complete"
    mv "$part" "$root"
    rm -f "$root.log"
fi

# share FOLDER: the folder is there in the system under its own path.
share() {
    mkdir -p "$root$1"
    mount --bind "$1" "$root$1"
}

mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
share "$repository"
while [ "${1:-}" = --share ]; do
    share "$(cd "$2" && pwd -P)"
    shift 2
done
# shellcheck disable=SC2016
exec chroot "$root" env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    sh -c 'cd "$1" && shift && exec "$@"' sh "$repository/bindings/swift" "$@"
