# shellcheck shell=bash
# For scripts that build for other systems, to be sourced.
#
# Rust's standard library for the target is what rustup has or adds; where it cannot, it is built from the compiler's own
# sources (rustup component add rust-src, or the folder `library` of them in RUST_SRC).

cargo=${CARGO:-cargo}

# cross_std TARGET: sees to it that there is a standard library for the target. Sets build_std to options of cargo.
cross_std() {
    local target=$1 sources
    build_std=()
    if ls "$(rustc --print target-libdir --target "$target")"/libstd-* >/dev/null 2>&1; then return; fi
    if command -v rustup >/dev/null && rustup target add "$target"; then return; fi
    sources=${RUST_SRC:-$(rustc --print sysroot)/lib/rustlib/src/rust/library}
    if [ ! -f "$sources/std/src/lib.rs" ]; then
        echo "$0: rustup cannot add $target, and there are no sources of Rust in $sources" >&2
        return 1
    fi
    echo "$0: building Rust's standard library for $target from $sources"
    # Unstable; the stable compiler does it all the same.
    export RUSTC_BOOTSTRAP=1 __CARGO_TESTS_ONLY_SRC_ROOT=$sources
    build_std=("-Zbuild-std=std,panic_unwind")
}

# cross_build TARGET CRATE-TYPES: builds the library with the release profile, into the folder that it puts into built.
# FEATURES are options of cargo that choose features.
cross_build() {
    local target=$1 types=$2
    cross_std "$target"
    # shellcheck disable=SC2086 # several options in one
    "$cargo" rustc --release --lib --target "$target" --crate-type "$types" --features capi "${build_std[@]}" ${FEATURES:-}
    # shellcheck disable=SC2034 # the caller's
    built=${CARGO_TARGET_DIR:-target}/$target/release
}

# cross_objcopy ARGUMENT...: LLVM's objcopy, which knows every system's objects.
cross_objcopy() {
    local objcopy=${OBJCOPY:-} library sysroot
    sysroot=$(rustc --print sysroot)
    if [ -z "$objcopy" ]; then
        objcopy=$(ls "$sysroot"/lib/rustlib/*/bin/rust-objcopy 2>/dev/null || command -v llvm-objcopy) || {
            echo "$0: there is no llvm-objcopy; please install llvm, or name one in OBJCOPY" >&2
            return 1
        }
    fi
    library=$sysroot/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    LD_LIBRARY_PATH=$library "$objcopy" "$@"
}

# cross_strip ARCHIVE: takes debug information and the compiler's own copies of the code out of a static library.
cross_strip() {
    cross_objcopy --strip-debug -R .llvmbc -R .llvmcmd -R __LLVM,__bitcode -R __LLVM,__cmdline "$1"
}

# cross_linker NAME: prints the path of a linker of LLVM's, ld.lld or ld64.lld: the compiler's own, or one in PATH.
cross_linker() {
    local mine
    for mine in "$(rustc --print sysroot)"/lib/rustlib/*/bin/gcc-ld/"$1"; do
        [ ! -x "$mine" ] || { echo "$mine"; return; }
    done
    command -v "$1" || { echo "$0: there is no $1; please install lld" >&2; return 1; }
}

# cross_licenses FOLDER TARGET [OPTION…]: the licences of all code that is in the library, and the bill of materials. OPTION are those of
# scripts/third-party.py.
cross_licenses() {
    local folder=$1 target=$2
    shift 2
    mkdir -p "$folder"
    cp LICENSE LICENSE-APACHE LICENSE-MIT "$folder"
    # shellcheck disable=SC2086 # several options in one
    python3 scripts/third-party.py "$folder" --target "$target" "$@" ${FEATURES:-}
}

# cross_program TARGET LIBDIR OUT COMMAND…: builds the command-line program for the target by a command of cargo's (`build`, say), links
# it with the shared library in a folder, and puts it into the folder OUT, with what is said of the code in it.
cross_program() {
    local target=$1 folder=$2 out=$3 built=${CARGO_TARGET_DIR:-target}/program
    shift 3
    EMBER_LIB_DIR=$(cd "$folder" && pwd) "$cargo" "$@" --release --locked --manifest-path cli/Cargo.toml --target-dir "$built" "${build_std[@]}"
    mkdir -p "$out"
    cp "$built/$target"/release/ember "$out" 2>/dev/null || cp "$built/$target"/release/ember.exe "$out"
    python3 scripts/third-party.py "$out" --program --target "$target"
}

# cross_elf TRIPLE ARCHIVE FUNCTIONS SHARED SONAME LINKER…: makes a static library one object, in which only the functions that are
# listed in a file can be seen: a program may hold other libraries made of Rust, and other copies of the crates in this one. Links the
# shared library from it. tests/packaging/unwind.sh tests that panics are caught in both.
cross_elf() {
    local triple=$1 archive=$2 functions=$3 shared=$4 soname=$5 object=$2.o collect=--gc-sections gnu unwinder=()
    shift 5
    # LLVM's linker would take what is needed to unwind for garbage.
    gnu=${triple%%-*}-linux-gnu-ld
    command -v "$gnu" >/dev/null || {
        gnu=$(cross_linker ld.lld)
        collect=--no-gc-sections
    }
    # Compilers for musl have no unwinder as a rule, or one for glibc.
    case $triple in *-musl) unwinder=("$(rustc --print target-libdir --target "$triple")/self-contained/libunwind.a") ;; esac
    # shellcheck disable=SC2046 # an option for each function
    "$gnu" -r $collect $(sed 's/^/-u /' "$functions") -o "$object" "$archive" "${unwinder[@]}"
    cross_objcopy --keep-global-symbols="$functions" "$object"
    cross_objcopy --strip-unneeded -R .llvmbc -R .llvmcmd "$object"
    rm "$archive"
    ar rcsD "$archive" "$object"
    "$@" -shared -s -o "$shared" "-Wl,-soname,$soname" -Wl,--gc-sections "$object" -lpthread -ldl -lm -lunwind
    rm "$object"
}

# cross_macho PROCESSOR OLDEST ARCHIVE FUNCTIONS DYLIB VERSION STUB: links a library for macOS from a static one, with LLVM's linker, which
# signs it ad hoc. Only the functions that are listed in a file can be seen: zig's linker would show all of Rust's. STUB is what Apple's
# libSystem looks like to a linker (libSystem.tbd, which zig has).
cross_macho() {
    local processor=$1 oldest=$2 archive=$3 functions=$4 dylib=$5 version=$6 stub=$7 linker
    linker=$(cross_linker ld64.lld)
    # shellcheck disable=SC2046 # an option for each function
    "$linker" -dylib -arch "${processor/aarch64/arm64}" -platform_version macos "$oldest" "$oldest" -dead_strip -S -x \
        -exported_symbols_list "$functions" $(sed 's/^/-u /' "$functions") -install_name "@rpath/libember.${version%%.*}.dylib" \
        -current_version "$version" -compatibility_version "${version%%.*}.0.0" -o "$dylib" "$archive" "$stub"
}

# cross_dll ARCHIVE DEFINITIONS DLL IMPORTS LINKER…: links a DLL that exports what a .def file lists. No time of the build is in it.
cross_dll() {
    local archive=$1 definitions=$2 dll=$3 imports=$4
    shift 4
    "$@" -shared -o "$dll" "$definitions" "$archive" -lws2_32 -luserenv -lntdll -lbcrypt -ladvapi32 -Wl,--gc-sections \
        -Wl,--no-insert-timestamp -Wl,--image-base=0x180000000 "-Wl,--out-implib,$imports"
    cross_objcopy --strip-all "$dll"
}
