// The table of pairs of settings that exclude each other. resolve_arguments() refuses what a row excludes, and the JSON
// Schema of settings files (settings_schema.cc) states the same rows, so that an editor marks them.
#include <algorithm>
#include <array>

#include "arguments/argument_table.h"
#include "arguments/value.h"
#include "base/check.h"

namespace plimsoll {
namespace {

using Is = StateKind;

// Error messages, in which the two settings with their values replace {0} and {1}.
constexpr std::string_view kEachOther = "{0} and {1} exclude each other; give one of them";
constexpr std::string_view kFullRecompute =
    "{0} means --recompute full, and {1} excludes it; give one of them";
constexpr std::string_view kNeedsPass = "{1} disables the pass that {0} needs; give one of them";
constexpr std::string_view kBudget = "{0} and {1} both choose what is recomputed; give one of them";
constexpr std::string_view kNeedsEvaluation = "{0} needs evaluations: give --eval_strategy steps or epoch";

constexpr std::array kExclusions = {
    Exclusion{{"fp16", Is::kTrue}, {"bf16", Is::kTrue}, kEachOther},
    Exclusion{{"fp16_full_eval", Is::kTrue}, {"bf16_full_eval", Is::kTrue}, kEachOther},
    Exclusion{{"use_cpu", Is::kTrue}, {"device", Is::kNoneOf, "auto|cpu"}, kEachOther},
    Exclusion{{"dataloader_prefetch_factor", Is::kGiven},
              {"dataloader_num_workers", Is::kOneOf, "0"},
              "{0} needs --dataloader_num_workers above 0, but it is 0"},
    Exclusion{{"gradient_checkpointing", Is::kTrue},
              {"activation_checkpointing", Is::kFalse},
              "{0} True and {1} are two names of one setting; give one of them"},
    Exclusion{{"gradient_checkpointing", Is::kFalse},
              {"activation_checkpointing", Is::kTrue},
              "{0} and {1} True are two names of one setting; give one of them"},
    Exclusion{{"gradient_checkpointing", Is::kTrue}, {"recompute", Is::kNoneOf, "auto|full"}, kFullRecompute},
    Exclusion{
        {"activation_checkpointing", Is::kTrue}, {"recompute", Is::kNoneOf, "auto|full"}, kFullRecompute},
    Exclusion{{"gradient_checkpointing", Is::kFalse}, {"recompute", Is::kOneOf, "full"}, kEachOther},
    Exclusion{{"activation_checkpointing", Is::kFalse}, {"recompute", Is::kOneOf, "full"}, kEachOther},
    Exclusion{{"recompute_budget", Is::kGiven}, {"disable_pass", Is::kContains, "recompute"}, kNeedsPass},
    Exclusion{
        {"gradient_checkpointing", Is::kTrue}, {"disable_pass", Is::kContains, "recompute"}, kNeedsPass},
    Exclusion{
        {"activation_checkpointing", Is::kTrue}, {"disable_pass", Is::kContains, "recompute"}, kNeedsPass},
    Exclusion{
        {"recompute", Is::kNoneOf, "auto|none"}, {"disable_pass", Is::kContains, "recompute"}, kNeedsPass},
    Exclusion{{"recompute_budget", Is::kGiven},
              {"offload_activations", Is::kTrue},
              "--recompute_budget chooses which activations stay on the card, but --offload_activations "
              "moves them to the "
              "host; give one of them, or combine --recompute full with --offload_activations"},
    Exclusion{{"recompute_budget", Is::kGiven}, {"gradient_checkpointing", Is::kTrue}, kBudget},
    Exclusion{{"recompute_budget", Is::kGiven}, {"activation_checkpointing", Is::kTrue}, kBudget},
    Exclusion{{"recompute_budget", Is::kGiven}, {"recompute", Is::kNoneOf, "auto"}, kBudget},
    Exclusion{
        {"chunked_loss", Is::kOneOf, "always"}, {"disable_pass", Is::kContains, "chunked_loss"}, kNeedsPass},
    Exclusion{{"optimizer_in_backward", Is::kTrue},
              {"max_grad_norm", Is::kNoneOf, "0"},
              "--optimizer_in_backward updates weights before all gradients are known, so it cannot clip "
              "them to {1}; give "
              "--max_grad_norm 0"},
    Exclusion{
        {"optimizer_in_backward", Is::kTrue},
        {"gradient_accumulation_steps", Is::kNoneOf, "1"},
        "--optimizer_in_backward frees each gradient after its use, but {1} must keep it; give one of them"},
    Exclusion{{"optimizer_in_backward", Is::kTrue},
              {"fp16", Is::kTrue},
              "--optimizer_in_backward updates weights before it is known whether a step's loss scale was "
              "too large, which "
              "--fp16 needs; give --bf16 instead of it"},
    Exclusion{{"max_restarts", Is::kNoneOf, "0"},
              {"save_only_model", Is::kTrue},
              "{0} lets a run resume from its last checkpoint, which {1} makes impossible; give one of them"},
    Exclusion{
        {"zero_stage", Is::kOneOf, "1|2|3"},
        {"optim", Is::kOneOf, "adafactor"},
        "{0} divides states with one number per element of a weight, but those of {1} are sums over rows and "
        "columns; give --optim adamw_8bit, or leave --zero_stage out"},
    Exclusion{{"zero_stage", Is::kOneOf, "1|2|3"},
              {"optimizer_in_backward", Is::kTrue},
              "{0} sums all gradients before the update, but {1} does not wait for them; give one of them"},
    Exclusion{
        {"zero_stage", Is::kOneOf, "1|2|3"},
        {"offload_optimizer", Is::kTrue},
        "{0} keeps the optimizer's states on the device, but {1} stores them in host memory; give one of "
        "them"},
    Exclusion{{"reshard_after_forward", Is::kOneOf, "False"},
              {"zero_stage", Is::kNoneOf, "3"},
              "{0} keeps weights that the processes gather for the forward pass, which only --zero_stage 3 "
              "does; give --zero_stage 3, or leave {0} out"},
    Exclusion{
        {"data_parallel_mode", Is::kOneOf, "dp"},
        {"zero_stage", Is::kOneOf, "1|2|3"},
        "{0} keeps all states of the optimizer on the first process, and {1} divides them; give one of them"},
    Exclusion{{"data_parallel_mode", Is::kOneOf, "dp"},
              {"tp_size", Is::kNoneOf, "1"},
              "{0} updates whole weights on the first process, and {1} divides them; give one of them"},
    Exclusion{
        {"data_parallel_mode", Is::kOneOf, "dp"},
        {"optim", Is::kOneOf, "adafactor"},
        "{0} needs optimizer states with one number per element of a weight, but those of {1} are sums over "
        "rows and columns; give --optim adamw_torch, or leave --data_parallel_mode out"},
    Exclusion{{"data_parallel_mode", Is::kOneOf, "dp"},
              {"optimizer_in_backward", Is::kTrue},
              "{0} sums all gradients before the update, but {1} does not wait for them; give one of them"},
    Exclusion{{"data_parallel_mode", Is::kOneOf, "dp"},
              {"offload_optimizer", Is::kTrue},
              "{0} keeps the optimizer's states on the device, but {1} stores them in host memory; give one "
              "of them"},
    Exclusion{
        {"zero_stage", Is::kOneOf, "1|2|3"},
        {"offload_optimizer", Is::kNoneOf, "False|True"},
        "{0} keeps the optimizer's states on the device, but {1} stores them on a disk; give one of them"},
    Exclusion{
        {"tp_size", Is::kNoneOf, "1"},
        {"optimizer_in_backward", Is::kTrue},
        "{0} needs the norm of the gradients of all processes before the update, but {1} does not wait for "
        "it; give one of them"},
    Exclusion{
        {"sequence_parallel", Is::kTrue},
        {"tp_size", Is::kOneOf, "1"},
        "{0} divides the rows of activations among the processes that divide the layers, but with {1} no "
        "processes do; give a --tp_size above 1, or leave {0} out"},
    Exclusion{{"cp_size", Is::kNoneOf, "1"},
              {"tp_size", Is::kNoneOf, "1"},
              "{0} divides the rows of activations between processes with whole weights, and {1} divides the "
              "weights; give one of them, or --sequence_parallel with {1}"},
    Exclusion{{"cp_size", Is::kNoneOf, "1"},
              {"optimizer_in_backward", Is::kTrue},
              "{0} sums the gradients of the processes before the update, but {1} does not wait for them; "
              "give one of them"},
    Exclusion{{"data_parallel_mode", Is::kOneOf, "dp"},
              {"cp_size", Is::kNoneOf, "1"},
              "{0} is for processes that read different batches, but those of {1} read the same ones; give "
              "one of them"},
    Exclusion{
        {"pp_size", Is::kNoneOf, "1"},
        {"async_save", Is::kTrue},
        "the stages of {0} write different parts of a checkpoint, which {1} does not copy in this version; "
        "give one of them"},
    Exclusion{
        {"pp_size", Is::kNoneOf, "1"},
        {"zero_stage", Is::kOneOf, "2|3"},
        "a stage of {0} runs several micro-batches at a time, for each of which {1} would exchange gradients "
        "or weights; give --zero_stage 1, which divides the states of the optimizer"},
    Exclusion{{"pp_size", Is::kNoneOf, "1"},
              {"optimizer_in_backward", Is::kTrue},
              "{0} needs the norm of the gradients of all stages before the update, but {1} does not wait "
              "for it; give "
              "one of them"},
    Exclusion{
        {"deepspeed", Is::kGiven},
        {"fsdp", Is::kGiven},
        "--deepspeed and --fsdp exclude each other: both state what the ranks divide; give one of them"},
    Exclusion{{"quiet", Is::kTrue},
              {"log_level", Is::kNoneOf, "passive|warning"},
              "{0} means --log_level warning, and {1} excludes it; give one of them"},
    Exclusion{{"dataset_name", Is::kOneOf, "dummy"}, {"task_name", Is::kGiven}, kEachOther},
    Exclusion{{"stride", Is::kGiven}, {"packing", Is::kTrue}, kEachOther},
    Exclusion{{"dataset_name", Is::kGiven}, {"train_file", Is::kGiven}, kEachOther},
    Exclusion{{"dataset_name", Is::kOneOf, "dummy"}, {"validation_file", Is::kGiven}, kEachOther},
    Exclusion{{"dataset_name", Is::kOneOf, "dummy"}, {"test_file", Is::kGiven}, kEachOther},
    Exclusion{{"load_in_4bit", Is::kTrue}, {"load_in_8bit", Is::kTrue}, kEachOther},
    Exclusion{{"lr_scheduler_type", Is::kOneOf, "reduce_lr_on_plateau|greedy"},
              {"eval_strategy", Is::kOneOf, "no"},
              kNeedsEvaluation},
    Exclusion{{"save_strategy", Is::kOneOf, "best"}, {"eval_strategy", Is::kOneOf, "no"}, kNeedsEvaluation},
    Exclusion{{"early_stopping_patience", Is::kGiven}, {"eval_strategy", Is::kOneOf, "no"}, kNeedsEvaluation},
    Exclusion{{"line_by_line", Is::kTrue},
              {"packing", Is::kTrue},
              "{0} makes each line a row, and {1} packs several into one; give one of them"},
    Exclusion{{"line_by_line", Is::kTrue},
              {"problem_type", Is::kOneOf, "causal_lm"},
              "{0} is for --problem_type masked_lm, not for {1}; use --packing, which keeps documents apart"},
};

bool is_one_of(std::string_view value, std::string_view choices) {
  const std::vector<std::string_view> words = split_choices(choices);
  return std::ranges::find(words, value) != words.end();
}

const Setting& setting_of(const SettingState& state) {
  const Setting* setting = find_setting(state.setting);
  PLIMSOLL_CHECK(setting != nullptr,
                 "a rule about exclusive settings names {}, which arguments.inc does not declare",
                 state.setting);
  return *setting;
}

// Returns the setting for a message as the user gave it: "--fp16", "--recompute full". The value of a setting in bytes is
// omitted, because the same size can be written in many ways (1GiB, 1024MiB).
std::string described(const SettingState& state, const std::string& value) {
  if (state.kind == StateKind::kTrue || setting_of(state).info.unit == "bytes")
    return fmt::format("--{}", state.setting);
  return fmt::format("--{} {}", state.setting, state.kind == StateKind::kContains ? state.values : value);
}

}  // namespace

std::span<const Exclusion> exclusions() {
  return kExclusions;
}

bool holds(const Arguments& arguments, const SettingState& state) {
  const Setting& setting = setting_of(state);
  const std::string value = format_value(arguments, setting);
  switch (state.kind) {
    case StateKind::kTrue:
      return value == "True";
    case StateKind::kFalse:
      return value == "False";
    case StateKind::kGiven:
      return !value.empty();
    case StateKind::kOneOf:
      return is_one_of(value, state.values);
    case StateKind::kNoneOf:
      return !is_one_of(value, state.values);
    case StateKind::kContains:
      return std::ranges::find(arguments.*std::get<StringList Arguments::*>(setting.member), state.values) !=
             (arguments.*std::get<StringList Arguments::*>(setting.member)).end();
  }
  PLIMSOLL_CHECK(false, "a rule about exclusive settings has the unknown StateKind {}",
                 static_cast<int>(state.kind));
}

void check_exclusion(const Arguments& arguments, const Exclusion& row) {
  if (!holds(arguments, row.first) || !holds(arguments, row.second)) return;
  const std::string first = format_value(arguments, setting_of(row.first));
  const std::string second = format_value(arguments, setting_of(row.second));
  throw Error(ErrorCode::kUsage, fmt::format(fmt::runtime(row.message), described(row.first, first),
                                             described(row.second, second)));
}

void check_exclusions(const Arguments& arguments) {
  for (const Exclusion& row : kExclusions) check_exclusion(arguments, row);
}

}  // namespace plimsoll
