#!/bin/bash
# Builds the image of Containerfile without a network, from the folder of a local Debian, and writes dist/plimsoll-image.tar (an OCI archive,
# which `podman load -i` and `skopeo copy oci-archive:` read).
#
#   scripts/build_image.sh ROOT
#
# ROOT is the folder of a bare Debian (debootstrap --variant=minbase bookworm ROOT), which becomes the base; it is not changed. Needs buildah, the archive
# of `make tarball`, and root, because buildah runs the steps in a chroot.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -eq 1 ] || { sed -n 's/^# \{0,1\}//p' "$0" | head -n 7; exit 2; }
root=$(realpath "$1")
command -v buildah >/dev/null || { echo "build_image: buildah is missing; install the Debian package buildah" >&2; exit 2; }
archives=(dist/plimsoll-*-linux-*.tar.xz)
if [ ${#archives[@]} -ne 1 ] || [ ! -f "${archives[0]}" ]; then
  echo "build_image: dist/ must contain one archive plimsoll-*-linux-*.tar.xz, found: ${archives[*]}; run make tarball" >&2
  exit 2
fi

base=localhost/plimsoll-base
container=$(buildah from scratch)
trap 'buildah rm "$container" >/dev/null' EXIT
buildah add --quiet "$container" "$root" / >/dev/null
buildah commit --quiet "$container" "$base" >/dev/null
buildah bud --isolation chroot --pull-never --build-arg "BASE=$base" -f Containerfile -t localhost/plimsoll .
rm -f dist/plimsoll-image.tar
buildah push --quiet localhost/plimsoll "oci-archive:dist/plimsoll-image.tar:plimsoll"
ls -l dist/plimsoll-image.tar
