#!/bin/sh
# Names every C++ and CUDA file that clang-format would change, and exits with 1 if there are any. Changes
# nothing.
#
# The tree is formatted by clang-format 14, the version of Debian 12. Other versions break lines slightly
# differently, so with one of them the list is printed as a note without failing.
set -eu
scripts/setup.sh format
formatter=$(command -v clang-format-14 || command -v clang-format)
version=$("$formatter" --version | sed -E 's/.*version ([0-9]+).*/\1/')

# An .inc file is a table whose rows are aligned by hand.
export formatter
wrong=$(git ls-files '*.cc' '*.h' '*.cu' '*.cuh' | while read -r file; do if [ -f "$file" ]; then echo "$file"; fi; done |
  xargs -P "${JOBS:-$(nproc)}" -n 40 sh -c '
    for file in "$@"; do "$formatter" --style=file "$file" | cmp -s - "$file" || echo "$file"; done' sh | sort)

if [ -z "$wrong" ]; then
  echo "format: every file is as clang-format $version has it"
elif [ "$version" = 14 ]; then
  echo "format: clang-format -i would change"
  printf '%s\n' "$wrong" | sed 's/^/    /'
  exit 1
else
  echo "format: clang-format $version would change these files; version 14 decides, so this is only a note"
  printf '%s\n' "$wrong" | sed 's/^/    /'
fi
