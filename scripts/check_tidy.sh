#!/bin/bash
# Runs clang-tidy (settings in .clang-tidy) on the sources that changed since BASE; exits with 1 on a finding.
#
#   scripts/check_tidy.sh [BASE]     (default: the merge base with origin/main, or the commit before the last)
#
# TIDY_FILES (15) and TIDY_SECONDS (900) bound it; what is left out is named. Needs a configured build/ for the compile commands.
set -euo pipefail
scripts/setup.sh tidy
max_files=${TIDY_FILES:-15}
seconds=${TIDY_SECONDS:-900}

base=${1:-}
if [ -z "$base" ]; then
  head=$(git rev-parse HEAD)
  base=$(git merge-base HEAD origin/main 2>/dev/null || true)
  if [ -z "$base" ] || [ "$base" = "$head" ]; then base=$(git rev-parse --verify --quiet HEAD~1 || true); fi
fi
if [ -z "$base" ]; then
  echo "tidy: this history has one commit, so nothing has changed"
  exit 0
fi
if [ ! -f build/compile_commands.json ]; then
  echo "tidy: build/compile_commands.json is missing; run make first" >&2
  exit 2
fi

# Sources that the build knows; changed headers are read through them. Fuzzers and benches are built by other presets.
mapfile -t changed < <(git diff --name-only --diff-filter=d "$base" -- '*.cc' | while read -r file; do
  if grep -qF "$PWD/$file\"" build/compile_commands.json; then echo "$file"; fi
done)
if [ ${#changed[@]} -eq 0 ]; then
  echo "tidy: no source that the build knows changed since ${base:0:12}"
  exit 0
fi
if [ ${#changed[@]} -gt "$max_files" ]; then
  echo "tidy: ${#changed[@]} files changed, the first $max_files are read (TIDY_FILES)"
  changed=("${changed[@]:0:$max_files}")
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
printf '%s\n' "${changed[@]}" |
  timeout "$seconds" xargs -P "${JOBS:-$(nproc)}" -n 1 clang-tidy -p build --quiet >"$log" 2>/dev/null || status=$?
if [ "$status" -eq 124 ]; then
  echo "tidy: stopped after $seconds s (TIDY_SECONDS); what was found until then counts"
fi
if grep -qE '(warning|error): ' "$log"; then
  grep -E '(warning|error): ' "$log" | sed "s#$PWD/##" | sort -u
  exit 1
fi
if [ "$status" -ne 0 ] && [ "$status" -ne 124 ]; then
  tail -n 20 "$log" >&2
  echo "tidy: clang-tidy failed with exit code $status" >&2
  exit 1
fi
echo "tidy: ${#changed[@]} files changed since ${base:0:12}, no finding"
