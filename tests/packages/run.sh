#!/usr/bin/env bash
# Installs the packages in an empty folder, without Rust in PATH, and streams a chat with SmolLM2 in each language: the text is that of
# chat.golden.
#
#   tests/packages/run.sh [FOLDER [LANGUAGE…]]
#
# FOLDER is what scripts/packages made (default: build/packages), LANGUAGE c (with C++), debian, conan, python, go, node, java, kotlin, dotnet, musl (C and
# Go) or windows (C, C++ and Go under Wine); without one all. Other authors' packages come from where npm (koffi) and Maven (Kotlin's own)
# are set to. Needs a C and a C++ compiler, CMake, pkg-config, Go 1.24, Node 20 with npm, Java 22 (JAVA names it; without it Java and Kotlin
# are left out), Maven (without it Kotlin is), and Mono with its compiler (without it .NET is left out).
# LINTIAN=lintian has it look at the Debian packages.
set -euo pipefail
cd "$(dirname "$0")/../.."

packages=$(cd "${1:-build/packages}" && pwd)
[ $# -eq 0 ] || shift
here=$PWD/tests/packages
model=$(scripts/fetch-model.sh smollm2)
registry=$(npm config get registry 2>/dev/null || true)
work=$(mktemp -d)
server=
cleanup() {
    [ -z "$server" ] || kill "$server"
    chmod -R u+w "$work" # Go's module cache may only be read
    rm -rf "$work"
}
trap cleanup EXIT
die() { echo "packages: $*" >&2; exit 1; }

# Folders that have Rust are left out of PATH.
path=
for folder in ${PATH//:/ }; do
    if ! [ -x "$folder/cargo" ] && ! [ -x "$folder/rustc" ]; then path+=${path:+:}$folder; fi
done
export PATH=$path
if command -v cargo >/dev/null; then die "there is still cargo in PATH"; fi
unset EMBER_LIBRARY PKG_CONFIG_PATH CGO_CFLAGS CGO_LDFLAGS LD_LIBRARY_PATH PYTHONPATH

# expect NAME PROGRAM ARGUMENT...: the program's chat is the golden one.
expect() {
    local name=$1
    shift
    "$@" "$model" <"$here/messages.txt" >"$work/said" || die "the chat in $name fails"
    diff "$here/chat.golden" "$work/said" || die "the chat in $name is another one"
    echo "packages: the chat in $name is chat.golden, after $SECONDS s"
}

# program COMMAND: the command-line program of a package says its version, and holds the same chat.
program() {
    "$@" --version >version || die "$* does not run"
    grep -qx "libember: $(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml" | head -n 1)" version || die "$* is of another version"
    "$@" chat "$model" --lines --temp 0 <"$here/messages.txt" >"$work/said" || die "the chat of $* fails"
    diff "$here/chat.golden" "$work/said" || die "the chat of $* is another one"
    echo "packages: the chat of $1 is chat.golden, after $SECONDS s"
}

# archive: that for C of this system.
archive() {
    local libc=gnu
    if ldd --version 2>&1 | grep -q musl; then libc=musl; fi
    ls "$packages"/c/ember-*-"$(uname -m)-linux-$libc.tar.gz"
}

test_c() {
    tar -xzf "$(archive)"
    local root
    root=$(ls -d "$PWD"/ember-*)
    if [ -d "$root/bin" ]; then program "$root/bin/ember"; fi
    cp "$here"/c/* .
    export PKG_CONFIG_PATH=$root/lib/pkgconfig
    # shellcheck disable=SC2046 # several options
    cc chat.c -o chat $(pkg-config --cflags --libs ember) "-Wl,-rpath,$root/lib"
    expect "C, pkg-config" ./chat
    if ! { cmake -S . -B build -DCMAKE_PREFIX_PATH="$root" -DCMAKE_BUILD_TYPE=Release && cmake --build build; } >cmake.log 2>&1; then
        cat cmake.log
        die "CMake builds nothing"
    fi
    expect "C, CMake, shared library" build/shared
    expect "C, CMake, static library" build/static
    expect "C++, CMake" build/cpp
    unset PKG_CONFIG_PATH
}

# Debian packages, installed by dpkg as root and taken off again; not where Ember is installed already.
test_debian() {
    local architecture debs
    architecture=$(dpkg --print-architecture 2>/dev/null || true)
    debs=("$packages"/debian/*_"$architecture".deb)
    if [ "$(id -u)" != 0 ] || ! [ -f "${debs[0]}" ] || dpkg -s libember-dev >/dev/null 2>&1; then
        echo "packages: Debian packages are left out, for there are none for this system, root does not run this, or some are installed"
        return
    fi
    # It reads every symbol of the static library, which takes a minute or two.
    if [ -n "${LINTIAN:-}" ]; then "$LINTIAN" --fail-on error,warning "${debs[@]}" || die "lintian has something to say"; fi
    dpkg -i "${debs[@]}" >/dev/null || die "dpkg does not install the Debian packages"
    # shellcheck disable=SC2046 # several options
    cc "$here/c/chat.c" -o chat $(pkg-config --cflags --libs ember)
    expect "C, Debian packages" ./chat
    cc "$here/c/chat.c" -o static -l:libember.a -lpthread -ldl -lm
    expect "C, Debian packages, static library" ./static
    dpkg -r libember-dev "libember$(sed -n 's/^version = "\([0-9]*\).*/\1/p' "$here/../../Cargo.toml" | head -n 1)" >/dev/null
}

test_conan() {
    python3 -m venv conan
    conan/bin/pip install -q --disable-pip-version-check 'conan>=2.9,<3' || die "there is no Conan"
    export CONAN_HOME=$PWD/home
    conan/bin/conan profile detect >/dev/null 2>&1
    for shared in True False; do
        conan/bin/conan create "$packages/conan" -o "ember-inference/*:shared=$shared" >conan.log 2>&1 || { tail -n 40 conan.log; die "conan create fails"; }
        grep -qx "Ember $(cat "$packages/conan/VERSION")" conan.log || die "the program with Conan's package does not run"
        echo "packages: conan create, shared=$shared, after $SECONDS s"
    done
    unset CONAN_HOME
}

test_python() {
    python3 -m venv env
    env/bin/pip install -q --disable-pip-version-check --no-index --find-links "$packages/python" ember-inference
    cp "$here/python/chat.py" .
    expect Python env/bin/python chat.py
    if [ -x env/bin/ember ]; then program env/bin/ember; fi
}

# go_module: a module here that has Ember from the folder of packages.
go_module() {
    # As docs/packages.md says, with nothing but the folder.
    export GOPROXY=file://$packages/go GONOSUMDB=ember.example GOFLAGS='' GOSUMDB=sum.golang.org GOTOOLCHAIN=local
    export GOMODCACHE=$PWD/cache GOCACHE=$PWD/build
    go mod init example.com/chat 2>/dev/null
    go get "$(sed -n 's/^module //p' "$here/../../bindings/go/go.mod")@latest" 2>go.log || { cat go.log; die "go get fails"; }
}

test_go() {
    cp "$here/go/chat.go" .
    go_module
    go build -o chat . || die "go build fails"
    if ldd chat 2>/dev/null | grep ember; then die "the program looks for the shared library"; fi
    expect Go ./chat
}

test_node() {
    python3 "$here/registry.py" "$packages/node" "$registry" "$work/address" &
    server=$!
    for _ in $(seq 50); do [ -s "$work/address" ] || sleep 0.1; done
    npm init -y >/dev/null
    npm install --no-audit --no-fund --silent --cache "$PWD/cache" --registry "$(cat "$work/address")" ember-inference ||
        die "npm install fails"
    cp "$here/node/chat.mjs" .
    expect Node node chat.mjs
}

test_java() {
    local java
    java=$(readlink -f "$(command -v "${JAVA:-java}" || echo none)")
    if ! "$java" --version 2>/dev/null | head -n 1 | grep -qE ' (2[2-9]|[3-9][0-9])' || ! [ -d "$packages/java" ]; then
        echo "packages: Java is left out, for there is no Java 22 (JAVA names one), or no package for it"
        return
    fi
    # As Maven and Gradle lay out a repository.
    local jars
    jars=$(find "$packages/java" -name '*.jar' | tr '\n' ':')
    cp "$here/java/Chat.java" .
    "${java%/java}/javac" -cp "$jars" -d . Chat.java
    expect Java "$java" --enable-native-access=ALL-UNNAMED -cp "$jars." Chat
}

# kotlin_chat NAME CLASSPATH OPTION...: compiles the chat with the jars on the class path, and holds it.
kotlin_chat() {
    local name=$1 jars=$2 kotlin java
    shift 2
    kotlin=$("$here/../../scripts/fetch-kotlin.sh") || die "Kotlin's compiler cannot be fetched"
    java=$(readlink -f "$(command -v "${JAVA:-java}")")
    cp "$here/kotlin/Chat.kt" .
    JAVA=$java "$here/../../bindings/kotlin/compile.sh" . 22 "$jars" Chat.kt
    jars+=:$(ls "$kotlin"/kotlin-stdlib-*.jar):$(ls "$kotlin"/kotlinx-coroutines-core-jvm-*.jar)
    expect "$name" "$java" --enable-native-access=ALL-UNNAMED "$@" -cp "$jars:." ChatKt
}

test_kotlin() {
    local java
    java=$(readlink -f "$(command -v "${JAVA:-java}" || echo none)")
    if ! "$java" --version 2>/dev/null | head -n 1 | grep -qE ' (2[2-9]|[3-9][0-9])' || ! command -v mvn >/dev/null ||
        ! find "$packages/java" -name '*kotlin*.jar' 2>/dev/null | grep -q .; then
        echo "packages: Kotlin is left out, for there is no Java 22 (JAVA names one), no Maven, or no package for it"
        return
    fi
    kotlin_chat Kotlin "$(find "$packages/java" -name '*.jar' | tr '\n' ':')"
}

# As projects of .NET lay out what they take from a package: the assembly beside the program, and the folder of native files.
test_dotnet() {
    local package
    package=$(ls "$packages"/dotnet/*.nupkg 2>/dev/null || true)
    if ! command -v mcs >/dev/null || ! command -v mono >/dev/null || [ -z "$package" ]; then
        echo "packages: .NET is left out, for there is no mcs or mono, or no package for it"
        return
    fi
    python3 -m zipfile -e "$package" package
    cp -r package/lib/netstandard2.0/Ember.dll package/runtimes .
    cp "$here/dotnet/Chat.cs" .
    mcs -nologo -warnaserror -r:Ember.dll Chat.cs
    expect .NET mono Chat.exe
}

# The archive and the Go module for musl, which runs here too.
test_musl() {
    local root
    if ! command -v musl-gcc >/dev/null || ! ls "$packages"/c/ember-*-"$(uname -m)"-linux-musl.tar.gz >/dev/null 2>&1; then
        echo "packages: musl is left out, for there is no musl-gcc, or no package for it"
        return
    fi
    tar -xzf "$packages"/c/ember-*-"$(uname -m)"-linux-musl.tar.gz
    root=$(ls -d "$PWD"/ember-*)
    if [ -d "$root/bin" ] && [ -x "/lib/ld-musl-$(uname -m).so.1" ]; then program "$root/bin/ember"; fi
    musl-gcc "$here/c/chat.c" -o shared "-I$root/include" "-L$root/lib" -lember "-Wl,-rpath,$root/lib"
    expect "C with musl, shared library" ./shared
    musl-gcc -static -Wl,--eh-frame-hdr "$here/c/chat.c" -o static "-I$root/include" "$root/lib/libember.a"
    expect "C with musl, static program" ./static
    mkdir go
    cp "$here/go/chat.go" go
    cd go
    go_module
    CC=musl-gcc go build -tags ember_musl -ldflags '-linkmode external -extldflags "-static -Wl,--eh-frame-hdr"' -o ../chat . || die "go build fails for musl"
    cd ..
    expect "Go with musl, static program" ./chat
}

# The archive and the Go module for Windows, built here and run by Wine.
test_windows() {
    local wine root gcc=x86_64-w64-mingw32-gcc gxx
    # ember.hpp needs std::mutex, which Debian's other g++ for Windows lacks.
    gxx=$(command -v x86_64-w64-mingw32-g++-posix || echo x86_64-w64-mingw32-g++)
    wine=$(command -v wine64 || echo /usr/lib/wine/wine64)
    if ! [ -x "$wine" ] || ! command -v $gcc >/dev/null || ! ls "$packages"/c/ember-*-x86_64-windows-gnu.zip >/dev/null 2>&1; then
        echo "packages: Windows is left out, for there is no wine64, no mingw-w64, or no package for it"
        return
    fi
    export WINEDEBUG=-all WINEPREFIX=$PWD/wine
    python3 -m zipfile -e "$packages"/c/ember-*-x86_64-windows-gnu.zip .
    root=$(ls -d "$PWD"/ember-*)
    cp "$here"/c/* .
    if ! { cmake -S . -B build -DCMAKE_SYSTEM_NAME=Windows -DCMAKE_C_COMPILER=$gcc -DCMAKE_CXX_COMPILER="$gxx" \
        -DCMAKE_EXE_LINKER_FLAGS=-static -DCMAKE_FIND_ROOT_PATH="$root" -DCMAKE_PREFIX_PATH="$root" && cmake --build build; } >cmake.log 2>&1; then
        cat cmake.log
        die "CMake builds nothing for Windows"
    fi
    cp "$root/bin/ember.dll" build
    # Debian's Wine lacks it.
    $gcc -shared -O1 "$here/../windows/bcryptprimitives.c" -o build/bcryptprimitives.dll -ladvapi32
    if [ -f "$root/bin/ember.exe" ]; then
        cp build/bcryptprimitives.dll "$root/bin"
        program windows_program "$root/bin/ember.exe"
    fi
    expect "C for Windows, shared library" windows_program build/shared.exe
    expect "C for Windows, static library" windows_program build/static.exe
    expect "C++ for Windows" windows_program build/cpp.exe
    mkdir go
    cp "$here/go/chat.go" go
    cd go
    go_module
    GOOS=windows GOARCH=amd64 CGO_ENABLED=1 CC=$gcc go build -o ../build/chat.exe . || die "go build fails for Windows"
    cd ..
    expect "Go for Windows" windows_program build/chat.exe
    "$(command -v wineserver || echo /usr/lib/wine/wineserver)" -k || true
}

windows_program() { "$wine" "$@" | tr -d '\r'; }

for language in "${@:-c}"; do
    case $language in c | debian | conan | python | go | node | java | kotlin | dotnet | musl | windows) ;; *) die "the language is c, debian, conan, python, go, node, java, kotlin, dotnet, musl or windows, not \"$language\"" ;; esac
done
[ $# -gt 0 ] || set -- c debian conan python go node java kotlin dotnet musl windows
for language; do
    mkdir "$work/$language"
    cd "$work/$language"
    "test_$language"
    cd "$OLDPWD"
done
