#!/bin/bash
# Runs clang-tidy (settings in .clang-tidy) on the sources that changed since BASE; exits with 1 on a finding.
#
#   scripts/check_tidy.sh [BASE]     (default: the merge base with origin/main, or the commit before the last)
#
# It checks all of them unless that takes longer than TIDY_SECONDS (600), and then names those that it skipped. It configures
# build-tidy/ for the compile commands of single sources, and builds nothing.
set -euo pipefail
scripts/setup.sh tidy
seconds=${TIDY_SECONDS:-600}

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
log=$(mktemp)
if ! cmake --preset release -B build-tidy -DPLIMSOLL_UNITY=OFF >"$log" 2>&1; then
  tail -n 40 "$log" >&2
  rm -f "$log"
  echo "tidy: CMake could not configure build-tidy; the lines above say why" >&2
  exit 2
fi
rm -f "$log"

# Only sources that this build compiles are checked, and changed headers through the sources that include them. Fuzzers
# and benchmarks belong to builds of other presets.
mapfile -t changed < <(git diff --name-only --diff-filter=d "$base" -- '*.cc' | while read -r file; do
  if grep -qF "$PWD/$file\"" build-tidy/compile_commands.json; then echo "$file"; fi
done)
if [ ${#changed[@]} -eq 0 ]; then
  echo "tidy: no source that the build knows changed since ${base:0:12}"
  exit 0
fi

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
# A file is skipped if its check would start after the deadline. A check that has started may take another minute.
export results deadline=$(($(date +%s) + seconds))
read_one() {
  local file=$1 status=0 left=$((deadline - $(date +%s)))
  if [ "$left" -le 0 ]; then
    echo "$file" >>"$results/left_out"
    return 0
  fi
  timeout "$((left + 60))" clang-tidy -p build-tidy --quiet --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-ignored-gch "$file" >"$results/log.$$" 2>/dev/null || status=$?
  # clang-tidy 14 reports errors in code that it cannot parse, such as structured bindings captured by lambdas. They are
  # ignored, because the compiler has accepted the code.
  if grep -E '(warning|error): ' "$results/log.$$" | grep -v '\[clang-diagnostic-error\]' >"$results/found.$$"; then
    cat "$results/found.$$" >>"$results/findings"
  elif grep -qF '[clang-diagnostic-error]' "$results/log.$$"; then
    echo "$file" >>"$results/not_compiled"
    return 0
  elif [ "$status" -eq 124 ]; then
    echo "$file" >>"$results/left_out"
    return 0
  elif [ "$status" -ne 0 ]; then
    { echo "$file: exit code $status"; tail -n 5 "$results/log.$$"; } >>"$results/failures"
  fi
  echo "$file" >>"$results/read"
}
export -f read_one
printf '%s\n' "${changed[@]}" | xargs -P "${JOBS:-$(nproc)}" -I FILE bash -c 'read_one FILE'

num_read=0
if [ -f "$results/read" ]; then num_read=$(wc -l <"$results/read"); fi
if [ -f "$results/left_out" ]; then
  echo "tidy: $seconds s were spent (TIDY_SECONDS); not read, $(wc -l <"$results/left_out") of ${#changed[@]} files:"
  sort "$results/left_out" | sed 's/^/    /'
fi
if [ -f "$results/not_compiled" ]; then
  echo "tidy: clang cannot compile, so nothing is said of:"
  sort "$results/not_compiled" | sed 's/^/    /'
fi
if [ -f "$results/findings" ]; then
  sed "s#$PWD/##" "$results/findings" | sort -u
  exit 1
fi
if [ -f "$results/failures" ]; then
  cat "$results/failures" >&2
  echo "tidy: clang-tidy failed" >&2
  exit 1
fi
echo "tidy: $num_read of ${#changed[@]} files changed since ${base:0:12} read, no finding"
