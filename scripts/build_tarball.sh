#!/bin/bash
# Writes dist/plimsoll-VERSION-linux-ARCH.tar.xz: bin/, lib/ with the libraries that the program needs except for those of NVIDIA and the C and
# C++ libraries, include/, and share/ with manual pages, completions and the notices. The tree runs from any folder.
#
#   scripts/build_tarball.sh [FOLDER]   FOLDER is a build folder that contains the finished program (default build)
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-build}
[ -x "$folder/plimsoll" ] || { echo "build_tarball: there is no $folder/plimsoll; build it first (make)" >&2; exit 2; }
command -v patchelf >/dev/null || { echo "build_tarball: patchelf is missing; scripts/setup.sh packages installs it" >&2; exit 2; }
version=$(sed -n 's/^project(plimsoll VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
name="plimsoll-$version-linux-$(uname -m)"
tree="build-tarball/$name"
rm -rf build-tarball
cmake --install "$folder" --prefix "$PWD/$tree" --strip >/dev/null

# The loader does not search the folder of a library for libraries that this library needs. Each library therefore
# contains the path of its own folder.
scripts/third_party.py list "$folder/plimsoll" | while IFS=$'\t' read -r soname path; do
  cp -L "$path" "$tree/lib/$soname"
  chmod 644 "$tree/lib/$soname"
  # shellcheck disable=SC2016
  patchelf --set-rpath '$ORIGIN' "$tree/lib/$soname"
done
# shellcheck disable=SC2016
patchelf --set-rpath '$ORIGIN/../lib' "$tree/bin/plimsoll"
# shellcheck disable=SC2016
patchelf --set-rpath '$ORIGIN' "$tree"/lib/libplimsoll.so.*.*.*
scripts/third_party.py notices "$folder/plimsoll" "$tree/share/doc/plimsoll/licenses/third_party" >/dev/null
scripts/third_party.py check "$tree"
mkdir -p dist
# The same tree always gives the same archive, byte for byte.
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}" \
  -C build-tarball -c "$name" | xz -T0 -6 >"dist/$name.tar.xz"
rm -rf build-tarball
ls -l "dist/$name.tar.xz"
