#include "arguments/argument_table.h"

#include <fmt/format.h>

#include "arguments/value.h"
#include "base/check.h"
#include "base/optimizer_table.h"

namespace plimsoll {
namespace {

// Returns the reason why a setting that differs from its default has no effect in these arguments, or an empty string
// if it has an effect.
using Reason = std::string (*)(const Arguments& arguments);

struct IdleRule {
  std::string_view name;
  Reason reason;
};

std::string of_dummy(const Arguments& a) {
  return a.dataset_name == "dummy" ? "" : "without --dataset_name dummy";
}

std::string of_four_bits(const Arguments& a) {
  return a.load_in_4bit ? "" : "without --load_in_4bit";
}

std::string of_few_bits(const Arguments& a) {
  return a.load_in_4bit || a.load_in_8bit ? "" : "without --load_in_8bit or --load_in_4bit";
}

// Returns the row of the optimizer in the table, or null for a name that Plimsoll does not support.
const OptimizerRow* optimizer_of(const Arguments& a) {
  const OptimizerName* name = find_optimizer_name(a.optim);
  return name == nullptr ? nullptr : find_optimizer_row(name->runs);
}

std::string of_betas(const Arguments& a) {
  const OptimizerRow* optimizer = optimizer_of(a);
  if (optimizer != nullptr && optimizer->reads_betas) return {};
  return fmt::format("with --optim {}; use --optim_args for its settings", a.optim);
}

std::string of_epsilon(const Arguments& a) {
  const OptimizerRow* optimizer = optimizer_of(a);
  if (optimizer != nullptr && optimizer->reads_epsilon) return {};
  return fmt::format("with --optim {}, only with AdamW", a.optim);
}

std::string of_warmup(const Arguments& a) {
  if (a.lr_scheduler_type == "constant") return "with --lr_scheduler_type constant; use constant_with_warmup";
  if (a.lr_scheduler_type != "reduce_lr_on_plateau" && a.lr_scheduler_type != "greedy") return {};
  return fmt::format("with --lr_scheduler_type {}", a.lr_scheduler_type);
}

std::string of_pipeline(const Arguments& a) {
  return a.pp_size > 1 ? "" : "without --pp_size";
}

std::string of_chunks(const Arguments& a) {
  return a.pp_size > 1 && a.pipeline_schedule == "interleaved" ? ""
                                                               : "without --pipeline_schedule interleaved";
}

std::string of_evaluations(const Arguments& a) {
  if (a.eval_strategy != "no") return {};
  return "without --eval_strategy steps or epoch";
}

// The rules that find settings without effect, in the order in which the settings are declared. An interval of 0, such as
// --logging_steps 0, is never reported: it disables an action and therefore has an effect.
constexpr IdleRule kRules[] = {
    {"max_seq_length",
     [](const Arguments& a) -> std::string {
       if (a.dataset_name != "dummy" || a.max_seq_length == a.dummy_seq_length) return {};
       return fmt::format("with --dataset_name dummy; use --dummy_seq_length, which is {}",
                          a.dummy_seq_length);
     }},
    {"max_eval_samples",
     [](const Arguments& a) -> std::string {
       return a.do_eval ? "" : "without --validation_file, --do_eval or --eval_strategy";
     }},
    {"stride",
     [](const Arguments& a) -> std::string {
       return a.do_eval ? "" : "without --validation_file, --do_eval or --eval_strategy";
     }},
    {"validation_split_percentage",
     [](const Arguments& a) -> std::string {
       return a.validation_file.empty() ? "" : "with --validation_file, which is all of the validation data";
     }},
    {"scores",
     [](const Arguments& a) -> std::string {
       return a.do_predict ? "" : "without --test_file or --do_predict";
     }},
    {"max_predict_samples",
     [](const Arguments& a) -> std::string {
       return a.do_predict ? "" : "without --test_file or --do_predict";
     }},
    {"overwrite_cache",
     [](const Arguments& a) -> std::string {
       return a.cache_dir.empty() ? "without --cache_dir, because tokens are then not cached" : "";
     }},
    {"dummy_num_samples", of_dummy},
    {"dummy_seq_length", of_dummy},
    {"num_train_epochs",
     [](const Arguments& a) -> std::string {
       return a.max_steps > 0
                  ? fmt::format("with --max_steps {}, which sets the length of the run", a.max_steps)
                  : "";
     }},
    {"data_seed",
     [](const Arguments& a) -> std::string {
       return a.train_sampling_strategy == "sequential"
                  ? "with --train_sampling_strategy sequential, which keeps the order of the file"
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
       // logging_steps has an effect on evaluations too: it is their interval if eval_steps is not set.
       const bool paces_evaluations = a.eval_strategy == "steps" && a.eval_steps == a.logging_steps;
       if (a.logging_strategy == "steps" || a.logging_steps == 0.0 || paces_evaluations) return {};
       return fmt::format("with --logging_strategy {}; use --logging_strategy steps", a.logging_strategy);
     }},
    {"eval_steps",
     [](const Arguments& a) -> std::string {
       if (a.eval_strategy == "steps") return {};
       return fmt::format("with --eval_strategy {}; use --eval_strategy steps", a.eval_strategy);
     }},
    {"eval_delay", of_evaluations},
    {"eval_on_start",
     [](const Arguments& a) -> std::string {
       return a.do_eval ? "" : "without --validation_file, --do_eval or --eval_strategy";
     }},
    {"metric_for_best_model", of_evaluations},
    {"greater_is_better",
     [](const Arguments& a) -> std::string {
       return a.metric_for_best_model.empty() ? "without --metric_for_best_model" : "";
     }},
    {"early_stopping_threshold",
     [](const Arguments& a) -> std::string {
       return a.early_stopping_patience ? "" : "without --early_stopping_patience";
     }},
    {"save_steps",
     [](const Arguments& a) -> std::string {
       if (a.save_strategy == "steps" || a.save_steps == 0.0) return {};
       return fmt::format("with --save_strategy {}; use --save_strategy steps", a.save_strategy);
     }},
    {"async_save",
     [](const Arguments& a) -> std::string {
       return a.save_strategy == "no" ? "with --save_strategy no; use --save_strategy steps" : "";
     }},
    {"ignore_data_skip",
     [](const Arguments& a) -> std::string {
       return a.resume_from_checkpoint.empty() ? "without --resume_from_checkpoint" : "";
     }},
    {"pipeline_schedule", of_pipeline},
    {"pp_chunks", of_chunks},
};

}  // namespace

std::vector<std::string> idle_notes(const Arguments& arguments, RunCommand command) {
  std::vector<std::string> notes;
  for (const IdleRule& rule : kRules) {
    const Setting* setting = find_setting(rule.name);
    PLIMSOLL_CHECK(setting != nullptr,
                   "a rule for settings without effect names {}, which arguments.inc does not declare",
                   rule.name);
    if (!is_used_by(command, rule.name) || is_default(arguments, *setting)) continue;
    if (const std::string reason = rule.reason(arguments); !reason.empty()) {
      notes.push_back(fmt::format("--{} has no effect {}", rule.name, reason));
    }
  }
  return notes;
}

}  // namespace plimsoll
