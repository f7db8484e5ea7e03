#!/bin/bash
# Writes the Debian packages of a build folder into dist/. They can be installed in the release of Debian that built them.
#
#   scripts/build_deb.sh [FOLDER]   FOLDER is a build folder that contains the finished program and library (default build)
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-build}
if [ ! -f "$folder/CPackConfig.cmake" ] || [ ! -x "$folder/plimsoll" ]; then
  echo "build_deb: $folder contains no finished build on Debian; run make first" >&2
  exit 2
fi
rm -rf "$folder/packages"
cpack --config "$folder/CPackConfig.cmake" -B "$PWD/$folder/packages"
mkdir -p dist
mv "$folder"/packages/*.deb dist/
rm -rf "$folder/packages"
ls -l dist/*.deb
