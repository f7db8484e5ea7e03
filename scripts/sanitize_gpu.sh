#!/bin/bash
# Runs the small-model suite under NVIDIA's compute-sanitizer on this machine's GPU: accesses outside a buffer
# (memcheck), hazards in shared memory (racecheck), reads of unwritten memory (initcheck). Every buffer of the
# plan has its own block of memory (--debug_allocations), because in one arena an access to a neighbouring
# buffer would not be detected.
#
#   scripts/sanitize_gpu.sh [memcheck|racecheck|initcheck ...]     default: all three
#
# A tool keeps one CPU core busy, but not the GPU. SANITIZE_JOBS=N therefore runs N programs at a time (default: one); their
# results are printed in the same order. Programs come from build/, or from the folder in PLIMSOLL_BIN, which then contains
# all of them. Exit code 1 if a tool reports an error, 2 if there is no GPU, no compute-sanitizer or
# no program.
set -uo pipefail
tools=("$@")
[ ${#tools[@]} -gt 0 ] || tools=(memcheck racecheck initcheck)
command -v compute-sanitizer >/dev/null || { echo "sanitize_gpu: compute-sanitizer is not on the PATH; the CUDA toolkit has it" >&2; exit 2; }
# The programs run on cuda:0, which is the first GPU of CUDA_VISIBLE_DEVICES.
export CUDA_DEVICE_ORDER=PCI_BUS_ID
card=${CUDA_VISIBLE_DEVICES-0}
nvidia-smi --id="${card%%,*}" --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || { echo "sanitize_gpu: no NVIDIA GPU is visible here" >&2; exit 2; }
program() {
  if [ -n "${PLIMSOLL_BIN:-}" ]; then echo "$PLIMSOLL_BIN/$1"; else find build -type f -name "$1" -perm -u+x | head -1; fi
}
plimsoll=$(program plimsoll)
[ -x "$plimsoll" ] || { echo "sanitize_gpu: there is no plimsoll in ${PLIMSOLL_BIN:-build/}; build it first (make product)" >&2; exit 2; }

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
small="--config_name bert-base-uncased --dataset_name dummy --dummy_seq_length 48 --max_steps 3 --max_seq_length 48
  --per_device_train_batch_size 4 --device cuda:0 --debug_allocations --logging_steps 1 --save_strategy no
  --config_overrides num_hidden_layers=2,hidden_size=128,num_attention_heads=2,intermediate_size=256,vocab_size=512"
# The evaluation has two batches, of which the second replays a CUDA graph. The sizes are chosen such that on Hopper the
# matrix products of the first layer include the layer norms, and that attention of the last layer computes only the
# first token of each sequence.
evaluated="--config_name bert-base-uncased --dataset_name dummy --dummy_seq_length 64 --max_seq_length 64 --dummy_num_samples 176
  --per_device_eval_batch_size 88 --bf16_full_eval --device cuda:0 --debug_allocations
  --config_overrides num_hidden_layers=2,hidden_size=768,num_attention_heads=12,intermediate_size=768,vocab_size=512"
failed=0 parts=0 reported=0 names=()
# Prints the results of finished programs in the order of their start, up to the first unfinished one: one line on
# success, the last lines of the output on failure.
report() {
  local log status
  while [ "$reported" -lt "$parts" ] && [ -f "$out/$((reported + 1)).status" ]; do
    reported=$((reported + 1))
    log=$out/$reported.log status=$(cat "$out/$reported.status")
    if [ "$status" -eq 0 ]; then
      echo "${names[$reported]}: clean"
    else
      echo "${names[$reported]}: exit code $status"
      failed=1
      grep '=========' "$log" | head -40
      tail -5 "$log"
    fi
    rm -f "$log"
  done
}
# Runs one program under one tool as soon as fewer than SANITIZE_JOBS are running. Its output folder is
# $out/N.
check() {
  local tool=$1 name=$2 part
  shift 2
  while [ "$(jobs -rp | wc -l)" -ge "${SANITIZE_JOBS:-1}" ]; do
    wait -n
    report
  done
  parts=$((parts + 1)) part=$parts
  names[part]="$tool: $name"
  (
    compute-sanitizer --tool "$tool" --error-exitcode 9 "$@" >"$out/$part.log" 2>&1
    echo $? >"$out/$part.ended"
    rm -rf "${out:?}/$part"
    mv "$out/$part.ended" "$out/$part.status"
  ) &
}
# Returns the output folder of the next call of check().
next() { echo "$out/$((parts + 1))"; }

# Racecheck checks all kernels, including those of cuBLASLt (nvjet). If a filter excludes them, racecheck itself fails at the
# first of these kernels.
for tool in "${tools[@]}"; do
  for options in "" "--tf32 True" "--tf32 True --chunked_loss always --optim adamw_8bit" "--optim sgd" \
    "--bf16" "--gradient_accumulation_steps 2 --bf16" "--fp16"; do
    # shellcheck disable=SC2086
    check "$tool" "train ${options:-in fp32}" "$plimsoll" train $small $options --output_dir "$(next)"
  done
  # shellcheck disable=SC2086
  check "$tool" "eval --bf16_full_eval" "$plimsoll" eval $evaluated --output_dir "$(next)"
  # Initcheck finds nothing in these tests: all their buffers are filled with NaNs at the start, so a read of an element
  # that was not computed gives a NaN in the result.
  [ "$tool" = initcheck ] && continue
  for test in attention attention_first_token element_wise embedding layer_norm loss matmul optimizer quantization; do
    # The tools slow down every allocation, so the test with thousands of allocations (MoreTensorsThanALaunch) is left out.
    # Racecheck also slows down every access to shared memory. It therefore runs the tests whose names contain Small instead
    # of those with many shapes, and leaves out the largest tests of attention.
    filter=-*MoreTensorsThanALaunch*
    if [ "$tool" = racecheck ]; then
      case $test in
        element_wise | layer_norm) filter=*Small* ;;
        attention) filter=-*FamiliesAgreeAtFullSize*:*DropoutOfLongSequences* ;;
      esac
    fi
    binary=$(program kernels_${test}_cuda_test)
    [ -x "$binary" ] && check "$tool" "kernels_${test}_cuda_test" "$binary" "--gtest_filter=$filter"
  done
done
wait
report
exit $failed
