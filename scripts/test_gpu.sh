#!/bin/bash
# Every test with the label gpu, on the GPU at hand: kernels against their references, parity with transformers, the plan
# against NVML. Prints the card, the driver and the date first: docs/measurements/ keeps the last output.
#
#   scripts/test_gpu.sh [CTEST ARGUMENT...]
#
# Exit code 1 if a test fails, 2 where there is no GPU or no nvcc.
set -uo pipefail
if ! command -v nvidia-smi >/dev/null || ! card=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader); then
  echo "test-gpu: no NVIDIA GPU is visible here" >&2
  exit 2
fi
echo "$card"
date -u +%Y-%m-%d
scripts/build.sh release || exit 2
if ! grep -q '^PLIMSOLL_CUDA_BUILT:INTERNAL=ON' build/CMakeCache.txt; then
  echo "test-gpu: CUDA was not built: nvcc 12.8 or later is needed" >&2
  exit 2
fi
ctest --test-dir build -L '^gpu$' --output-on-failure --no-tests=error "$@" || exit 1
