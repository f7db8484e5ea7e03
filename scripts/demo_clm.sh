#!/bin/sh
# The demo of language models: trains a tokenizer and a small GPT-2 from scratch on the King James Bible (Debian's package bible-kjv), compares
# its perplexity with that of n-gram models over the same tokens, and prints what it writes. `make demo-clm` calls this after the build; run from
# the root of the repository.
#
# These variables of the environment can be set:
#   DEMO_TEXT         a text in UTF-8 to train on instead, one paragraph per line
#   DEMO_VOCAB        number of tokens (default 2048)
#   DEMO_EPOCHS       passes over the text (default: as many as two cores can make in about four minutes)
#   DEMO_PROMPT       text that the trained model continues (default "And the LORD said unto")
#   DEMO_ARGS         further arguments for `plimsoll train`, such as "--max_steps 100"
set -eu

plimsoll=build/plimsoll
ngram=build/demo/ngram_perplexity
data=data/demo-clm
vocab=${DEMO_VOCAB:-2048}
block=128

cpu_has() { grep -qwE "$1" /proc/cpuinfo 2>/dev/null; }
# Passes over the text that two cores make in less than five minutes. bench/results/amx-2026-11-26.md has the measurement with AMX. The numbers
# for other CPUs are conservative estimates.
if cpu_has amx_bf16; then
  epochs=${DEMO_EPOCHS:-5}
elif cpu_has avx512_bf16; then
  epochs=${DEMO_EPOCHS:-3}
elif cpu_has avx512f; then
  epochs=${DEMO_EPOCHS:-2}
else
  epochs=${DEMO_EPOCHS:-1}
fi
precision=
if cpu_has 'avx512_bf16|amx_bf16'; then precision=--bf16; fi

headline() { printf '\n== %s\n' "$1"; }
# Returns the first number for a key in a JSON file written by the program, without the need for a JSON tool.
number_of() { sed -n "s/.*\"$2\": *\\([-0-9.e+]*\\).*/\\1/p" "$1" | head -n 1; }
# Prints a command as it would be typed, in lines of readable width.
show_command() { printf '$ %s\n' "$*" | fold -s -w 98 | sed -e '$!s/ *$/ \\/' -e '2,$s/^/      /'; }

for program in "$plimsoll" "$ngram"; do
  if [ ! -x "$program" ]; then echo "demo-clm: $program is missing; run 'make demo-clm', which builds it first" >&2; exit 2; fi
done

headline "1 of 5: the text and its tokens"
mkdir -p "$data"
if [ -n "${DEMO_TEXT:-}" ]; then
  if [ ! -r "$DEMO_TEXT" ]; then echo "demo-clm: DEMO_TEXT=$DEMO_TEXT: cannot read the file" >&2; exit 2; fi
  # Every 20th group of 25 lines is validation data.
  awk -v data="$data" 'length { print " " $0 > (data (int(n++ / 25) % 20 == 10 ? "/validation.txt" : "/train.txt")) }' "$DEMO_TEXT"
else
  scripts/setup.sh demo-clm
  # `bible` prints a verse per line, "Ge1:1 In the beginning ...". The reference is removed, and the space before the
  # text is kept, so that the verses can be joined to one text. Every 20th chapter is validation data.
  bible -f "Gen1:1-Rev22:21" >"$data/verses.txt" </dev/null
  awk -v data="$data" '{ match($0, /^[^ :]+:/); chapter = substr($0, 1, RLENGTH)
    if (chapter != last) { n++; last = chapter }
    sub(/^[^ ]+/, ""); print > (data (n % 20 == 10 ? "/validation.txt" : "/train.txt")) }' "$data/verses.txt"
fi
wc -lwc "$data/train.txt" "$data/validation.txt" | sed '$d'
rm -rf "$data/tokenizer"
show_command "$plimsoll" tokenize --train bpe --vocab_size "$vocab" --output_dir "$data/tokenizer" "$data/train.txt"
"$plimsoll" tokenize --train bpe --vocab_size "$vocab" --output_dir "$data/tokenizer" "$data/train.txt"
for part in train validation; do
  "$plimsoll" tokenize --tokenizer_name "$data/tokenizer" "$data/$part.txt" >"$data/$part.ids"
done

