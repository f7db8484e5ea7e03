#!/bin/bash
# Runs all tests that are too long for `make test`. They take about three hours on two cores.
#
#   scripts/test_long.sh [bench|long|surface|asan|tsan|fuzz]...     (default: all of them, in this order)
#
#   bench    every benchmark is compiled, and kernel_rows_bench runs once on this machine's CPU
#   long     tests with the label long, such as those that kill runs repeatedly or train 200 configurations
#   surface  the tests that need other programs: the Python package next to transformers and others (scripts/check_python.sh), and reports in a browser
#   asan     every test but the long ones under AddressSanitizer and UndefinedBehaviorSanitizer
#   tsan     every test but the long ones under ThreadSanitizer, with parallel loops on std::thread, because it reports false errors with OpenMP
#   fuzz     every fuzzer for FUZZ_SECONDS (600) of CPU time; its findings are kept in build-fuzz/findings
#
# All stages run even if one fails; the last lines say which did. If OMP_NUM_THREADS is set, it applies.
set -uo pipefail
jobs=${JOBS:-$(nproc)}
[ $# -gt 0 ] || set -- bench long surface asan tsan fuzz

# `make test` compiles no benchmarks. This stage therefore finds benchmarks that no longer compile after an interface
# has changed.
run_bench() {
  scripts/setup.sh build bench && scripts/build.sh bench && build-bench/bench/kernels/kernel_rows_bench --repetitions 1
}

run_long() {
  # Some tests start ranks with other launchers (such as mpirun). If the Debian packages of the launchers cannot be installed,
  # these tests are skipped and print the reason.
  scripts/setup.sh launchers || true
  scripts/setup.sh build && scripts/build.sh release &&
    ctest --test-dir build -L '^long$' --output-on-failure --no-tests=error -j "$jobs"
}

run_surface() {
  scripts/setup.sh build browser && scripts/build.sh release || return
  local failed=0 code=0
  scripts/check_python.sh || code=$?
  if [ "$code" -ne 0 ] && [ "$code" -ne 77 ]; then failed=1; fi
  ctest --test-dir build -R '^screens_report_test$' --output-on-failure --no-tests=error || failed=1
  return "$failed"
}

run_asan() {
  scripts/setup.sh build && scripts/build.sh dev &&
    ctest --test-dir build-asan -LE '^long$' --output-on-failure --no-tests=error -j "$jobs"
}

run_tsan() {
  # Tests limit the number of threads through OpenMP. This build has no OpenMP, so the variable limits the threads with which oneDNN
  # multiplies matrices.
  scripts/setup.sh build && scripts/build.sh tsan && OMP_NUM_THREADS=${OMP_NUM_THREADS:-2} \
    ctest --test-dir build-tsan -LE '^(long|slow_sanitized)$' --output-on-failure --no-tests=error -j "$jobs"
}

# The sanitizer's runtime is a separate package, named after clang's version.
setup_fuzz() {
  scripts/setup.sh build fuzz || return 2
  local major
  major=$(clang++ -dumpversion | cut -d. -f1)
  scripts/setup.sh "package:libclang-rt-$major-dev"
}

# Sets cpu_s to the CPU seconds of the programs that this shell started. `times` writes to FILE, because in a pipe or
# $() it would run in another shell, which has not started them.
read_cpu_seconds() {
  times >"$1"
  cpu_s=$(awk -F'[ms ]+' 'NR == 2 { print int(60 * ($1 + $3) + $2 + $4) }' "$1")
}

# Runs the fuzzer again until it has used the CPU time, because on a busy machine a process gets less CPU time than the
# time that passes.
run_one_fuzzer() {
  local program=$1 seconds=$2 name dictionary=() inputs=0 cpu_s=0
  name=$(basename "$program")
  if [ -f "$program.dict" ]; then dictionary=("-dict=$program.dict"); fi
  mkdir -p "build-fuzz/corpus/$name" build-fuzz/findings
  while [ "$cpu_s" -lt "$seconds" ]; do
    # Each fuzzer uses one thread, so on an idle machine it gets one second of CPU time per second.
    if ! OMP_NUM_THREADS=1 "$program" -max_total_time=$((seconds - cpu_s)) -rss_limit_mb=4096 -timeout=25 -print_final_stats=1 "${dictionary[@]}" \
      -artifact_prefix="build-fuzz/findings/$name-" "build-fuzz/corpus/$name" >"build-fuzz/$name.log" 2>&1; then
      echo "fuzz: $name: FOUND SOMETHING; input in build-fuzz/findings, report in build-fuzz/$name.log:"
      grep -m3 -E 'ERROR|SUMMARY|runtime error' "build-fuzz/$name.log" | sed 's/^/    /'
      return 1
    fi
    inputs=$((inputs + $(sed -n 's/^stat::number_of_executed_units: *//p' "build-fuzz/$name.log")))
    read_cpu_seconds "build-fuzz/$name.times"
  done
  echo "fuzz: $name: no finding in $inputs inputs, $cpu_s s of CPU"
}
export -f read_cpu_seconds run_one_fuzzer

run_fuzz() {
  setup_fuzz || return 2
  # The targets are named individually, so that their libraries are built, but no benchmarks and examples.
  [ -f build-fuzz/build.ninja ] || scripts/build.sh fuzz help >/dev/null || return 2
  local targets
  mapfile -t targets < <(ninja -C build-fuzz -t targets all | sed -n 's#^\([^/: ]*_fuzz\): phony.*#\1#p' | grep -v '^cmake_' | sort -u)
  if [ ${#targets[@]} -eq 0 ]; then echo "fuzz: the build has no fuzzer" >&2; return 1; fi
  scripts/build.sh fuzz "${targets[@]}" || return 2
  python3 scripts/fuzz_seeds.py build-fuzz/corpus || return 2
  find build-fuzz -type f -name '*_fuzz' -perm -u+x -print0 | sort -z |
    xargs -0 -P "$jobs" -I{} bash -c "run_one_fuzzer {} ${FUZZ_SECONDS:-600}"
}

failed=()
for stage in "$@"; do
  case $stage in bench | long | surface | asan | tsan | fuzz) ;; *) echo "test-long: no such stage: $stage" >&2; exit 2 ;; esac
  echo "== test-long: $stage"
  start=$SECONDS
  "run_$stage" || failed+=("$stage")
  echo "== test-long: $stage took $((SECONDS - start)) s"
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "test-long: failed: ${failed[*]}"
  exit 1
fi
echo "test-long: all of $* passed"
