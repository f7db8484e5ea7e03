#include "plimsoll/run_commands.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "arguments/argument_table.h"
#include "base/check.h"

namespace plimsoll {
namespace {

using Names = std::span<const std::string_view>;

// Settings that only training uses. The settings in the groups "learning rate and schedule" and "saving and resuming"
// belong to them too, but are not listed here.
constexpr std::string_view kTrainingOnly[] = {
    "train_file",
    "max_train_samples",
    "validation_split_percentage",
    "do_train",
    "per_device_train_batch_size",
    "train_batch_size",
    "num_train_epochs",
    "max_steps",
    "data_seed",
    "run_name",
    "optim",
    "optim_args",
    "weight_decay",
    "adam_beta1",
    "adam_beta2",
    "adam_epsilon",
    "gradient_accumulation_steps",
    "max_grad_norm",
    "freeze",
    "lora_r",
    "lora_alpha",
    "lora_dropout",
    "lora_target_modules",
    "exclude_modules",
    "layers_to_transform",
    "modules_to_save",
    "lora_bias",
    "use_rslora",
    "gradient_dtype",
    "gradient_checkpointing",
    "activation_checkpointing",
    "recompute",
    "recompute_budget",
    "optimizer_in_backward",
    "offload_optimizer",
    "offload_activations",
    "train_sampling_strategy",
    "dataloader_drop_last",
    "dataloader_num_workers",
    "dataloader_prefetch_factor",
    "logging_strategy",
    "logging_steps",
    "logging_first_step",
    "include_num_input_tokens_seen",
    "profile",
    "html",
    "trace",
    "eval_strategy",
    "eval_steps",
    "eval_delay",
    "eval_on_start",
    "load_best_model_at_end",
    "metric_for_best_model",
    "greater_is_better",
    "early_stopping_patience",
    "early_stopping_threshold",
    "async_save",
    "nproc_per_node",
    "nnodes",
    "tp_size",
    "sequence_parallel",
    "cp_size",
    "pp_size",
    "pipeline_schedule",
    "pp_chunks",
    "zero_stage",
    "data_parallel_mode",
    "stage3_param_persistence_threshold",
    "reshard_after_forward",
    "fsdp",
    "fsdp_config",
    "parallelism_config",
    "ddp_bucket_cap_mb",
    "ddp_backend",
    "ddp_timeout",
    "max_restarts",
    "link_calibration",
};

// Settings that evaluation uses in addition to those of prediction.
constexpr std::string_view kEvaluationOnly[] = {
    "validation_file", "max_eval_samples",    "do_eval", "label_smoothing_factor", "prediction_loss_only",
    "report_to",       "skip_memory_metrics", "stride",
};

// Settings that do not affect a plan, because no size and no operation depends on them or because they concern only the
// execution of a run.
constexpr std::string_view kNotPlanned[] = {
    "run_name",
    "dry_run",
    "weight_decay",
    "adam_beta1",
    "adam_beta2",
    "adam_epsilon",
    "logging_strategy",
    "logging_steps",
    "logging_first_step",
    "log_level",
    "quiet",
    "event_fd",
    "event_replies",
    "save_logits",
    "scores",
    "include_num_input_tokens_seen",
    "disable_tqdm",
    "skip_memory_metrics",
    "report_to",
    "logging_dir",
    "profile",
    "eval_steps",
    "eval_delay",
    "eval_on_start",
    "prediction_loss_only",
    "load_best_model_at_end",
    "metric_for_best_model",
    "greater_is_better",
    "early_stopping_patience",
    "early_stopping_threshold",
    "save_strategy",
    "save_steps",
    "save_total_limit",
    "save_only_model",
    "replace_checkpoints",
    "ignore_data_skip",
    "ddp_timeout",
    "max_restarts",
};

bool has(Names names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Checks that all names in the lists above are names of settings. A misspelled name would otherwise be ignored, and every
// command would be considered to use the setting that was meant.
bool names_exist() {
  for (const Names names : {Names(kTrainingOnly), Names(kEvaluationOnly), Names(kNotPlanned)}) {
    for (std::string_view name : names)
      PLIMSOLL_CHECK(find_setting(name) != nullptr,
                     "the settings of a command include {}, which arguments.inc does not declare", name);
  }
  return true;
}

// Settings that text generation uses although the help lists them in other groups.
constexpr std::string_view kGenerationToo[] = {"seed",
                                               "per_device_eval_batch_size",
                                               "output_dir",
                                               "device",
                                               "use_cpu",
                                               "no_cuda",
                                               "num_threads",
                                               "quiet",
                                               "log_level",
                                               "memory_limit",
                                               "dry_run",
                                               "json",
                                               "html",
                                               "trace",
                                               "bf16",
                                               "fp16",
                                               "bf16_full_eval",
                                               "fp16_full_eval",
                                               "tf32",
                                               "why",
                                               "modules",
                                               "matmul_workspace",
                                               "disable_pass",
                                               "matmul_precision",
                                               "weight_copies",
                                               "dataset_name",
                                               "dummy_num_samples",
                                               "dummy_seq_length",
                                               "chat_template"};

bool is_generation(const ArgumentInfo& info) {
  const bool is_model =
      info.group == ArgumentGroup::kModel && info.name != "num_labels" && info.name != "problem_type";
  return is_model || info.name == "adapter_name_or_path" || has(kGenerationToo, info.name);
}

bool is_used(RunCommand command, const ArgumentInfo& info) {
  static const bool checked = names_exist();
  static_cast<void>(checked);
  if (info.group == ArgumentGroup::kGeneration) return command == RunCommand::kGenerate;
  switch (command) {
    case RunCommand::kTrain:
      return true;
    case RunCommand::kGenerate:
      return is_generation(info);
    case RunCommand::kPlan:
      return info.group != ArgumentGroup::kSchedule && !has(kNotPlanned, info.name);
    case RunCommand::kEvaluate:
    case RunCommand::kPredict:
      break;
  }
  if (info.group == ArgumentGroup::kSchedule || info.group == ArgumentGroup::kSaving) return false;
  if (has(kTrainingOnly, info.name)) return false;
  return command == RunCommand::kEvaluate || !has(kEvaluationOnly, info.name);
}

std::string describe_other_commands(RunCommand command) {
  if (command == RunCommand::kPlan)
    return "\nAll other arguments of train are accepted but do not change a plan (train --help).\n";
  return fmt::format(
      "\nAll other arguments of train are accepted, with a note that they have no effect on {} (train "
      "--help).\n",
      to_string(command));
}

}  // namespace

std::string_view to_string(RunCommand command) {
  constexpr std::array<std::string_view, 5> kNames = {"train", "plan", "eval", "predict", "generate"};
  return kNames[static_cast<size_t>(command)];
}

bool is_used_by(RunCommand command, std::string_view name) {
  const Setting* setting = find_setting(name);
  if (setting == nullptr)
    throw_error(ErrorCode::kUsage, "{}: unknown setting{}", name, did_you_mean_setting(name));
  return is_used(command, setting->info);
}

std::string command_help(RunCommand command, std::string_view topic) {
  if (command == RunCommand::kTrain || topic == "all" || is_setting_topic(topic))
    return arguments_help(topic);
  const std::string text =
      help_of(topic, [command](const ArgumentInfo& info) { return is_used(command, info); });
  return text + describe_other_commands(command);
}

void refuse_unused_files(RunCommand command, const ParseResult& parsed) {
  for (const std::string& name : parsed.on_command_line) {
    const Setting* setting = find_setting(name);
    const bool is_path =
        setting != nullptr && (setting->info.unit == "file" || setting->info.unit == "folder");
    if (!is_path || is_used(command, setting->info)) continue;
    std::string others;
    for (const RunCommand other :
         {RunCommand::kTrain, RunCommand::kEvaluate, RunCommand::kPredict, RunCommand::kGenerate}) {
      if (is_used(other, setting->info))
        others += fmt::format("{}{}", others.empty() ? "" : " and ", to_string(other));
    }
    throw_error(ErrorCode::kUsage, "{} does not read --{} {}; {} {}. Omit it", to_string(command), name,
                format_argument(parsed.arguments, name), others,
                others.find(' ') == std::string::npos ? "does" : "do");
  }
}

std::string unused_note(RunCommand command, const std::set<std::string>& given) {
  std::vector<std::string> unused;
  for (const std::string& name : given) {
    const Setting* setting = find_setting(name);
    // Settings that this version does not use or refuses are skipped, because resolve_arguments() has already reported
    // them.
    const bool is_here = setting != nullptr && setting->info.status == ArgumentStatus::kImplemented;
    // report_to is skipped, because scripts pass it to every command to disable trackers.
    if (!is_here || name == "report_to") continue;
    // A plan accepts the arguments of training, evaluation and prediction, because it may be made for a run of any of
    // these. Settings of text generation are reported as unused, because this plan does not contain the phase in which
    // texts are generated.
    const bool is_noted = command == RunCommand::kPlan ? setting->info.group == ArgumentGroup::kGeneration
                                                       : !is_used(command, setting->info);
    if (is_noted) unused.push_back("--" + name);
  }
  if (unused.empty()) return {};
  return fmt::format("{} {} no effect here: {}", fmt::join(unused, ", "), unused.size() == 1 ? "has" : "have",
                     command == RunCommand::kTrain  ? "train does not generate texts"
                     : command == RunCommand::kPlan ? "plan --phase generate plans runs that generate texts"
                     : command == RunCommand::kEvaluate ? "eval does not train"
                     : command == RunCommand::kPredict ? "a run that only predicts does not train or evaluate"
                                                       : "generate only continues texts");
}

}  // namespace plimsoll
