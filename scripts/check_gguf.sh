#!/bin/bash
# Compares exported GGUF files in llama.cpp with the models in Plimsoll: tokens, losses and greedy continuations of a tiny model of each
# architecture and of each kind of tokenizer that `plimsoll export` supports. Prints a table; docs/AFTER_TRAINING.md has the last one.
#
#   scripts/check_gguf.sh [--install] [PROGRAM]      (default: build/plimsoll)
#
#   --install    if llama.cpp is missing, install Debian testing with the package llama.cpp-tools-extra into LLAMA_ROOT (as root, some 400 MB)
#
# Exit code 77: llama.cpp is missing.
#
# These variables of the environment can be set:
#   LLAMA_ROOT     the file system in which llama.cpp is installed: "/", or a folder for a chroot. The default is "/" if llama-perplexity is in PATH,
#                  otherwise data/llama-root
#   DEBIAN_MIRROR  where Debian testing is downloaded from; the default is that of this machine's apt
set -euo pipefail
cd "$(dirname "$0")/.."
install=no
if [ "${1:-}" = --install ]; then
  install=yes
  shift
fi
program=$(realpath "${1:-build/plimsoll}")
if [ ! -x "$program" ]; then echo "check_gguf: $program is missing; build it first: make" >&2; exit 2; fi

root=${LLAMA_ROOT:-}
if [ -z "$root" ]; then root=$(command -v llama-perplexity >/dev/null && echo / || echo data/llama-root); fi
inside() { if [ "$root" = / ]; then "$@"; else chroot "$root" "$@"; fi; }

install_llama() {
  [ "$(id -u)" = 0 ] || { echo "check_gguf: --install makes a chroot, and needs root" >&2; exit 2; }
  command -v debootstrap >/dev/null || { echo "check_gguf: debootstrap is missing: apt-get install debootstrap" >&2; exit 2; }
  local mirror=${DEBIAN_MIRROR:-}
  [ -n "$mirror" ] || mirror=$(grep -rhoE 'https?://[^ ]+/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null | head -n 1 | tr -d ' ' || true)
  [ -n "$mirror" ] || mirror=$(sed -n 's/^URIs: *\([^ ]*\).*/\1/p' /etc/apt/sources.list.d/*.sources 2>/dev/null | head -n 1)
  mkdir -p "$root"
  debootstrap --variant=minbase --include=ca-certificates forky "$root" "$mirror" /usr/share/debootstrap/scripts/sid >"$root.log" 2>&1 ||
    { echo "check_gguf: debootstrap failed; see $root.log" >&2; exit 2; }
  cp -r /etc/apt/apt.conf.d "$root/etc/apt/"
  cp /etc/resolv.conf /etc/hosts "$root/etc/"
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  inside env DEBIAN_FRONTEND=noninteractive sh -c 'apt-get update && apt-get install -y --no-install-recommends llama.cpp llama.cpp-tools-extra' \
    >>"$root.log" 2>&1 || { echo "check_gguf: llama.cpp could not be installed; see $root.log" >&2; exit 2; }
}
if ! inside llama-perplexity --version >/dev/null 2>&1; then
  if [ $install = no ]; then
    echo "check_gguf: llama-perplexity is missing; install it (Debian testing: llama.cpp-tools-extra), or run this as root with --install" >&2
    exit 77
  fi
  install_llama
fi
root=$(realpath "$root")

models=$(mktemp -d "$root/tmp/plimsoll-gguf.XXXXXX")
trap 'rm -rf "$models"' EXIT
# Both programs compute on the CPU: Plimsoll with --use_cpu, and llama.cpp because no GPU is visible to its CUDA and Vulkan backends.
export CUDA_VISIBLE_DEVICES= GGML_VK_VISIBLE_DEVICES=
echo "device: CPU"
corpus=$models/learned.txt
cat docs/GUIDE.md docs/MEMORY.md docs/TOKENIZERS.md >"$corpus"
names=$(python3 tests/interop/gguf_models.py "$program" "$corpus" "$models")
echo "llama.cpp: $(inside llama-perplexity --version 2>&1 | sed -n 's/^version: //p')"
# shellcheck disable=SC2086
python3 tests/interop/gguf_judge.py "$program" "$models" "$corpus" "$root" $names
