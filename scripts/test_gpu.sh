#!/bin/bash
# Runs every test with the label gpu, and with two or more GPUs also those with the label gpus, on this machine's GPUs: they compare
# kernels with their references, results with those of transformers, and the plan with the memory that NVML reports. Prints the visible
# cards, the driver, the date and the commit, then a line per test with its time, and finally the measurements of the tests in lines that
# begin with "figure: ": for each family of kernels the largest error divided by the permitted error, the difference from transformers
# divided by the rounding error of transformers itself, and planned and used memory.
# bench/results/ contains the last output.
#
#   scripts/test_gpu.sh [CTEST ARGUMENT...]
#
# Tests of memory need a card that no other process uses meanwhile. Exit code 1 if a test fails, 2 if there is
# no GPU or no nvcc.
set -uo pipefail
# The tests use only the GPUs that CUDA_VISIBLE_DEVICES names, numbered as in nvidia-smi. Only these cards are printed.
export CUDA_DEVICE_ORDER=PCI_BUS_ID
visible=()
if [ -n "${CUDA_VISIBLE_DEVICES+set}" ]; then
  # An empty value hides all GPUs from the tests.
  if [ -z "$CUDA_VISIBLE_DEVICES" ]; then echo "test-gpu: CUDA_VISIBLE_DEVICES is empty, so no GPU is visible" >&2; exit 2; fi
  visible=("--id=$CUDA_VISIBLE_DEVICES")
fi
if ! command -v nvidia-smi >/dev/null || ! card=$(nvidia-smi "${visible[@]}" --query-gpu=name,driver_version,memory.total --format=csv,noheader); then
  echo "test-gpu: no NVIDIA GPU is visible here" >&2
  exit 2
fi
echo "$card"
date -u +%Y-%m-%d
if commit=$(git rev-parse --short HEAD 2>/dev/null); then
  git diff --quiet HEAD 2>/dev/null || commit="$commit, with changes"
  echo "commit $commit"
fi
scripts/build.sh release || exit 2
if ! grep -q '^PLIMSOLL_CUDA_BUILT:INTERNAL=ON' build/CMakeCache.txt; then
  echo "test-gpu: CUDA was not built: nvcc 12.8 or later is needed" >&2
  exit 2
fi
failed=0 log=build/Testing/Temporary/LastTest.log
rm -f "$log"
# Tests with the label gpus need two GPUs.
labels='^gpu$'
[ "$(wc -l <<<"$card")" -lt 2 ] || labels='^gpus?$'
ctest --test-dir build -L "$labels" --output-on-failure --no-tests=error "$@" || failed=1
# The log contains the output of all tests, including those that passed. Its lines with measurements are printed.
grep -s '^figure: ' "$log"
exit $failed
