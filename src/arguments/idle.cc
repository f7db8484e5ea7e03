#include "arguments/idle.h"

#include <fmt/format.h>

#include "arguments/argument_table.h"
#include "arguments/value.h"
#include "base/check.h"
#include "base/optimizer_names.h"

namespace plimsoll {
namespace {

// Returns the reason why a setting that differs from its default has no effect, or an empty string if it has
// one.
using Reason = std::string (*)(const Arguments& arguments);

struct IdleRule {
  std::string_view name;
  Reason reason;
};

std::string of_dummy(const Arguments& a) {
  return a.dataset_name == "dummy" ? "" : "it is of --dataset_name dummy, which is not given";
}

std::string of_four_bits(const Arguments& a) {
  return a.load_in_4bit ? "" : "it is of --load_in_4bit, which is not given";
}

std::string of_few_bits(const Arguments& a) {
  return a.load_in_4bit || a.load_in_8bit
             ? ""
             : "it is of --load_in_8bit and --load_in_4bit, neither of which is given";
}

std::string_view optimizer_of(const Arguments& a) {
  const OptimizerName* name = find_optimizer_name(a.optim);
  return name == nullptr ? std::string_view() : name->runs;
}

std::string of_betas(const Arguments& a) {
  const std::string_view runs = optimizer_of(a);
  if (runs.starts_with("adamw") || runs.starts_with("lion")) return {};
  return fmt::format("--optim {} has no betas; what it has is set with --optim_args", a.optim);
}

std::string of_epsilon(const Arguments& a) {
  if (optimizer_of(a).starts_with("adamw")) return {};
  return fmt::format("it is AdamW's, and --optim is {}", a.optim);
}

std::string of_warmup(const Arguments& a) {
  if (a.lr_scheduler_type == "constant")
    return "--lr_scheduler_type constant has no warm-up; constant_with_warmup has";
  if (a.lr_scheduler_type != "reduce_lr_on_plateau" && a.lr_scheduler_type != "greedy") return {};
  return fmt::format("--lr_scheduler_type {} has no warm-up", a.lr_scheduler_type);
}

std::string of_evaluations(const Arguments& a) {
  if (a.eval_strategy != "no") return {};
  return "nothing is evaluated while training: --eval_strategy steps or epoch does";
}

// The rules in the order of declaration. An interval of 0 disables the action, so it is not reported.
constexpr IdleRule kRules[] = {
    {"max_seq_length",
     [](const Arguments& a) -> std::string {
       if (a.dataset_name != "dummy" || a.max_seq_length == a.dummy_seq_length) return {};
       return fmt::format("the sequences of --dataset_name dummy have --dummy_seq_length, which is {}",
                          a.dummy_seq_length);
     }},
    {"max_eval_samples",
     [](const Arguments& a) -> std::string {
       return a.do_eval ? ""
                        : "nothing is evaluated: --do_eval does at the end, --eval_strategy while training";
     }},
    {"max_predict_samples",
     [](const Arguments& a) -> std::string {
       return a.do_predict ? "" : "nothing is predicted: --do_predict does";
     }},
    {"overwrite_cache",
     [](const Arguments& a) -> std::string {
       return a.cache_dir.empty() ? "tokens are kept nowhere: --cache_dir FOLDER says where" : "";
     }},
    {"dummy_num_samples", of_dummy},
    {"dummy_seq_length", of_dummy},
    {"num_train_epochs",
     [](const Arguments& a) -> std::string {
       return a.max_steps > 0 ? fmt::format("--max_steps {} says where the run ends", a.max_steps) : "";
     }},
    {"data_seed",
     [](const Arguments& a) -> std::string {
       return a.train_sampling_strategy == "sequential"
                  ? "with --train_sampling_strategy sequential the data comes in the order of the file"
                  : "";
     }},
    {"warmup_steps", of_warmup},
    {"adam_beta1", of_betas},
    {"adam_beta2", of_betas},
    {"adam_epsilon", of_epsilon},
    {"llm_int8_skip_modules", of_few_bits},
    {"bnb_4bit_quant_type", of_four_bits},
    {"bnb_4bit_use_double_quant", of_four_bits},
    {"bnb_4bit_compute_dtype", of_four_bits},
    {"logging_steps",
     [](const Arguments& a) -> std::string {
       // Evaluations without their own interval use this one.
       const bool paces_evaluations = a.eval_strategy == "steps" && a.eval_steps == a.logging_steps;
       if (a.logging_strategy == "steps" || a.logging_steps == 0.0 || paces_evaluations) return {};
       return fmt::format("--logging_strategy is {}; steps logs every so many", a.logging_strategy);
     }},
    {"eval_steps",
     [](const Arguments& a) -> std::string {
       if (a.eval_strategy == "steps") return {};
       return fmt::format("--eval_strategy is {}; steps evaluates every so many", a.eval_strategy);
     }},
    {"eval_delay", of_evaluations},
    {"eval_on_start",
     [](const Arguments& a) -> std::string {
       return a.do_eval ? "" : "no validation data is read: --do_eval or --eval_strategy does";
     }},
    {"metric_for_best_model", of_evaluations},
    {"greater_is_better",
     [](const Arguments& a) -> std::string {
       return a.metric_for_best_model.empty() ? "--metric_for_best_model is not given" : "";
     }},
    {"early_stopping_threshold",
     [](const Arguments& a) -> std::string {
       return a.early_stopping_patience ? "" : "--early_stopping_patience, which stops early, is not given";
     }},
    {"save_steps",
     [](const Arguments& a) -> std::string {
       if (a.save_strategy == "steps" || a.save_steps == 0.0) return {};
       return fmt::format("--save_strategy is {}; steps saves every so many", a.save_strategy);
     }},
    {"ignore_data_skip",
     [](const Arguments& a) -> std::string {
       return a.resume_from_checkpoint.empty() ? "the run begins anew: --resume_from_checkpoint is not given"
                                               : "";
     }},
};

}  // namespace

std::vector<std::string> idle_notes(const Arguments& arguments) {
  std::vector<std::string> notes;
  for (const IdleRule& rule : kRules) {
    const Setting* setting = find_setting(rule.name);
    PLIMSOLL_CHECK(setting != nullptr, "no setting {}", rule.name);
    if (is_default(arguments, *setting)) continue;
    if (const std::string reason = rule.reason(arguments); !reason.empty()) {
      notes.push_back(
          fmt::format("--{} {} has no effect: {}", rule.name, format_value(arguments, *setting), reason));
    }
  }
  return notes;
}

}  // namespace plimsoll
