#!/bin/bash
# Prints the tests that a change must pass under the sanitizers, one target per line: first the tests in folders of code that parses
# untrusted input, then the tests that link code of a changed folder.
#
#   scripts/sanitized_tests.sh FOLDER [BASE]     (FOLDER: a configured build, such as build-asan;
#                                                 BASE: default as in scripts/check_tidy.sh)
#
# These are the tests of the folders that parse untrusted input, and every test that links code of a folder with a CMakeLists.txt in
# which a file changed since BASE. A change of the build system or of src/base selects every test. `make test-long` runs every test
# under the sanitizers, whatever changed.
set -euo pipefail
folder=$1
base=${2:-}
# Folders whose code parses untrusted files, and the folder of the tests that read damaged files.
untrusted='src/(io|arguments|models|hardware|base)/|tests/bad_input/'

if [ -z "$base" ]; then
  head=$(git rev-parse HEAD)
  base=$(git merge-base HEAD origin/main 2>/dev/null || true)
  if [ -z "$base" ] || [ "$base" = "$head" ]; then base=$(git rev-parse --verify --quiet HEAD~1 || true); fi
fi
# Reduces the path of each changed file to the folder whose CMakeLists.txt builds it.
changed=
everything=no
if [ -z "$base" ]; then
  everything=yes
else
  while read -r file; do
    case $file in
      CMakeLists.txt | CMakePresets.json | cmake/* | src/base/* | include/*) everything=yes ;;
      src/* | tests/*)
        place=$(dirname "$file")
        while [ ! -f "$place/CMakeLists.txt" ] && [ "$place" != . ]; do place=$(dirname "$place"); done
        changed="$changed|$place/"
        ;;
    esac
  done < <(git diff --name-only "$base" | grep -E '\.(cc|h|inc|txt|json|cmake|safetensors)$' || true)
fi
wanted="^($untrusted${changed})"

# Selects each test program that is linked from an object file of a wanted folder, directly or through a library.
links=()
while read -r target; do
  own=$(ninja -C "$folder" -t query "$target" 2>/dev/null | sed -n '/input: phony/{n;s/^ *//p;}')
  if echo "$own" | grep -qE "$wanted"; then
    echo "$target"
  elif [ "$everything" = yes ] ||
    { [ -n "$changed" ] && ninja -C "$folder" -t inputs "$target" 2>/dev/null | grep -qE "^(${changed#|}).*\.o$"; }; then
    links+=("$target")
  fi
done < <(ctest --test-dir "$folder" -N -LE '^(long|slow_sanitized)$' | sed -n 's/^ *Test *#[0-9]*: //p')
[ ${#links[@]} -eq 0 ] || printf '%s\n' "${links[@]}"
