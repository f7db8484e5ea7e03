#!/bin/bash
# Runs the lines of docs/AFTER_TRAINING.md on small models that this program trains, and compares what they print with Plimsoll's own results.
#
#   scripts/check_after_training.sh [PROGRAM]      (default: build/plimsoll)
#
# Installs transformers and sentence-transformers, and optimum's ONNX exporter with the version of transformers that it needs, into two virtual
# environments below data/after-training (some 6 GB, because they contain PyTorch), unless AFTER_TRAINING_BIN lists bin folders with them. Lines
# whose program is not installed (vllm, llama-completion) are reported as not run. Exit code 77: the packages cannot be installed.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:-build/plimsoll}")
if [ ! -x "$program" ]; then echo "check_after_training: $program is missing; build it first: make" >&2; exit 2; fi
work=$PWD/data/after-training
mkdir -p "$work"

if [ -z "${AFTER_TRAINING_BIN:-}" ]; then
  install() { # NAME PACKAGE...
    local name=$1
    shift
    [ -x "$work/$name/bin/python3" ] || python3 -m venv "$work/$name" || return 1
    "$work/$name/bin/pip" install -q "$@"
  }
  install torch-5 transformers sentence-transformers torch >"$work/pip.log" 2>&1 &&
    install torch-onnx optimum-onnx onnx onnxruntime torch >>"$work/pip.log" 2>&1 ||
    { echo "check_after_training: skipped, because the packages cannot be installed: $(tail -n 1 "$work/pip.log")" >&2; exit 77; }
  AFTER_TRAINING_BIN=$work/torch-5/bin:$work/torch-onnx/bin
fi
for folder in ${AFTER_TRAINING_BIN//:/ }; do
  "$folder/python3" - <<'PYTHON'
from importlib import metadata
names = ["torch", "transformers", "sentence-transformers", "optimum", "optimum-onnx", "onnx", "onnxruntime"]
found = []
for name in names:
    try:
        found.append(f"{name} {metadata.version(name)}")
    except metadata.PackageNotFoundError:
        pass
print(", ".join(found))
PYTHON
done
rm -rf "$work/models"
python3 tests/interop/after_training.py "$program" "$PWD/docs/AFTER_TRAINING.md" "$work/models" "$AFTER_TRAINING_BIN"
