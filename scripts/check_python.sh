#!/bin/bash
# Runs the tests of the Python package and of downloads next to the packages of others with which they compare: transformers, datasets,
# pandas, polars, pyarrow, tensorboard and huggingface_hub. Without these packages, `make test` leaves such tests out.
#
#   scripts/check_python.sh [PROGRAM]      (default: build/plimsoll)
#
# Installs the packages into a virtual environment in data/python-tests (some 6 GB, because it contains PyTorch), unless
# PLIMSOLL_TEST_PYTHON names a Python that has them. A test that is skipped counts as failed, except those that need a GPU. Exit code
# 77: the packages cannot be installed.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:-build/plimsoll}")
if [ ! -x "$program" ]; then echo "check_python: $program is missing; build it first: make" >&2; exit 2; fi
python=${PLIMSOLL_TEST_PYTHON:-}
if [ -z "$python" ]; then
  work=$PWD/data/python-tests
  mkdir -p "$work"
  python=$work/bin/python3
  { { [ -x "$python" ] || python3 -m venv "$work"; } &&
    "$work/bin/pip" install -q pytest mypy numpy pandas polars pyarrow datasets transformers accelerate torch tensorboard huggingface_hub; } \
    >"$work/pip.log" 2>&1 ||
    { echo "check_python: skipped, because the packages cannot be installed: $(tail -n 1 "$work/pip.log")" >&2; exit 77; }
fi
export PLIMSOLL_PROGRAM=$program PYTHONDONTWRITEBYTECODE=1
output=$(mktemp)
trap 'rm -f "$output"' EXIT
(cd tests/python && "$python" -m pytest -q -rs -p no:cacheprovider .) | tee "$output"
if grep '^SKIPPED' "$output" | grep -v 'finds no GPU'; then echo "check_python: a test was skipped" >&2; exit 1; fi
PLIMSOLL_HUB_PYTHON=$python "$python" tests/downloads/downloads_test.py "$program" 2>&1 | tee "$output"
if grep -q 'skipped=' "$output"; then echo "check_python: a test of downloads was skipped" >&2; exit 1; fi
if "$python" -c "import mypy" 2>/dev/null; then (cd python && "$python" -m mypy --strict --cache-dir=/dev/null plimsoll_train); fi
