// Rules between settings: contradictions, settings that this version refuses, and defaults that depend on
// other settings.
#include <algorithm>
#include <cmath>

#include "arguments/argument_table.h"
#include "arguments/foreign_config.h"
#include "arguments/value.h"
#include "base/check.h"
#include "base/optimizer_table.h"
#include "base/problem_type.h"

namespace plimsoll {
namespace {

// Returns true if the setting has its default value or is False, so that it requests nothing. If this version does not
// support the setting, such a value causes neither an error nor a note.
bool is_inert(const Arguments& arguments, const Setting& setting) {
  if (is_default(arguments, setting)) return true;
  const auto* flag = std::get_if<std::optional<bool> Arguments::*>(&setting.member);
  return flag != nullptr && arguments.**flag == false;
}

void check_budget(const Arguments& a) {
  if (a.recompute_budget && a.memory_limit && *a.memory_limit < *a.recompute_budget) {
    throw_error(ErrorCode::kUsage,
                "--recompute_budget {} is more than --memory_limit {} allows; give a budget of at most that",
                *a.recompute_budget, *a.memory_limit);
  }
}

void check_output(const Arguments& a) {
  if (a.output_dir.empty())
    throw_error(ErrorCode::kUsage,
                "--output_dir is empty; name a folder, or leave it out for trainer_output");
}

// Checks that the data comes from one source only: a named data set, or files.
void check_data(const Arguments& a) {
  if (a.dataset_name.empty()) return;
  const bool is_dummy = a.dataset_name == "dummy";
  if (!is_dummy && a.task_name.empty()) {
    throw_error(
        ErrorCode::kUsage,
        "--dataset_name {}: data sets are not downloaded; give --train_file FILE, or --task_name TASK for "
        "a folder with GLUE's files",
        a.dataset_name);
  }
  if (!is_dummy && is_tagging_task(a.task_name)) {
    throw_error(ErrorCode::kUsage,
                "--dataset_name {}: --task_name {} reads files of words and tags; give --train_file FILE",
                a.dataset_name, a.task_name);
  }
}

void check_optimizer(const Arguments& a) {
  const OptimizerName* row = find_optimizer_name(a.optim);
  if (row != nullptr && row->is_here()) return;
  if (row != nullptr) {
    throw_error(ErrorCode::kUsage, "--optim {}: {}; the nearest is --optim {}", a.optim, row->reason,
                row->nearest);
  }
  std::vector<std::string_view> names;
  for (const OptimizerName& other : optimizer_names()) {
    if (other.is_here()) names.push_back(other.name);
  }
  throw_error(ErrorCode::kUsage, "--optim: '{}' is not one of {}{}", a.optim, fmt::join(names, ", "),
              did_you_mean(a.optim, names));
}

bool means_no_value(std::string_view text) {
  return text.empty() || text == "None" || text == "null";
}

void check_offload(const Arguments& a) {
  const std::string& value = a.offload_optimizer;
  if (means_no_value(value) || bool_from_text(value) || !nvme_folder(a).empty()) return;
  if (value == "nvme:" || value == "nvme") {
    throw_error(ErrorCode::kUsage,
                "--offload_optimizer {}: no folder is named; write nvme:/path/to/a/folder, on a disk with "
                "room for the "
                "optimizer's states",
                value);
  }
  throw_error(ErrorCode::kUsage, "--offload_optimizer {}: expected True, False or nvme:FOLDER{}", value,
              value == "cpu" || value == "host" ? "; True keeps the states in host memory" : "");
}

void check_device(const Arguments& a) {
  if (a.device.empty()) throw_error(ErrorCode::kUsage, "--device is empty; give auto, cpu or cuda:0");
  if (!a.device.starts_with("cuda")) return;
  const std::string_view rest = std::string_view(a.device).substr(4);
  const bool is_number = rest.size() >= 2 && rest.size() <= 5 && rest[0] == ':' &&
                         std::ranges::all_of(rest.substr(1), [](char c) { return c >= '0' && c <= '9'; });
  if (!rest.empty() && !is_number) {
    throw_error(ErrorCode::kUsage, "--device: expected cuda or cuda:N, got '{}'", a.device);
  }
}

void refuse_what_is_not_here(const Arguments& arguments) {
  for (const Setting& setting : settings()) {
    if (setting.info.status == ArgumentStatus::kRefused && !is_inert(arguments, setting)) {
      throw_error(ErrorCode::kUsage, "--{} {}: {}", setting.info.name, format_value(arguments, setting),
                  setting.info.note);
    }
  }
}

void check_interval_setting(std::string_view name, double steps, std::string_view strategy_name) {
  if (steps == 0.0) {
    throw_error(ErrorCode::kUsage, "--{} is 0, but --{} steps needs a value above 0; --{} no disables it",
                name, strategy_name, strategy_name);
  }
  if (steps > 1.0 && steps != std::floor(steps)) {
    throw_error(
        ErrorCode::kUsage,
        "--{} {}: a number of steps above 1 must be an integer; a value below 1 is a fraction of all steps",
        name, steps);
  }
}

void resolve_strategies(Arguments& a) {
  // The value that Trainer uses if --logging_steps or --eval_steps is not set. Plimsoll uses it for --eval_steps only;
  // see logging_interval() for --logging_steps.
  constexpr double kTrainersInterval = 500.0;
  if (a.eval_strategy == "steps" && a.eval_steps.value_or(0.0) == 0.0) {
    if (a.logging_steps == 0.0) {
      throw_error(ErrorCode::kUsage, "--eval_strategy steps needs --eval_steps or --logging_steps above 0");
    }
    a.eval_steps = a.logging_steps.value_or(kTrainersInterval);
  }
  if (a.eval_strategy != "no" || !a.validation_file.empty() || a.validation_split_percentage)
    a.do_eval = true;
  if (!a.test_file.empty()) a.do_predict = true;
  if (a.logging_strategy == "steps")
    check_interval_setting("logging_steps", logging_interval(a), "logging_strategy");
  if (a.eval_strategy == "steps") check_interval_setting("eval_steps", *a.eval_steps, "eval_strategy");
  if (a.save_strategy == "steps") check_interval_setting("save_steps", a.save_steps, "save_strategy");
  if (a.warmup_steps > 1.0 && a.warmup_steps != std::floor(a.warmup_steps)) {
    throw_error(ErrorCode::kUsage,
                "--warmup_steps {}: a number of steps above 1 must be an integer; a value below 1 is a "
                "fraction of all steps",
                a.warmup_steps);
  }
}

// Returns true if a setting requires evaluations during training.
bool needs_evaluation(const Arguments& a) {
  return a.lr_scheduler_type == "reduce_lr_on_plateau" || a.lr_scheduler_type == "greedy" ||
         a.save_strategy == "best" || a.early_stopping_patience.has_value();
}

void check_best_model(const Arguments& a) {
  if (!a.load_best_model_at_end || a.save_strategy == "best") return;
  if (a.eval_strategy != a.save_strategy) {
    throw_error(ErrorCode::kUsage,
                "--load_best_model_at_end needs equal strategies, but --eval_strategy is {} and "
                "--save_strategy is {}; give both the same value",
                a.eval_strategy, a.save_strategy);
  }
  if (a.eval_strategy != "steps") return;
  const double eval_steps = *a.eval_steps;
  // If both intervals are fractions of all steps, both are multiplied by a million before the remainder is computed. Trainer does the same
  // against rounding errors, so the same values are accepted.
  const bool are_shares = eval_steps < 1.0 && a.save_steps < 1.0;
  const bool is_mixed = !are_shares && (eval_steps < 1.0 || a.save_steps < 1.0);
  const double scale = are_shares ? 1e6 : 1.0;
  if (is_mixed || std::fmod(a.save_steps * scale, eval_steps * scale) != 0.0) {
    throw_error(ErrorCode::kUsage,
                "--load_best_model_at_end needs --save_steps to be a multiple of --eval_steps, but {} is not "
                "a multiple of {}{}; change one of them",
                a.save_steps, eval_steps,
                is_mixed ? " (one is a fraction of all steps, the other a number)" : "");
  }
}

void resolve_metric(Arguments& a) {
  const bool is_needed = a.load_best_model_at_end || needs_evaluation(a);
  if (is_needed && a.metric_for_best_model.empty()) a.metric_for_best_model = "loss";
  if (!a.greater_is_better && !a.metric_for_best_model.empty()) {
    a.greater_is_better = !a.metric_for_best_model.ends_with("loss");
  }
}

void resolve_words(Arguments& a) {
  if (a.use_cpu) a.device = "cpu";
  if (a.gradient_checkpointing == true || a.activation_checkpointing == true) a.recompute = "full";
  if (a.device == "cuda") a.device = "cuda:0";
  if (a.report_to == StringList{"none"}) a.report_to.clear();
  if (means_no_value(a.offload_optimizer)) a.offload_optimizer = "False";
  if (const auto flag = bool_from_text(a.offload_optimizer)) a.offload_optimizer = *flag ? "True" : "False";
  if (const auto flag = bool_from_text(a.resume_from_checkpoint)) {
    a.resume_from_checkpoint = *flag ? "True" : "";
  } else if (a.resume_from_checkpoint == "None" || a.resume_from_checkpoint == "null") {
    a.resume_from_checkpoint.clear();
  }
}

// Returns the data type of the activations of the run, under the name that BitsAndBytesConfig uses.
std::string_view activation_type(const Arguments& a) {
  if (a.bf16 || a.dtype == "bfloat16") return "bfloat16";
  return a.fp16 ? "float16" : "float32";
}

// Checks the compute type of 4-bit weights, to which they are converted before a matrix product. It must be the type of
// the activations, because both operands of a product must have the same type.
void check_compute_type(const Arguments& a) {
  const std::string& wanted = a.bnb_4bit_compute_dtype;
  const std::string_view has = activation_type(a);
  if (!a.load_in_4bit || wanted == "auto" || wanted == has) return;
  const std::string_view makes_it = a.fp16                  ? "--fp16"
                                    : !a.bf16               ? "--dtype bfloat16"
                                    : a.dtype == "bfloat16" ? "--bf16 and --dtype bfloat16"
                                                            : "--bf16";
  const std::string_view flag = wanted == "float16" ? "--fp16" : "--bf16";
  const std::string advice = wanted == "float32" ? fmt::format("leave {} out", makes_it)
                             : has == "float32"  ? fmt::format("give {}", flag)
                                                 : fmt::format("give {} instead of {}", flag, makes_it);
  throw_error(ErrorCode::kUsage,
              "--bnb_4bit_compute_dtype {0}: matrix products are computed in the type of the activations, "
              "which is {1}; {2} for {0}, or leave --bnb_4bit_compute_dtype out",
              wanted, has, advice);
}

void check_layers(const Arguments& a) {
  for (const std::string& layer : a.layers_to_transform) {
    const bool is_number =
        layer.size() <= 6 && std::ranges::all_of(layer, [](char c) { return c >= '0' && c <= '9'; });
    if (!is_number) {
      throw_error(ErrorCode::kUsage,
                  "--layers_to_transform: expected indices of layers such as 0,1,2, got {}",
                  in_quotes(layer));
    }
  }
}

// Sets the LoRA rank if any setting of adapters is given without it; the default rank is that of PEFT.
void resolve_adapter(Arguments& a) {
  if (a.lora_bias != "none") {
    throw_error(ErrorCode::kUsage,
                "--lora_bias {}: this version does not train biases with adapters; use --modules_to_save to "
                "train complete modules including their biases",
                a.lora_bias);
  }
  const bool wants = a.lora_alpha || a.lora_dropout > 0.0 || !a.lora_target_modules.empty() ||
                     !a.exclude_modules.empty() || !a.layers_to_transform.empty() ||
                     !a.modules_to_save.empty() || a.use_rslora;
  if (wants && !a.lora_r && a.adapter_name_or_path.empty()) a.lora_r = 8;
  check_layers(a);
  check_compute_type(a);
}

std::vector<std::string> notes_of(const Arguments& arguments) {
  std::vector<std::string> notes;
  for (const Setting& setting : settings()) {
    if (setting.info.status == ArgumentStatus::kNoEffect && !is_inert(arguments, setting)) {
      notes.push_back(fmt::format("--{} has no effect here: {}", setting.info.name, setting.info.note));
    }
  }
  std::vector<std::string_view> other_trackers;
  for (const std::string& name : arguments.report_to) {
    if (name != "tensorboard" && name != "all") other_trackers.push_back(name);
  }
  if (!other_trackers.empty()) {
    notes.push_back(
        fmt::format("--report_to {} has no effect here: log.jsonl and plots are always written, and "
                    "--report_to tensorboard "
                    "writes events that other trackers can import",
                    fmt::join(other_trackers, ",")));
  }
  return notes;
}

}  // namespace

std::vector<std::string> resolve_arguments(Arguments& arguments) {
  std::vector<std::string> notes = replace_foreign_configs(arguments, nullptr).notes;
  std::string where;
  for (const Setting& setting : settings()) {
    where.assign("--").append(setting.info.name);
    check_range(arguments, setting, where);
  }
  check_data(arguments);
  check_exclusions(arguments);
  check_budget(arguments);
  check_output(arguments);
  check_optimizer(arguments);
  check_offload(arguments);
  check_device(arguments);
  refuse_what_is_not_here(arguments);
  resolve_words(arguments);
  resolve_strategies(arguments);
  check_best_model(arguments);
  resolve_metric(arguments);
  resolve_adapter(arguments);
  const std::vector<std::string> others = notes_of(arguments);
  notes.insert(notes.end(), others.begin(), others.end());
  return notes;
}

double logging_interval(const Arguments& arguments) {
  return arguments.logging_steps.value_or(0.05);
}

int64_t interval_steps(double setting, int64_t total_steps) {
  if (setting >= 1.0) return static_cast<int64_t>(setting);
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(setting * static_cast<double>(total_steps))));
}

int64_t num_warmup_steps(const Arguments& arguments, int64_t total_steps) {
  const double setting = arguments.warmup_steps;
  if (setting >= 1.0) return static_cast<int64_t>(setting);
  return static_cast<int64_t>(std::ceil(setting * static_cast<double>(total_steps)));
}

}  // namespace plimsoll
