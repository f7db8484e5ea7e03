#!/bin/sh
# The demo: what kind of thing does this definition describe? Trains a classifier on the definitions of WordNet and compares it with
# two baselines. `make demo` calls this after the build; run from the root of the repository.
#
# These variables of the environment can be set:
#   DEMO_TRAIN_ROWS   rows to train on, 0 for all (default: as many as two cores can use in about four minutes)
#   DEMO_EPOCHS       passes over them (default 2)
#   DEMO_BATCH        sequences of a step (default 32)
#   DEMO_LR           highest learning rate (default 2e-4)
#   DEMO_MODEL        pretrained (default) or scratch
#   DEMO_WORDNET      folder with WordNet's data.noun and data.verb (default: that of Debian's package wordnet-base)
#   DEMO_ARGS         further arguments for `plimsoll train`, such as "--max_steps 100"
set -eu

plimsoll=build/plimsoll
programs=build/demo
data=data/demo
min_class=300
max_class=1000

cpu_has() { grep -qwE "$1" /proc/cpuinfo 2>/dev/null; }
has_bf16() { cpu_has 'avx512_bf16|amx_bf16'; }
# Measured on two cores: 4200 tokens per second with AVX512_BF16 (Zen 4), 1900 with AVX2 (Zen 3); a row has 14 tokens,
# and is trained on twice. All classes together have 25133 rows.
default_rows() {
  if has_bf16; then echo 0; elif cpu_has avx512f; then echo 20000; else echo 15000; fi
}
rows=${DEMO_TRAIN_ROWS:-$(default_rows)}
epochs=${DEMO_EPOCHS:-2}
batch=${DEMO_BATCH:-32}
rate=${DEMO_LR:-2e-4}
kind=${DEMO_MODEL:-pretrained}

headline() { printf '\n== %s\n' "$1"; }
# Returns the first number for a key in a JSON file written by the program, without the need for a JSON tool.
number_of() { sed -n "s/.*\"$2\": *\\([-0-9.e+]*\\).*/\\1/p" "$1" | head -n 1; }
# Prints a command as it would be typed, in lines of readable width.
show_command() { printf '$ %s\n' "$*" | fold -s -w 98 | sed -e '$!s/ *$/ \\/' -e '2,$s/^/      /'; }
in_mib() { awk -v bytes="${1:-0}" 'BEGIN { printf "%.1f", bytes / 1048576 }'; }

for program in "$plimsoll" "$programs/make_dataset" "$programs/bag_of_words" "$programs/score_predictions"; do
  if [ ! -x "$program" ]; then echo "demo: $program is missing; run 'make demo', which builds it first" >&2; exit 2; fi
done

# Sets `wordnet` to the folder that contains WordNet's data files. Fails if there is none.
find_wordnet() {
  for wordnet in "${DEMO_WORDNET:-/usr/share/wordnet}" "$data/wordnet/usr/share/wordnet"; do
    if [ -r "$wordnet/data.noun" ] && [ -r "$wordnet/data.verb" ]; then return 0; fi
  done
  return 1
}

# Unpacks Debian's package wordnet-base without installing it, which needs no root.
unpack_wordnet() {
  command -v apt-get >/dev/null 2>&1 && command -v dpkg-deb >/dev/null 2>&1 || return 1
  (cd "$data" && apt-get -qq download wordnet-base) && dpkg-deb -x "$data"/wordnet-base_*.deb "$data/wordnet"
}

headline "1 of 6: the data"
mkdir -p "$data"
scripts/setup.sh demo || echo "demo: going on without these packages"
if ! find_wordnet && ! { [ -z "${DEMO_WORDNET:-}" ] && unpack_wordnet && find_wordnet; }; then
  echo "demo: no WordNet: expected the files data.noun and data.verb in ${DEMO_WORDNET:-/usr/share/wordnet}." >&2
  echo "demo: install Debian's package wordnet-base, or set DEMO_WORDNET to the folder dict of WordNet 3.0 or 3.1." >&2
  echo "demo: to train on a file of your own: $plimsoll train --train_file FILE.tsv --help" >&2
  exit 2
