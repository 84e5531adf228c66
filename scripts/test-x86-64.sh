#!/usr/bin/env bash
# Builds tests for 64-bit x86 Linux and runs them on a processor that has every level of kernels up to AMX (Sapphire Rapids),
# emulated by Bochs: for machines that lack some.
#
#   BOCHS=FOLDER KERNEL=FILE scripts/test-x86-64.sh             whole models, then the unit tests of quant, kernels and backend
#   BOCHS=FOLDER KERNEL=FILE scripts/test-x86-64.sh FILTER...   only the unit tests whose names contain one of the filters
#
# Tests run each level that the processor has. Bochs is some hundred times slower than the machine: whole models take ten minutes,
# the unit tests more than an hour.
#
# FOLDER is where Bochs was built, `bochs` and `bios/` in it, with --enable-x86-64 --enable-avx --enable-evex --enable-amx
# --enable-all-optimizations --with-nogui. Of September 2026 it needs corrections, in the words of Intel's manual (SDM):
#   - without IA32_XFD (MSR 1C4H) and IA32_XFD_ERR (1C5H), and what CPUID 0DH tells of them, Linux keeps no tiles: they have to
#     be stored, and LDTILECFG, TILEZERO and whatever checks a tile have to raise #NM where bit 18 of IA32_XFD is set;
#   - CPUID 0DH, sub-leaf 1, EBX has to count what aligns components of 64 bytes;
#   - signed bytes of TDPBSSD, TDPBSUD and TDPBUSD have to be signed;
#   - the fifth bit of a gather's index (EVEX.V') is none of an operand that is missing.
#
# KERNEL is a Linux image (any of Debian's linux-image packages, /boot/vmlinuz-…). On Debian the rest is: busybox-static cpio
# isolinux syslinux-common xorriso.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo=${CARGO:-cargo}
# Emulated code is slow enough.
export CARGO_PROFILE_TEST_OPT_LEVEL=${CARGO_PROFILE_TEST_OPT_LEVEL:-3}
isolinux=${ISOLINUX:-/usr/lib/ISOLINUX/isolinux.bin}
ldlinux=${LDLINUX:-/usr/lib/syslinux/modules/bios/ldlinux.c32}

die() { echo "test-x86-64: $*" >&2; exit 1; }

[ -x "${BOCHS:-}/bochs" ] || die "there is no bochs in BOCHS=\"${BOCHS:-}\""
[ -f "${KERNEL:-}" ] || die "KERNEL=\"${KERNEL:-}\" is no Linux image"
for file in "$isolinux" "$ldlinux"; do
    [ -f "$file" ] || die "$file is missing; please install isolinux and syslinux-common"
done
for tool in busybox cpio xorriso; do
    command -v $tool >/dev/null || die "$tool is missing"
done

# binary ARGUMENT...: builds a test and prints the path of its program.
binary() {
    local messages
    messages=$("$cargo" test --no-run --message-format=json-render-diagnostics "$@")
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' <<<"$messages" | tail -n 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root"/{bin,proc,sys,dev,tmp,tests}
cp "$(command -v busybox)" "$root/bin/busybox"
cp "$(binary --test it)" "$root/tests/it"
cp "$(binary --lib)" "$root/tests/unit"
# Programs find libraries and fixtures where they were built.
ldd "$root"/tests/* | grep -o '/[^ ]*' | grep -v ':$' | sort -u | while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
done
mkdir -p "$root$PWD/examples"
cp -r tests "$root$PWD/tests"
cp -r examples/models "$root$PWD/examples/models"

# What the emulated machine does, and says on its serial line.
{
    echo '#!/bin/busybox sh'
    echo '/bin/busybox --install -s /bin'
    echo 'mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev'
    echo 'exec </dev/console >/dev/ttyS0 2>&1'
    echo "cd $PWD"
    echo 'failed=0'
    echo '/tests/it --exact isa::levels_of_this_machine --nocapture || failed=1'
    (($#)) || echo '/tests/it --test-threads=1 isa:: bundled_model:: model_golden:: || failed=1'
    printf '/tests/unit --test-threads=1'
    (($#)) || set -- quant:: kernels:: backend::
    printf ' %q' "$@"
    echo ' || failed=1'
    echo "echo \"ended \$failed\"; sleep 2; poweroff -f"
} >"$root/init"
chmod +x "$root/init"

iso=$work/iso
mkdir "$iso"
(cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) >"$iso/initrd"
cp "$KERNEL" "$iso/vmlinuz"
cp "$isolinux" "$ldlinux" "$iso/"
# Bochs's processors have fast short copies (FSRM) without fast copies (ERMS), which Linux does not expect.
cat >"$iso/isolinux.cfg" <<'END'
default linux
label linux
kernel vmlinuz
append initrd=initrd console=ttyS0 quiet panic=1 mitigations=off nokaslr tsc=reliable clearcpuid=fsrm ibt=off
END
xorriso -as mkisofs -quiet -o "$work/boot.iso" -b isolinux.bin -c boot.cat -no-emul-boot -boot-load-size 4 \
    -boot-info-table "$iso" 2>/dev/null

cat >"$work/bochsrc" <<END
config_interface: textconfig
display_library: nogui
romimage: file=$BOCHS/bios/BIOS-bochs-latest
vgaromimage: file=$BOCHS/bios/VGABIOS-lgpl/VGABIOS-lgpl-latest.bin
megs: 3072
cpu: model=sapphire_rapids, count=1, ips=100000000, reset_on_triple_fault=0
clock: sync=none
ata0-master: type=cdrom, path=$work/boot.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$work/serial
log: $work/log
panic: action=fatal
END
# It ends by a panic when the machine is switched off.
"$BOCHS/bochs" -q -f "$work/bochsrc" >/dev/null 2>&1 </dev/null || true
tr -d '\r' <"$work/serial"
levels=$(tr -d '\r' <"$work/serial" | sed -n 's/.*level \([a-z0-9]*\)$/\1/p' | tr '\n' ' ')
[ "$levels" = "scalar avx2 avxvnni avx512 amx " ] || die "the emulated processor has the levels \"$levels\""
grep -q '^ended 0' "$work/serial" || die "tests failed"
echo "test-x86-64: all levels pass"
