#!/bin/sh
# Installs what was built: the header, the shared and the static library, ember.pc and the package for CMake.
#
#   scripts/install.sh [--strip] [--relocatable] [FOLDER]
#
# FOLDER holds libember.a and the shared library as cargo names them (default: target/release), or what scripts/release.sh made for
# Windows: libember.a, libember.dll.a and ember.lib, and ../bin/ember.dll. --strip leaves debug
# information out; --relocatable has ember.pc find the rest from where it lies itself. From the environment, as is custom:
#
#   PREFIX      where it will be used from (default /usr/local)
#   DESTDIR     put before all paths while installing, for packages (default: nothing)
#   LIBDIR      default $PREFIX/lib
#   INCLUDEDIR  default $PREFIX/include
#   STRIP       default strip
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
die() { echo "install: $*" >&2; exit 1; }

strip='' relocatable='' from=''
for argument; do
    case $argument in
    --strip) strip=yes ;;
    --relocatable) relocatable=yes ;;
    -*) die "there is no option $argument" ;;
    *) from=$argument ;;
    esac
done
from=${from:-${CARGO_TARGET_DIR:-$root/target}/release}
prefix=${PREFIX:-/usr/local}
libdir=${LIBDIR:-$prefix/lib}
includedir=${INCLUDEDIR:-$prefix/include}
for path in "$prefix" "$libdir" "$includedir"; do
    case $path in
    /*) ;;
    *) die "PREFIX, LIBDIR and INCLUDEDIR are absolute paths, but there is \"$path\"" ;;
    esac
done

version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
soversion=${version%%.*}
# What a static library made by Rust needs of the system.
static_libs="-lpthread -ldl -lm"
# As build.rs has the linker name the library.
if [ -f "$from/libember.dll.a" ]; then
    built=libember.dll.a file=../bin/ember.dll name=ember.dll static_libs="-lws2_32 -luserenv -lntdll -lbcrypt -ladvapi32"
    strip_static=-S
elif [ -f "$from/libember.dylib" ]; then
    built=libember.dylib file=libember.$version.dylib name=libember.$soversion.dylib
    strip_static=-S
else
    built=libember.so file=libember.so.$version name=libember.so.$soversion
    # Objects hold a second copy of themselves for the compiler, which no C linker has a use for.
    strip_static="-S -R .llvmbc -R .llvmcmd"
fi
for file_needed in "$from/$built" "$from/libember.a"; do
    [ -f "$file_needed" ] || die "there is no $file_needed; please build it first (make lib)"
done

# relative FROM TO: the path to the folder TO from the folder FROM.
relative() {
    common=$1 up=
    while [ "$common" != / ] && [ "$2" != "$common" ] && [ "${2#"$common"/}" = "$2" ]; do
        common=$(dirname "$common") up=../$up
    done
    rest=${2#"$common"}
    printf '%s%s' "$up" "${rest#/}"
}

# fill TEMPLATE TO: a template with its names in @…@ filled in.
fill() {
    sed -e "s|@PREFIX@|$pc_prefix|g" -e "s|@LIBDIR@|$pc_libdir|g" -e "s|@INCLUDEDIR@|$pc_includedir|g" \
        -e "s|@RELATIVE_INCLUDEDIR@|$(relative "$libdir" "$includedir")|g" \
        -e "s|@VERSION@|$version|g" -e "s|@SOVERSION@|$soversion|g" -e "s|@POINTER_BYTES@|$pointer_bytes|g" \
        -e "s|@SHARED_FILE@|$file|g" -e "s|@SHARED_NAME@|$name|g" -e "s|@STATIC_LIBS@|$libs|g" \
        "$root/packaging/$1" >"$2"
    chmod 644 "$2"
}

pc_prefix=$prefix pc_libdir=$libdir pc_includedir=$includedir
if [ -n "$relocatable" ]; then
    pc_prefix="\${pcfiledir}/$(relative "$libdir/pkgconfig" "$prefix")"
    pc_libdir="\${pcfiledir}/.."
    pc_includedir="\${pcfiledir}/$(relative "$libdir/pkgconfig" "$includedir")"
fi
# The fifth byte of an ELF file says whether it is one of 64 bits; a Mac's are.
pointer_bytes=8
if [ "$built" = libember.so ] && [ "$(od -An -tu1 -j4 -N1 "$from/$built" | tr -d ' ')" = 1 ]; then pointer_bytes=4; fi

lib=${DESTDIR:-}$libdir include=${DESTDIR:-}$includedir
mkdir -p "$lib/pkgconfig" "$lib/cmake/Ember" "$include/ember"
# put FROM TO MODE [HOW]: a copy under a new name, so that a program that runs with the old one keeps it; stripped,
# if that is asked for, with the option HOW of strip.
put() {
    cp "$1" "$2.new"
    chmod "$3" "$2.new"
    # shellcheck disable=SC2086 # several options in one
    if [ -n "$strip" ] && [ $# -gt 3 ]; then "${STRIP:-strip}" $4 "$2.new"; fi
    mv -f "$2.new" "$2"
}
put "$root/include/ember.h" "$include/ember.h" 644
put "$root/bindings/cpp/ember.hpp" "$include/ember.hpp" 644
for header in "$root"/bindings/cpp/ember/*.hpp; do
    put "$header" "$include/ember/$(basename "$header")" 644
done
put "$from/libember.a" "$lib/libember.a" 644 "$strip_static"
if [ "$name" = ember.dll ]; then
    mkdir -p "$lib/../bin"
    put "$from/../bin/ember.dll" "$lib/$file" 755 -s
    for import in libember.dll.a ember.lib ember.def; do put "$from/$import" "$lib/$import" 644; done
else
    put "$from/$built" "$lib/$file" 755 -Sx
    ln -sf "$file" "$lib/$name"
    ln -sf "$name" "$lib/$built"
fi
libs=$static_libs
fill ember.pc.in "$lib/pkgconfig/ember.pc"
# CMake's lists go by semicolons.
libs=$(echo "$static_libs" | tr ' ' ';')
fill EmberConfig.cmake.in "$lib/cmake/Ember/EmberConfig.cmake"
fill EmberConfigVersion.cmake.in "$lib/cmake/Ember/EmberConfigVersion.cmake"