fi
recipe="wordnet $wordnet min_class $min_class max_class $max_class rows $rows"
if [ "$(cat "$data/.recipe" 2>/dev/null)" != "$recipe" ]; then
  "$programs/make_dataset" --wordnet_dir "$wordnet" --output_dir "$data" --min_class "$min_class" --max_class "$max_class" \
    --max_train_rows "$rows" --vocab_file "$data/vocab.txt" >"$data/statistics.txt"
  rm -f "$data/baselines.txt"
  echo "$recipe" >"$data/.recipe"
fi
cat "$data/statistics.txt"
echo "text: a definition; label: the kind of thing, from WordNet; split by a hash of the defined word. For example:"
sed -n '2,4p' "$data/train.tsv" | sed 's/^/    /'

headline "2 of 6: baselines that know no transformer"
if [ ! -f "$data/baselines.txt" ]; then
  "$programs/bag_of_words" --train_file "$data/train.tsv" --validation_file "$data/validation.tsv" \
    --test_file "$data/test.tsv" >"$data/baselines.new"
  mv "$data/baselines.new" "$data/baselines.txt"
fi
cat "$data/baselines.txt"

headline "3 of 6: the model and its plan"
if [ "$kind" = pretrained ]; then
  scripts/fetch_model.sh "$data/minilm" || kind=scratch
fi
if [ "$kind" = pretrained ]; then
  title="MiniLM, pretrained and fine-tuned"
  set -- --model_name_or_path "$data/minilm"
else
  echo "training from scratch: the same architecture with random weights, and a vocabulary made of the training text"
  title="MiniLM, from scratch"
  mkdir -p "$data/scratch"
  cp "$data/vocab.txt" "$data/scratch/vocab.txt"
  printf '{"tokenizer_class": "BertTokenizer", "do_lower_case": true, "model_max_length": 512}\n' \
    >"$data/scratch/tokenizer_config.json"
  set -- --config_name all-MiniLM-L6-v2 --tokenizer_name "$data/scratch"
fi
precision=
if has_bf16; then precision=--bf16; fi

# Evaluates and saves three times during training, on a part of the validation rows. This is enough, because the final
# accuracy is measured on the test rows.
num_rows=$(($(wc -l <"$data/train.tsv") - 1))
every=$(awk -v rows="$num_rows" -v epochs="$epochs" -v batch="$batch" 'BEGIN { n = int(rows * epochs / batch / 3 + 1); print n }')

# The output folder is new in each call, so no earlier run is continued or overwritten by accident.
run=runs/demo
n=1
while [ -e "$run" ]; do n=$((n + 1)); run=runs/demo-$n; done

# shellcheck disable=SC2086
set -- "$@" --train_file "$data/train.tsv" --validation_file "$data/validation.tsv" --output_dir "$run" \
  --max_seq_length 128 --per_device_train_batch_size "$batch" --per_device_eval_batch_size 64 \
  --learning_rate "$rate" --warmup_steps 0.1 --weight_decay 0.01 --num_train_epochs "$epochs" $precision \
  --eval_strategy steps --eval_steps "$every" --max_eval_samples 2000 \
  --save_strategy steps --save_steps "$every" --save_total_limit 2 \
  --load_best_model_at_end --metric_for_best_model accuracy --logging_steps 50 --seed 42 ${DEMO_ARGS:-}
echo "planned without the weights, for the largest batch that the lengths of the data make; the run plans the same:"
show_command "$plimsoll" plan "$@"
"$plimsoll" plan "$@"

headline "4 of 6: training"
show_command "$plimsoll" train "$@"
status=0
# The shell's `times` gives the CPU time of the programs that it has run. Unlike the elapsed time, it does not depend on
# other work on the machine.
times >"$data/.times_before"
start=$(date +%s)
"$plimsoll" train "$@" || status=$?
wall_seconds=$(($(date +%s) - start))
times >"$data/.times_after"
if [ "$status" -eq 6 ]; then
  echo "demo: interrupted, and saved. To go on: $plimsoll train $* --resume_from_checkpoint"
  exit 6
elif [ "$status" -ne 0 ]; then
  echo "demo: training ended with exit code $status; what it wrote so far is in $run" >&2
  exit "$status"
