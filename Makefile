# The front door. `make help` lists what there is.
.DEFAULT_GOAL := help

CARGO ?= cargo
# Where scripts/setup.sh puts Go.
export PATH := $(CURDIR)/build/go/only:$(PATH)
CC ?= cc
CFLAGS ?= -O2
PROMPT ?= The sea was calm, and the moon
N ?= 64
MODEL ?= examples/models/ember-tales.gguf
# More options of the generate program. The fetched models continue with the likeliest tokens, the same every time.
ARGS ?= $(if $(filter smollm2 stories15m gemma3,$(MODEL)),--temp 0,--temp 0.65)
# What measures, and its options: see bench/README.md.
PYTHON ?= python3
export PYTHON
# `make` runs whole suites, whose tests run real models: the crate is optimised in full for them. A plain `cargo test` of one
# module is built fast instead (see Cargo.toml and CONTRIBUTING.md).
CARGO_PROFILE_TEST_OPT_LEVEL ?= 3
export CARGO_PROFILE_TEST_OPT_LEVEL
BENCH ?=
# A libember.so that was built earlier, for test-capi to compare with.
OLD ?=
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
# Options of cargo that choose features: see "Smaller" in docs/install.md.
FEATURES ?=
# What there is to fuzz, and which of it `make fuzz` takes.
FUZZ_TARGETS := $(patsubst fuzz/fuzz_targets/%.rs,%,$(wildcard fuzz/fuzz_targets/*.rs))
TARGET ?=
TARGETS ?=
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
SOVERSION := $(firstword $(subst ., ,$(VERSION)))
# What the system calls the shared library, with its version, and by the name that programs look for; and the folder of a program.
SYSTEM ?= $(shell uname -s)
ifeq ($(SYSTEM),Darwin)
SHARED := libember.dylib
SHARED_FILE := libember.$(VERSION).dylib
SHARED_NAME := libember.$(SOVERSION).dylib
ORIGIN := @loader_path
else
SHARED := libember.so
SHARED_FILE := libember.so.$(VERSION)
SHARED_NAME := libember.so.$(SOVERSION)
ORIGIN := $$ORIGIN
endif
# Where `make install` puts things, and what it puts before all paths.
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DESTDIR ?=

C_FLAGS := -std=c99 -Wall -Wextra -Werror -pedantic -Iinclude $(CFLAGS)
# What a static library made by Rust needs of the system.
STATIC_LIBS := -lpthread -ldl -lm
PROGRAMS := generate chat logits tokenize embed bench hello
RUST_SOURCES := Cargo.toml Cargo.lock build.rs cbindgen.toml $(shell find src -name '*.rs')

.PHONY: help lib install install-cli install-strip dist cli test-cli examples run models test built test-programs tools test-rust test-capi docs abi-golden test-packages test-cinstall test-minimal test-i686 test-wasm test-android test-ios test-go test-server test-pages test-kotlin test-cpp test-python test-ray test-swift test-valgrind test-dotnet test-fields wheel test-isa test-x86-64 test-aarch64 android ios release packages test-chats test-windows sizes loom tsan miri check bench bench-cancel bench-drafts bench-engine bench-perplexity bench-sampling bench-masks bench-kernels soak release-check fuzz faults cancel-soon rounds alloc-failure clean

help: ## what there is
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' Makefile

lib: build/lib/$(SHARED) build/lib/libember.a ## the library, shared and static, into build/lib

# Changes when FEATURES does.
build/lib/features: FORCE
	@mkdir -p build/lib
	@echo '$(FEATURES)' | cmp -s - $@ || echo '$(FEATURES)' >$@

FORCE:

build/lib/libember.a: $(RUST_SOURCES) build/lib/features
	$(CARGO) build --release --lib --features capi $(FEATURES)
	cp $(TARGET_DIR)/release/libember.a build/lib/libember.a

build/lib/$(SHARED): build/lib/libember.a
	cp $(TARGET_DIR)/release/$(SHARED) build/lib/$(SHARED_FILE)
	ln -sf $(SHARED_FILE) build/lib/$(SHARED_NAME)
	ln -sf $(SHARED_NAME) build/lib/$(SHARED)

cli: build/bin/ember ## the command-line program, into build/bin

# The program is a package of its own (cli/Cargo.toml), which links the shared library.
CLI_SOURCES := $(shell find cli -name '*.rs' -o -name 'Cargo.*') examples/quantize.rs examples/mixture/mod.rs

build/bin/ember: $(CLI_SOURCES) include/ember.h build/lib/$(SHARED)
	@mkdir -p build/bin
	$(CARGO) build --release --locked --manifest-path cli/Cargo.toml --target-dir $(TARGET_DIR)/cli
	cp $(TARGET_DIR)/cli/release/ember $@

test-cli: cli ## the tests of the command-line program, with a hub on this machine
	LD_LIBRARY_PATH=$(CURDIR)/build/lib DYLD_LIBRARY_PATH=$(CURDIR)/build/lib $(CARGO) test --locked --manifest-path cli/Cargo.toml --target-dir $(TARGET_DIR)/cli
	EMBER=$(CURDIR)/build/bin/ember SMOLLM2="$$(scripts/fetch-model.sh smollm2)" MINILM="$$(scripts/fetch-model.sh minilm)" \
		$(PYTHON) -m unittest discover -s cli/tests

examples: $(PROGRAMS:%=build/bin/%) $(PROGRAMS:%=build/bin/%-static) ## the C programs, linked both ways, into build/bin

build/bin/%-static: examples/c/%.c examples/c/common.h include/ember.h build/lib/libember.a
	@mkdir -p build/bin
	$(CC) $(C_FLAGS) $< -o $@ build/lib/libember.a $(STATIC_LIBS)

build/bin/%: examples/c/%.c examples/c/common.h include/ember.h build/lib/$(SHARED)
	@mkdir -p build/bin
	$(CC) $(C_FLAGS) $< -o $@ -Lbuild/lib -lember '-Wl,-rpath,$(ORIGIN)/../lib'

build/bin/cancel build/bin/engine build/bin/perplexity build/bin/drafts build/bin/sampling: build/bin/%: bench/%.c examples/c/common.h include/ember.h build/lib/$(SHARED)
	@mkdir -p build/bin
	$(CC) $(C_FLAGS) -Iexamples/c $< -o $@ -Lbuild/lib -lember '-Wl,-rpath,$(ORIGIN)/../lib' -lpthread -lm

run: build/bin/generate ## a completion; MODEL=file.gguf, smollm2, stories15m or gemma3, PROMPT="…", N=tokens, ARGS=more
	@model='$(subst ','\'',$(value MODEL))'; \
	case $$model in smollm2 | stories15m | gemma3) model=$$(scripts/fetch-model.sh "$$model") || exit 1 ;; esac; \
	build/bin/generate -m "$$model" -p '$(subst ','\'',$(value PROMPT))' -n $(N) $(ARGS)

models: ## the models that the tests need, into ~/.cache/ember/models
	@scripts/fetch-model.sh smollm2
	@scripts/fetch-model.sh stories15m
	@scripts/fetch-model.sh gemma3
	@scripts/fetch-model.sh minilm
	@scripts/fetch-model.sh tokenizers
	@scripts/fetch-model.sh t5
	@scripts/fetch-model.sh vocabs
	@scripts/fetch-model.sh templates

install: lib ## header, libraries, pkg-config and CMake files, to DESTDIR and PREFIX
	@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' INCLUDEDIR='$(INCLUDEDIR)' \
		scripts/install.sh $(INSTALL_FLAGS) $(TARGET_DIR)/release

install-cli: cli install ## as install, and the command-line program into PREFIX/bin
	mkdir -p '$(DESTDIR)$(PREFIX)/bin'
	cp build/bin/ember '$(DESTDIR)$(PREFIX)/bin/ember'

install-strip: ## as install, without debug information
	@$(MAKE) install INSTALL_FLAGS=--strip

dist: lib ## an archive of the same with licences and a bill of materials, into build/dist
	@scripts/dist.sh $(TARGET_DIR)/release $(FEATURES)

android: ## libraries for Android into build/android: static ones, and shared ones with the NDK in ANDROID_NDK_HOME
	FEATURES='$(FEATURES)' scripts/android.sh

test-android: android ## that, and a library of an app's linked with it (needs CMake and clang)
	tests/packaging/android.sh build/android

ios: ## an XCFramework for devices and simulators into build/ios, on any system
	FEATURES='$(FEATURES)' scripts/ios.sh

test-ios: ios ## that, and its layout, processors and module (needs clang and llvm-objdump, named by CLANG and OBJDUMP)
	$(PYTHON) tests/packaging/ios.py build/ios/Ember.xcframework

release: ## the library for another system into build/release/TARGET (scripts/release.sh lists the targets)
	FEATURES='$(FEATURES)' scripts/release.sh '$(TARGET)'

packages: build/tools.path ## packs what make release built for C, Go, Java, Kotlin, .NET, Node and Python, into build/packages; TARGETS="names" builds these first
	@for target in $(TARGETS); do scripts/release.sh "$$target" || exit 1; done
	"$$(cat build/tools.path)/bin/python3" scripts/packages $(TARGETS)

# The folder of the Python that makes packages, and links for other systems.
build/tools.path: packaging/build-requirements.txt
	@mkdir -p build
	@tools=$${EMBER_BUILD_TOOLS:-$(CURDIR)/build/tools}; [ -n "$$EMBER_BUILD_TOOLS" ] || { \
		$(PYTHON) -m venv "$$tools" && "$$tools/bin/pip" install -q -r packaging/build-requirements.txt; } && echo "$$tools" >$@

test-chats: lib cli build/tools.path ## packs what make lib built, installs it in empty folders without Rust, and has a chat in each language
	scripts/release.sh "$$(uname -m)-linux-gnu" $(TARGET_DIR)/release build/chats build/bin/ember
	EMBER_BUILT=build/chats "$$(cat build/tools.path)/bin/python3" scripts/packages --out build/chats/packages
	EMBER_BUILD_TOOLS="$$(cat build/tools.path)" tests/packaging/unwind.sh
	tests/packages/run.sh build/chats/packages

test-windows: ## the library for Windows on x86-64 under Wine (needs mingw-w64, wine64, and make release TARGET=x86_64-windows-gnu)
	scripts/test-windows.sh

sizes: ## how many bytes of the shared library each feature takes
	scripts/sizes.sh

test: tools test-rust test-capi test-packages ## the whole suite

built: ## the library and all tests, compiled side by side: each takes one core most of the time
	$(MAKE) -j2 lib test-programs

test-programs:
	$(CARGO) test --no-run

tools: ## says in a second what the tests need and this machine lacks (scripts/setup.sh install installs it)
	@scripts/setup.sh check

test-rust: models
	$(CARGO) test

test-capi: lib examples build/bin/cancel build/bin/engine build/bin/perplexity build/bin/drafts build/bin/sampling build/bin/soak models
	tests/capi/header.sh
	tests/capi/coverage.sh
	tests/capi/symbols-selftest.sh
	tests/capi/symbols.sh build/lib
	tests/capi/golden.sh build/lib
	tests/capi/abi.sh build/lib examples/models/ember-tales.gguf $(OLD)
	tests/capi/examples.sh build/bin examples/models/ember-tales.gguf "$$(scripts/fetch-model.sh smollm2)"
	tests/capi/guide.sh build/lib "$$(scripts/fetch-model.sh smollm2)"
	tests/capi/ffi.sh build/lib examples/models/ember-tales.gguf
	tests/capi/readme.sh build/lib build/bin "$$(scripts/fetch-model.sh smollm2)" "$$(scripts/fetch-model.sh minilm)"
	$(MAKE) run N=8
	$(MAKE) run MODEL=smollm2 PROMPT="The capital of France is" N=1 | grep -x "The capital of France is Paris"
	build/bin/cancel -m examples/models/ember-tales.gguf -n 3 | grep -E "^decode 64 +[0-9.]+ \|"
	build/bin/engine -m examples/models/ember-tales.gguf -n 4 -p 64 -r 1 | grep -E "^ +8 parallel +[0-9.]+ tokens/s"
	build/bin/perplexity -m examples/models/ember-tales.gguf -f README.md -c 64 -n 1 | grep -cE "of f32's" | grep -x 6
	build/bin/sampling -m examples/models/ember-tales.gguf -r 1 | grep -cE " [0-9.]+ us$$" | grep -x 6
	build/bin/soak examples/models/ember-tales.gguf 1 >build/soak.log || { cat build/soak.log; exit 1; }
	@tail -n 1 build/soak.log
	tests/capi/run.sh build/lib examples/models/ember-tales.gguf plain
	tests/capi/run.sh build/lib examples/models/ember-tales.gguf asan

test-valgrind: lib ## the C tests under valgrind, which sees the memory of the library too; takes a quarter of an hour
	tests/capi/run.sh build/lib examples/models/ember-tales.gguf valgrind

# mdbook makes the book: one of this version that is installed, else `make docs` compiles it into build/tools, which takes minutes.
# With MDBOOK=none only the reference is made, and the pages of the book and their links are checked. .ci/run does that where there is no
# mdbook, since compiling it takes minutes.
MDBOOK_VERSION := 0.5.4
MDBOOK ?= $(shell { command -v mdbook || echo build/tools/bin/mdbook; } 2>/dev/null)

docs: ## guides as a book and the reference of include/ember.h, into build/docs; what is undocumented fails (needs doxygen)
	@command -v doxygen >/dev/null || { echo "there is no doxygen, which makes the reference" >&2; exit 1; }
	$(PYTHON) scripts/book.py stage
	@rm -rf build/docs && mkdir -p build/docs
ifneq ($(MDBOOK),none)
	@"$(MDBOOK)" --version 2>/dev/null | grep -q ' v0\.5\.' || { \
		$(CARGO) install mdbook --version $(MDBOOK_VERSION) --locked --root build/tools --target-dir build/tools/target && \
		rm -rf build/tools/target; }
	@book='$(MDBOOK)'; "$$book" --version 2>/dev/null | grep -q ' v0\.5\.' || book=build/tools/bin/mdbook; "$$book" build
endif
	EMBER_VERSION=$(VERSION) doxygen docs/Doxyfile
ifneq ($(MDBOOK),none)
	$(PYTHON) scripts/book.py check
	@echo "the documentation is in build/docs/index.html"
endif

abi-golden: lib ## writes functions and types that were added into tests/golden, which test-capi compares with
	tests/capi/golden.sh build/lib --update

test-go: lib ## the Go package, its examples and the golden file of all bindings (needs Go 1.24, pkg-config and a C compiler)
	tests/golden/bindings.sh build/lib --check
	bindings/go/test.sh build/lib

test-server: lib ## the example server in Go with the official OpenAI clients for Python and Node (needs Go, python3 and npm)
	@scripts/fetch-model.sh smollm2
	@scripts/fetch-model.sh minilm
	bindings/go/examples/server/clients/test.sh build/lib build/server

test-cpp: lib ## the C++ header: its tests, examples and guide, with every C++ compiler there is, plain and with sanitizers
	@scripts/fetch-model.sh smollm2
	bindings/cpp/tests/run.sh build/lib "$$(scripts/fetch-model.sh smollm2)" plain
	bindings/cpp/tests/run.sh build/lib "$$(scripts/fetch-model.sh smollm2)" asan

test-fields: ## whether the documented fields are all that the configuration classes of transformers have
	$(PYTHON) -m venv build/fields
	build/fields/bin/pip install -q "$$(grep '^transformers==' tests/oracle/requirements.txt)"
	build/fields/bin/python tests/oracle/hf_fields.py --check
	build/fields/bin/python tests/oracle/tokenizer_fields.py --check

wheel: lib ## the Python package with the library in it, into build/wheel
	bindings/python/wheel.sh build/lib build/wheel

test-python: lib ## the Python package: built, installed into a fresh environment and tested there
	@scripts/fetch-model.sh smollm2
	bindings/python/tests/run.sh build/lib build

test-ray: lib ## the Python example for Ray: an actor is killed, a run interrupted; takes five minutes and 600 MB, and is not in CI
	@scripts/fetch-model.sh smollm2
	bindings/python/tests/ray.sh build/lib build examples/models/ember-tales.gguf "$$(scripts/fetch-model.sh smollm2)"

test-swift: lib ## the Swift package, its examples and guide, with Swift 6, which root gets in a Debian system of its own if need be
	@scripts/fetch-model.sh smollm2
	bindings/swift/test.sh build/lib "$$(scripts/fetch-model.sh smollm2)"

test-dotnet: lib ## the package for .NET, its README and declarations, under Mono (needs mono-mcs); DOTNET=/path/dotnet: under .NET Core too
	@scripts/fetch-model.sh smollm2
	bindings/dotnet/test.sh build/lib

test-pages: lib ## the packages of Java and Node, and their one-page examples (needs Java 22, named by JAVA, and npm)
	bindings/pages.sh build/lib

test-kotlin: lib ## the packages of Kotlin and Android, on this machine's Java (needs Java 22, named by JAVA, Maven and a C compiler)
	@scripts/fetch-model.sh smollm2
	bindings/kotlin/test.sh build/lib

test-packages: lib ## installs and packs, and builds programs with what comes out
	tests/packaging/install.sh $(TARGET_DIR)/release
	tests/packaging/dist.sh $(TARGET_DIR)/release

test-cinstall: lib ## what `cargo cinstall` installs, against what `make install` does (needs cargo-c)
	tests/packaging/cinstall.sh $(TARGET_DIR)/release

test-minimal: ## the smallest build: runs a model, and names the feature that something needs
	$(CARGO) test --no-default-features --test minimal

test-i686: ## the tests on 32-bit x86 (needs a C compiler for it)
	scripts/test-i686.sh

test-wasm: ## the tests on WebAssembly, under Node.js
	scripts/test-wasm.sh

test-isa: ## the tests of whole models, once for each instruction set that this machine has
	scripts/test-isa.sh

loom: ## the thread pool's gate and tasks under a model checker: every order of their steps
	$(CARGO) test --manifest-path tests/threads/Cargo.toml --features loom every_order

tsan: ## the thread pool's tests under the thread sanitizer (needs Rust's sources: rustup component add rust-src)
	scripts/tsan.sh

miri: ## the tests that Miri can run, which notices undefined behaviour (needs nightly Rust with miri and rust-src)
	scripts/miri.sh

test-x86-64: ## kernels and models on an x86-64 processor with every level, AMX too, emulated by Bochs (see the script)
	scripts/test-x86-64.sh

test-aarch64: ## kernels and models on three 64-bit Arm processors, emulated by qemu
	scripts/test-aarch64.sh

release-check: ## whether versions, header, changelog and packages agree
	$(PYTHON) scripts/release-check.py
	$(PYTHON) tests/packaging/release_check.py

check: release-check ## formatting, lints, versions, the committed header, shell scripts, prose
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets -- -D warnings
	$(CARGO) clippy --no-default-features --lib --test minimal -- -D warnings
	$(CARGO) fmt --manifest-path cli/Cargo.toml --check
	$(CARGO) clippy --locked --manifest-path cli/Cargo.toml --target-dir $(TARGET_DIR)/cli --all-targets -- -D warnings
	git diff --exit-code -- include/ember.h
	$(PYTHON) bindings/dotnet/generate_native.py --check
	$(PYTHON) scripts/prose.py
	$(PYTHON) scripts/book.py stage
	shellcheck -x scripts/*.sh tests/capi/*.sh tests/golden/*.sh tests/packaging/*.sh tests/packages/*.sh bindings/cpp/tests/*.sh bindings/python/*.sh bindings/python/tests/*.sh bindings/go/*.sh bindings/go/examples/*.sh bindings/go/examples/server/clients/*.sh bindings/swift/*.sh bindings/dotnet/*.sh bindings/kotlin/*.sh bindings/*.sh .ci/run

bench: build/bin/bench ## measures Ember next to llama.cpp; BENCH="options" PYTHON=python (bench/README.md)
	$(PYTHON) bench/run.py $(BENCH)

bench-cancel: build/bin/cancel ## measures how long calls go on after they were cancelled
	build/bin/cancel -m "$$(scripts/fetch-model.sh smollm2)" $(BENCH)

bench-engine: build/bin/engine ## measures what running requests together is worth
	build/bin/engine -m "$$(scripts/fetch-model.sh smollm2)" $(BENCH)

bench-perplexity: build/bin/perplexity ## the perplexity of this project's documents for each type of the KV cache
	build/bin/perplexity -m "$$(scripts/fetch-model.sh smollm2)" -f ARCHITECTURE.md $(BENCH)

bench-drafts: build/bin/drafts ## measures what draft tokens are worth; BENCH="--draft smaller.gguf"
	build/bin/drafts -m "$$(scripts/fetch-model.sh smollm2)" $(BENCH)

bench-sampling: build/bin/sampling ## measures what choosing a token takes
	build/bin/sampling -m "$$(scripts/fetch-model.sh smollm2)" $(BENCH)

bench-masks: ## measures what the masks of JSON schemas take on a vocabulary of 152,000 tokens
	$(CARGO) run --release --example masks -- "$$(scripts/fetch-model.sh vocabs)/ggml-vocab-qwen2.gguf" tests/fixtures/schemas.json $(BENCH)

bench-kernels: ## measures kernels next to the machine's peaks
	$(CARGO) run --release --example kernels -- $(BENCH)

soak: build/bin/soak ## everything at once for MINUTES minutes: contexts, engines, cancelling, states; nothing may differ or grow
	build/bin/soak examples/models/ember-tales.gguf $(or $(MINUTES),5)

build/bin/soak: tests/soak.c include/ember.h build/lib/$(SHARED)
	@mkdir -p build/bin
	$(CC) $(C_FLAGS) -std=c11 $< -o $@ -Lbuild/lib -lember '-Wl,-rpath,$(ORIGIN)/../lib' -lpthread

fuzz: ## fuzzes TARGET (all of fuzz/fuzz_targets, one after the other, if none is named) for MINUTES minutes each (needs cargo-fuzz and nightly Rust)
	@for target in $(or $(TARGET),$(FUZZ_TARGETS)); do \
		mkdir -p fuzz/found/$$target; \
		$(CARGO) +nightly fuzz run --debug-assertions $$target fuzz/found/$$target fuzz/corpus/$$target -- -max_len=4096 \
			-rss_limit_mb=2048 -timeout=20 -max_total_time=$$(( $(or $(MINUTES),5) * 60 )) || exit 1; \
	done

faults: build/lib/$(SHARED) ## each malloc, mmap, pread and pthread_create of a process fails, and its address space ends, one after the other
	@mkdir -p build/bin
	$(CC) -std=c99 -O1 -Iinclude tests/capi/test_faults.c -o build/bin/faults -Lbuild/lib -lember '-Wl,-rpath,$(ORIGIN)/../lib' -lpthread -ldl
	build/bin/faults examples/models/ember-tales.gguf 1

cancel-soon: build/lib/$(SHARED) ## how long each function goes on after it was cancelled, on the worst input for it; MS=the most milliseconds that may be
	@mkdir -p build/bin
	$(CC) -std=c99 -O1 -Iinclude tests/capi/test_cancel_soon.c -o build/bin/cancel-soon -Lbuild/lib -lember '-Wl,-rpath,$(ORIGIN)/../lib' -lpthread
	build/bin/cancel-soon examples/models/ember-tales.gguf $(or $(MS),100)

rounds: build/lib/$(SHARED) ## the memory of a process after rounds of a thousand contexts
	@mkdir -p build/bin
	$(CC) -std=c99 -O1 -Iinclude tests/capi/test_rounds.c -o build/bin/rounds -Lbuild/lib -lember '-Wl,-rpath,$(ORIGIN)/../lib'
	build/bin/rounds examples/models/ember-tales.gguf 1000 5

alloc-failure: ## every allocation fails in its turn, of loading the bundled model too, which takes some minutes
	$(CARGO) test --test alloc_failure -- --ignored --show-output

clean: ## removes everything that was built
	$(CARGO) clean
	rm -rf build
