#!/bin/sh
# Configures a preset of CMakePresets.json once and builds targets in its folder.
#
#   scripts/build.sh PRESET [TARGET...]      (without a target: everything)
#
# A configured folder keeps its settings: Ninja itself runs CMake again if a CMakeLists.txt changes. On a
# terminal Ninja's progress line is shown, elsewhere only the output of compilers. CUDA code is built for the
# GPUs of this machine, or without a GPU for the default of cmake/PlimsollCuda.cmake;
# PLIMSOLL_CUDA_ARCHITECTURES (80-real, RELEASE) overrides both.
set -eu
preset=$1
shift

# Prints the first binaryDir that follows the name of the preset in CMakePresets.json.
folder=$(awk -v name="\"$preset\"" -F'"' '
  $0 ~ "\"name\": " name { seen = 1 }
  seen && $2 == "binaryDir" { sub(/^\$\{sourceDir\}\//, "", $4); print $4; exit }' CMakePresets.json)
if [ -z "$folder" ]; then
  echo "build: CMakePresets.json has no preset '$preset'" >&2
  exit 2
fi

if [ ! -f "$folder/build.ninja" ]; then
  if [ -f "$folder/CMakeCache.txt" ] && ! grep -q '^CMAKE_GENERATOR:INTERNAL=Ninja$' "$folder/CMakeCache.txt"; then
    echo "build: $folder was configured for another generator than Ninja; remove that folder, or build in it by hand" >&2
    exit 2
  fi
  launcher=
  if command -v ccache >/dev/null 2>&1; then
    launcher="-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache"
  fi
  architectures=${PLIMSOLL_CUDA_ARCHITECTURES:-}
  if [ -z "$architectures" ] && command -v nvidia-smi >/dev/null 2>&1; then
    architectures=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d . | grep -E '^[0-9]+$' |
      sort -u | sed 's/$/-real/' | paste -sd';' -) || architectures=
  fi
  echo "build: configuring $folder (preset $preset)"
  log=$(mktemp)
  if ! cmake --preset "$preset" $launcher ${architectures:+"-DPLIMSOLL_CUDA_ARCHITECTURES=$architectures"} >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    rm -f "$log" "$folder/build.ninja"
    echo "build: CMake could not configure $folder; the lines above say why" >&2
    exit 2
  fi
  rm -f "$log"
fi

jobs=${JOBS:-$(nproc)}
if [ -t 1 ]; then
  exec ninja -C "$folder" -j "$jobs" "$@"
fi
steps=$(ninja -C "$folder" -n "$@" 2>/dev/null | grep -c '^\[' || true)
if [ "${steps:-0}" -gt 1 ]; then echo "build: $steps steps in $folder, $jobs at a time"; fi
exec ninja -C "$folder" -j "$jobs" --quiet "$@"