fi

headline "5 of 6: rows that it has never seen"
set -- --max_seq_length 128 --per_device_eval_batch_size 64 --model_name_or_path "$run" --output_dir "$run/test"
if [ -n "$precision" ]; then set -- "$@" "$precision"; fi
show_command "$plimsoll" eval --validation_file "$data/test.tsv" "$@"
"$plimsoll" eval --validation_file "$data/test.tsv" "$@"
show_command "$plimsoll" predict --test_file "$data/test.tsv" "$@"
"$plimsoll" predict --test_file "$data/test.tsv" "$@"
scores=$("$programs/score_predictions" --test_file "$data/test.tsv" --predictions "$run/test/predict_results.txt" --show 8)
echo
printf '%s\n' "$scores" | sed '$d'
accuracy=$(printf '%s\n' "$scores" | awk 'END { print $2 }')
macro_f1=$(printf '%s\n' "$scores" | awk 'END { print $4 }')

headline "6 of 6: results"
printf '%-42s %9s %9s\n' "on $(($(wc -l <"$data/test.tsv") - 1)) definitions never seen in training" accuracy "macro F1"
awk 'NR > 2 && /[0-9]\.[0-9]+ +[0-9.]+ +[0-9.]+ +[0-9.]+$/ {
  test_accuracy = $(NF - 1); test_f1 = $NF; NF -= 4; printf "%-42s %9s %9s\n", $0, test_accuracy, test_f1 }' "$data/baselines.txt"
printf '%-42s %9s %9s\n' "$title" "$accuracy" "$macro_f1"
# The accuracy that the program reports must equal that of the independent program score_predictions.
own=$(number_of "$run/test/eval_results.json" eval_accuracy)
if ! awk -v a="${own:-none}" -v b="$accuracy" 'BEGIN { d = a - b; exit !(a != "none" && d < 1e-4 && d > -1e-4) }'; then
  echo "demo: plimsoll eval says accuracy ${own:-nothing}, its predictions scored outside say $accuracy: this is a bug" >&2
  exit 1
fi

cpu_seconds=$(awk 'FNR == 2 { split($1, user, /[ms]/); split($2, system_, /[ms]/)
  seconds = 60 * user[1] + user[2] + 60 * system_[1] + system_[2]; total = NR == 2 ? -seconds : total + seconds }
  END { printf "%.0f", total }' "$data/.times_before" "$data/.times_after")
echo
device=$(sed -n 's/.*"device": *"\([^"]*\)".*/\1/p' "$run/plan.json" | head -n 1)
echo "training took $wall_seconds s on ${device:-an unknown device}, and $cpu_seconds s of CPU time on the threads of all cores"

memory=$run/memory.json
printf '\n%-42s %9s %9s\n' "memory of the training run, MiB" predicted held
printf '%-42s %9s %9s\n' "arena (every tensor of the run)" "$(in_mib "$(number_of "$memory" arena_bytes)")" \
  "$(in_mib "$(number_of "$memory" arena_high_water_bytes)")"
printf '%-42s %9s %9s\n' "whole process (its peak, VmHWM)" "$(in_mib "$(number_of "$memory" predicted_total_bytes)")" \
  "$(in_mib "$(number_of "$memory" measured_peak_bytes)")"

cat <<END

written:
  $run    the model as a Hugging Face folder: config.json, model.safetensors, tokenizer files;
      all_results.json, trainer_state.json, log.jsonl, plan.json, memory.json, loss.svg, memory.svg, checkpoints
  $run/test    metrics and predictions on the test split
  $data    the data set, the baselines' figures, the pretrained model

to try next:
  echo "a small furry animal that climbs trees" | $plimsoll tokenize --tokenizer_name $run --show
  $plimsoll inspect $run
  $plimsoll plan --config_name bert-large-uncased --max_seq_length 512 --per_device_train_batch_size 4
  $plimsoll bench --experiments --output_dir runs/experiments      every method alone and combined, in minutes
  $plimsoll train --model_name_or_path $run --train_file YOURS.tsv --validation_file YOURS.tsv --output_dir runs/mine
END
