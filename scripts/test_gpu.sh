#!/bin/bash
# Every test with the label gpu, on the GPU at hand: kernels against their references, parity with transformers, the plan
# against NVML. Prints the card, the driver, the date and the commit first, then a line for each test with its time, and in the
# end what the tests measured, a line each that begins with "figure: ": the worst error of each family of kernels as a share of
# its bound, parity in units of the reference's own error, planned and held memory. bench/results/ keeps the last output.
#
#   scripts/test_gpu.sh [CTEST ARGUMENT...]
#
# Tests of memory want a card on which nobody else works meanwhile. Exit code 1 if a test fails, 2 where there is no GPU or no nvcc.
set -uo pipefail
if ! command -v nvidia-smi >/dev/null || ! card=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader); then
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
ctest --test-dir build -L '^gpu$' --output-on-failure --no-tests=error "$@" || failed=1
# The log has what every test said, those that passed too.
grep -s '^figure: ' "$log"
exit $failed
