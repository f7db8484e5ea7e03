#!/bin/sh
# Names every C++ and CUDA file that clang-format would change, and every name that a Python file uses without defining it (pyflakes).
# Exits with 1 if there are any. Changes nothing.
#
# The tree is formatted by clang-format 14, the version of Debian 12. Other versions break lines slightly
# differently, so with one of them the list is printed as a note without failing.
set -eu
scripts/setup.sh format
formatter=$(command -v clang-format-14 || command -v clang-format)
version=$("$formatter" --version | sed -E 's/.*version ([0-9]+).*/\1/')

status=0
# pyflakes is installed for Debian's own Python, which need not be the first one in PATH.
for python in /usr/bin/python3 python3; do
  if ! "$python" -m pyflakes --version >/dev/null 2>&1; then continue; fi
  undefined=$(git ls-files '*.py' | xargs "$python" -m pyflakes 2>&1 | grep -E 'undefined name|referenced before assignment|syntax' || true)
  if [ -n "$undefined" ]; then
    echo "format: Python uses undefined names"
    printf '%s\n' "$undefined" | sed 's/^/    /'
    status=1
  fi
  break
done

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
  status=1
else
  echo "format: clang-format $version would change these files; version 14 decides, so this is only a note"
  printf '%s\n' "$wrong" | sed 's/^/    /'
fi
exit "$status"