headline "2 of 5: baselines that know no transformer"
# The n-gram models read the same tokens, but may use all earlier tokens, not only those of a block. Line breaks are not
# part of the text and are not counted.
bytes=$(($(wc -c <"$data/validation.txt") - $(wc -l <"$data/validation.txt")))
"$ngram" "$data/train.ids" "$data/validation.ids" "$vocab" 1000000000 "$bytes" >"$data/ngrams.txt"
sed '$d' "$data/ngrams.txt"
best_order=$(awk 'END { print $2 }' "$data/ngrams.txt")
best=$(awk 'END { print $3 }' "$data/ngrams.txt")
best_bits=$(awk 'END { print $4 }' "$data/ngrams.txt")
num_tokens=$(awk 'END { print $5 }' "$data/ngrams.txt")

headline "3 of 5: training a GPT-2 from scratch"
run=runs/demo-clm
n=1
while [ -e "$run" ]; do n=$((n + 1)); run=runs/demo-clm-$n; done
shape="n_layer=4,n_embd=192,n_head=3,vocab_size=$vocab,n_positions=$block,initializer_range=0.06,resid_pdrop=0,embd_pdrop=0,attn_pdrop=0"
# shellcheck disable=SC2086
set -- --config_name gpt2 --config_overrides "$shape" --tokenizer_name "$data/tokenizer" --problem_type causal_lm \
  --train_file "$data/train.txt" --keep_linebreaks False --block_size "$block" --per_device_train_batch_size 4 \
  --num_train_epochs "$epochs" --learning_rate 1.5e-3 --lr_scheduler_type cosine --warmup_steps 0.05 --weight_decay 0.1 \
  --adam_beta2 0.98 $precision --use_cpu --save_strategy no --logging_steps 500 --seed 42 --output_dir "$run" ${DEMO_ARGS:-}
show_command "$plimsoll" train "$@"
# The shell's `times` gives the CPU time of the programs that it has run. Unlike the elapsed time, it does not depend on
# other work on the machine.
times >"$data/.times_before"
start=$(date +%s)
"$plimsoll" train "$@"
seconds=$(($(date +%s) - start))
times >"$data/.times_after"
cpu_seconds=$(awk 'FNR == 2 { split($1, user, /[ms]/); split($2, system_, /[ms]/)
  seconds = 60 * user[1] + user[2] + 60 * system_[1] + system_[2]; total = NR == 2 ? -seconds : total + seconds }
  END { printf "%.0f", total }' "$data/.times_before" "$data/.times_after")

headline "4 of 5: text that it has never seen"
set -- --model_name_or_path "$run" --validation_file "$data/validation.txt" --keep_linebreaks False --block_size "$block" \
  --stride $((block / 2)) --per_device_eval_batch_size 16 --use_cpu --output_dir "$run/validation"
show_command "$plimsoll" eval "$@"
"$plimsoll" eval "$@"
model=$(number_of "$run/validation/eval_results.json" eval_perplexity)

headline "5 of 5: what it writes"
set -- --model_name_or_path "$run" --use_cpu --do_sample --temperature 0.8 --top_p 0.95 --max_new_tokens 100 --seed 1 --quiet \
  "${DEMO_PROMPT:-And the LORD said unto}"
show_command "$plimsoll" generate "$@"
"$plimsoll" generate "$@" | fold -s -w 98

echo
row() { printf '%-46s %10s %14s\n' "$1" "$2" "$3"; }
row "$num_tokens tokens, $bytes bytes of validation text" perplexity "bits per byte"
sed -n 's/^\(.-gram\), modified Kneser-Ney: perplexity \(.*\), \(.*\) bits per byte$/\1 \2 \3/p' "$data/ngrams.txt" |
  while read -r order perplexity bits; do row "$order model, modified Kneser-Ney" "$perplexity" "$bits"; done
bits=$(awk -v p="$model" -v n="$num_tokens" -v b="$bytes" 'BEGIN { printf "%.4f", log(p) / log(2) * n / b }')
row "GPT-2, trained here" "$(printf '%.2f' "$model")" "$bits"
echo "training took $seconds s, and $cpu_seconds s of CPU time on the threads of all cores"
if [ -z "${DEMO_ARGS:-}" ] && ! awk -v a="$model" -v b="$best" 'BEGIN { exit !(a < b) }'; then
  echo "demo-clm: the model is not better than the $best_order-gram model ($best_bits bits per byte); give it more passes with DEMO_EPOCHS" >&2
fi
cat <<END

written:
  $run    the model as a Hugging Face folder; log.jsonl, plan.json, memory.json, loss.svg
  $data    the text, its tokenizer, the figures of the n-gram models

to try next:
  $plimsoll generate --model_name_or_path $run --use_cpu --num_beams 4 --max_new_tokens 40 "In the beginning"
  $plimsoll plan --phase generate --model_name_or_path $run --num_beams 4 --device cpu
END
