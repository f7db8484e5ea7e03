#!/bin/bash
# Installs a wheel into a new virtual environment, plans and trains with it, and compares the trained weights with those of another program.
#
#   scripts/check_wheel.sh WHEEL [ROOT] [PROGRAM]
#
# ROOT is the folder of a bare Debian with python3-venv (debootstrap --include=python3-venv trixie ROOT); / is this machine. A ROOT other than / needs root.
# PROGRAM is the program of the build tree (default build/plimsoll), which trains on this machine with the same arguments.
set -euo pipefail
wheel=$(realpath "$1")
root=$(realpath "${2:-/}")
program=$(realpath "${3:-$(dirname "$0")/../build/plimsoll}")
limit=$((40 * 1000 * 1000))

fail() { echo "check_wheel: $*" >&2; exit 1; }
in_root() {
  if [ "$root" = / ]; then env -i PATH=/usr/bin:/bin HOME="$work" LANG=C.UTF-8 "$@"
  else
    # The command runs in a mount namespace of its own, so the mounts disappear when it ends.
    unshare --mount bash -c 'mount --bind /proc "$0/proc" && mount --bind /dev "$0/dev" && exec env -i PATH=/usr/sbin:/usr/bin:/bin \
      HOME=/root LANG=C.UTF-8 chroot "$0" "$@"' "$root" "$@"
  fi
}

size=$(stat -c %s "$wheel")
[ "$size" -le "$limit" ] || fail "$wheel has $size bytes; at most $limit are allowed"
! unzip -l "$wheel" | grep -E 'lib(cublas|cudart|nccl|cuda)[^ ]*\.so' || fail "$wheel contains the libraries of NVIDIA listed above"
python3 "$(dirname "$0")/third_party.py" check "$wheel" || fail "$wheel must not be distributed"

work=$(mktemp -d "${root%/}/var/tmp/check_wheel.XXXXXX")
trap 'rm -rf "$work"' EXIT
inside=${work#"${root%/}"}
cp "$wheel" "$work/"
# The test trains a tiny BERT without pretrained weights. It needs only a configuration, a vocabulary and a data file.
python3 - "$work" <<'PYTHON'
import json, pathlib, sys
work = pathlib.Path(sys.argv[1])
model = work / "model"
model.mkdir()
(model / "config.json").write_text(json.dumps({
    "model_type": "bert", "architectures": ["BertModel"], "vocab_size": 12, "hidden_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 64, "type_vocab_size": 2}))
(model / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "good", "bad", "day", "film", "was", "a"]) + "\n")
rows = [("the film was good", "yes"), ("the day was bad", "no")] * 12
(work / "train.tsv").write_text("sentence\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
PYTHON

in_root python3 -m venv "$inside/venv"
in_root "$inside/venv/bin/pip" install --quiet --no-index "$inside/$(basename "$wheel")"
in_root "$inside/venv/bin/pip" check
installed="$inside/venv/bin/plimsoll"
settings=(--config_name "$inside/model" --tokenizer_name "$inside/model" --max_seq_length 16 --per_device_train_batch_size 8 --use_cpu)
train=("${settings[@]}" --train_file "$inside/train.tsv" --max_steps 3 --seed 7)
in_root "$installed" --version
in_root "$installed" plan "${settings[@]}" > /dev/null
in_root "$installed" train "${train[@]}" --output_dir "$inside/installed" > "$work/installed.log" 2>&1 || { cat "$work/installed.log" >&2; fail "the installed program does not train"; }
in_root "$installed" eval --model_name_or_path "$inside/installed" --validation_file "$inside/train.tsv" --output_dir "$inside/eval" --use_cpu > /dev/null
"$program" train "${train[@]//"$inside"/"$work"}" --output_dir "$work/tree" > "$work/tree.log" 2>&1 || { cat "$work/tree.log" >&2; fail "$program does not train"; }
installed_hash=$(sha256sum < "$work/installed/model.safetensors")
tree_hash=$(sha256sum < "$work/tree/model.safetensors")
[ "$installed_hash" = "$tree_hash" ] || fail "the installed program trained weights with the hash $installed_hash, $program $tree_hash"
echo "check_wheel: $(basename "$wheel") has $size bytes, and trains the same bits as the build tree (${tree_hash%% *})"
