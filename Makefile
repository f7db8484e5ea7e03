# The commands of this repository. CMake builds; this file only calls scripts/ in the right order.
#
#   make            install missing packages (Debian, root or sudo) and build: build/plimsoll
#   make test       also run every test that is not labelled long
#   make demo       also train a classifier on the definitions of WordNet
#   make demo-clm   also train a tokenizer and a small GPT-2 on the King James Bible
#   make test-gpu   run the tests that need an NVIDIA GPU on the first GPU
#   make test-long  run long tests, sanitizers and fuzzers (about three hours on two cores)
#   make bench      build the benchmarks: build-bench/
#   make install    install to PREFIX (default /usr/local): program, library, headers, CMake package
#   make wheel      build the wheel plimsoll-train for pip, with every released CUDA architecture: dist/
#   make deb        build the Debian packages of this build, for this release of Debian: dist/
#   make tarball    build an archive that runs from any folder: dist/
#   make clean      remove build folders; trained models (runs/) and downloads (data/) are kept
#
# JOBS=N sets how many compilers and tests run at once (default: one per core).

PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
export JOBS

.DEFAULT_GOAL := all
.PHONY: all setup product test test-gpu test-long demo demo-clm bench install wheel deb tarball clean help

all: product
	@echo "built: build/plimsoll   next: make demo, make test, or build/plimsoll --help"

setup:
	@scripts/setup.sh build

product: setup
	@scripts/build.sh release plimsoll_product

test: setup
	@scripts/setup.sh python
	@scripts/build.sh release
	@ctest --test-dir build -LE '^(long|gpus?)$$' --no-tests=error --output-on-failure -j $(JOBS)

test-gpu: setup
	@scripts/test_gpu.sh

test-long: setup
	@scripts/test_long.sh

demo: product
	@scripts/demo.sh

demo-clm: product
	@scripts/demo_clm.sh

bench:
	@scripts/setup.sh build bench
	@scripts/build.sh bench
	@echo "built:"; find build-bench -type f -name '*_bench' | sort | sed 's/^/  /'

install: product
	@cmake --install build --prefix $(PREFIX)

wheel:
	@scripts/setup.sh build wheel
	@scripts/build_wheel.sh

deb: product
	@scripts/setup.sh packages
	@scripts/build_deb.sh

tarball: product
	@scripts/setup.sh packages
	@scripts/build_tarball.sh

clean:
	rm -rf build build-asan build-tsan build-fuzz build-bench build-quick build-tidy build-wheel build-tarball dist

help:
	@sed -n 's/^#   //p' Makefile
