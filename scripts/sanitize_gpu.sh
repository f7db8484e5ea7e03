#!/bin/bash
# The small-model suite under NVIDIA's compute-sanitizer on the GPU at hand: accesses beyond a buffer (memcheck), hazards in
# shared memory (racecheck), reads of what nobody wrote (initcheck). Every buffer of the plan has a block of memory of its own
# (--debug_allocations): in one arena a neighbour's bytes look like one's own.
#
#   scripts/sanitize_gpu.sh [memcheck|racecheck|initcheck ...]     default: all three
#
# Programs come from build/, or from the folder in PLIMSOLL_BIN, where all of them lie side by side. Exit code 1 if a tool
# reports an error, 2 where there is no GPU, no compute-sanitizer or no program.
set -uo pipefail
tools=("$@")
[ ${#tools[@]} -gt 0 ] || tools=(memcheck racecheck initcheck)
command -v compute-sanitizer >/dev/null || { echo "sanitize_gpu: compute-sanitizer is not on the PATH; the CUDA toolkit has it" >&2; exit 2; }
nvidia-smi -L >/dev/null 2>&1 || { echo "sanitize_gpu: no NVIDIA GPU is visible here" >&2; exit 2; }
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
failed=0
# One program under one tool: its last lines on failure, one line where all is well.
check() {
  local tool=$1 name=$2
  shift 2
  if compute-sanitizer --tool "$tool" --error-exitcode 9 "$@" >"$out/log" 2>&1; then
    echo "$tool: $name: clean"
  else
    echo "$tool: $name: exit code $?"
    failed=1
    grep '=========' "$out/log" | head -40
    tail -5 "$out/log"
  fi
}
# Racecheck takes no filter of kernels: with cuBLASLt's own ones (nvjet) left out, it breaks down at the first of them.
for tool in "${tools[@]}"; do
  for options in "" "--tf32 True" "--tf32 True --chunked_loss always --optim adamw_8bit" "--optim sgd" \
    "--bf16" "--gradient_accumulation_steps 2 --bf16" "--fp16"; do
    # shellcheck disable=SC2086
    check "$tool" "train ${options:-in fp32}" "$plimsoll" train $small $options --output_dir "$out/run"
    rm -rf "$out/run"
  done
  [ "$tool" = initcheck ] && continue
  for test in attention attention_first_token element_wise embedding layer_norm loss matmul optimizer quantization; do
    # Under a tool each of some thousand allocations costs its time, and under racecheck every access to shared memory: there
    # tests named Small stand for the sweeps over shapes, and for element-wise kernels without shared memory.
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
exit $failed
