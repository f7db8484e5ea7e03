#!/bin/bash
# Installs Debian packages in a bare system, plans, trains and evaluates with the program, compiles and runs a program with the library, and
# removes the packages again.
#
#   scripts/check_packages.sh ROOT DEB...
#
# ROOT is the folder of a bare Debian whose apt works (debootstrap bookworm ROOT), of the release for which the packages were built. The script
# installs their dependencies, cmake and g++ into it, so name a copy of such a folder. Needs root. lintian of this machine checks the
# packages, if it is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 2 ] || { sed -n 's/^# \{0,1\}//p' "$0" | head -n 11; exit 2; }
root=$(realpath "$1")
shift
[ "$root" != / ] || { echo "check_packages: ROOT must not be this machine; give the folder of a bare Debian" >&2; exit 2; }
debs=("$@")

fail() { echo "check_packages: $*" >&2; exit 1; }
in_root() {
  # The command runs in a mount namespace of its own, so the mounts disappear when it ends.
  unshare --mount bash -c 'mount --bind /proc "$0/proc" && mount --bind /dev "$0/dev" && exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive "${@:2:$1}" chroot "$0" "${@:$1+2}"' "$root" "${#proxies[@]}" "${proxies[@]}" "$@"
}
mapfile -t proxies < <(env | grep -iE '^(https?_proxy|no_proxy)=' || true)
quiet() { in_root "$@" >"$log" 2>&1 || { tail -n 30 "$log" >&2; fail "$* failed"; }; }

log=$(mktemp)
work="$root/var/tmp/check_packages"
trap 'rm -rf "$log" "$work"' EXIT
rm -rf "$work"
mkdir -p "$work"
names=()
for deb in "${debs[@]}"; do
  names+=("$(dpkg-deb -f "$deb" Package)")
  cp "$deb" "$work/"
done
if command -v lintian >/dev/null; then
  lintian --fail-on error --allow-root "${debs[@]}" || fail "lintian reports the errors above"
  lint="lintian reports no error"
else
  lint="lintian is not installed and was not run"
fi

quiet apt-get update
quiet apt-get install -y --no-install-recommends g++ cmake make
inside=/var/tmp/check_packages
quiet sh -c "apt-get install -y --no-install-recommends $inside/*.deb"
in_root sh -c "dpkg -L ${names[*]} | sort -u" >"$work/installed.txt"

# Three steps train a tiny BERT without pretrained weights. They need only a configuration, a vocabulary and a data
# file.
mkdir "$work/model"
cat >"$work/model/config.json" <<'JSON'
{"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 12, "hidden_size": 32, "num_hidden_layers": 2,
 "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 128, "type_vocab_size": 2}
JSON
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' the good bad day film was a >"$work/model/vocab.txt"
{ printf 'sentence\tlabel\n'; for _ in 1 2 3 4 5 6 7 8; do printf 'the film was good\tyes\nthe day was bad\tno\n'; done; } >"$work/train.tsv"
settings=(--config_name "$inside/model" --tokenizer_name "$inside/model" --max_seq_length 16 --per_device_train_batch_size 8 --use_cpu)
in_root plimsoll --version
quiet plimsoll plan "${settings[@]}"
quiet plimsoll train "${settings[@]}" --train_file "$inside/train.tsv" --max_steps 3 --output_dir "$inside/trained"
quiet plimsoll eval --model_name_or_path "$inside/trained" --validation_file "$inside/train.tsv" --output_dir "$inside/eval" --use_cpu

mkdir "$work/examples"
cp examples/predict_text.cc "$work/examples/"
cp -r tests/install/consumer "$work/consumer"
quiet cmake -S "$inside/consumer" -B "$inside/compiled" "-DEXAMPLES=$inside/examples"
quiet cmake --build "$inside/compiled"
in_root "$inside/compiled/predict_text" "$inside/trained" "the film was good"

quiet apt-get purge -y "${names[@]}"
while read -r file; do
  if [ -e "$root$file" ] && [ ! -d "$root$file" ]; then fail "$file is left after the packages were purged"; fi
done <"$work/installed.txt"
left=$(find "$root" -xdev -iname '*plimsoll*' -not -path "$work/*" -not -path "$root/var/cache/*")
[ -z "$left" ] || fail "these are left after the packages were purged: $left"
echo "check_packages: ${names[*]} install, train, compile and purge in Debian $(cat "$root/etc/debian_version"); $lint"
