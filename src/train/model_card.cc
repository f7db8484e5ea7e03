#include "train/run_reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/problem_type.h"
#include "base/units.h"
#include "metrics/metrics.h"
#include "tasks/task.h"
#include "train/speed.h"

namespace plimsoll {
namespace {

const HeadKind& head_of(const RunSetup& setup) {
  return task_of(setup.request.model.problem_type).head();
}

constexpr std::string_view kMark = "<!-- Written by Plimsoll after training.";

// Returns a text as it must be written in YAML: unquoted if YAML reads it unchanged, otherwise as a JSON string, which is also valid
// YAML.
std::string yaml_text(const std::string& text) {
  const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  const bool is_plain = !text.empty() && (is_letter(text.front()) || text.front() == '/') &&
                        std::ranges::all_of(text, [&](char c) {
                          return is_letter(c) || c == '/' || c == '.' || c == '_' || c == '-';
                        });
  return is_plain ? text
                  : nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string run_title(const Arguments& a) {
  if (!a.run_name.empty()) return a.run_name;
  const auto path = std::filesystem::path(a.output_dir).lexically_normal();
  return path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
}

// Returns the title of a metric in a table: "F1" for "eval_f1", "Loss" for "eval_loss", "Combined Score" for "eval_combined_score".
std::string metric_title(std::string_view key) {
  if (key.starts_with("eval_")) key.remove_prefix(5);
  std::string title;
  bool starts_word = true;
  for (const char c : key) {
    title += c == '_'      ? ' '
             : starts_word ? static_cast<char>(std::toupper(static_cast<unsigned char>(c)))
                           : c;
    starts_word = c == '_';
  }
  return title;
}

// Returns those metrics of an evaluation that measure the quality of the model, not its speed. The loss comes first.
std::vector<std::string> quality_keys(const MetricMap& metrics) {
  static const std::set<std::string, std::less<>> kSpeed = {
      "eval_runtime", "eval_samples", "eval_samples_per_second", "eval_steps_per_second"};
  std::vector<std::string> keys = {"eval_loss"};
  for (const auto& [key, value] : metrics) {
    const std::string stem =
        key.ends_with(kMismatchedSuffix) ? key.substr(0, key.size() - kMismatchedSuffix.size()) : key;
    if (key.starts_with("eval_") && key != "eval_loss" && !kSpeed.contains(stem) &&
        key.find("_mem_") == std::string::npos) {
      keys.push_back(key);
    }
  }
  return keys;
}

std::string hyperparameters(const RunSetup& setup) {
  const Arguments& a = setup.arguments;
  std::string text =
      fmt::format("- learning_rate: {}\n- train_batch_size: {}\n- eval_batch_size: {}\n- seed: {}\n",
                  a.learning_rate, a.per_device_train_batch_size, a.per_device_eval_batch_size, a.seed);
  if (num_ranks(a) > 1) text += fmt::format("- num_devices: {}\n", num_ranks(a));
  if (a.gradient_accumulation_steps > 1)
    text += fmt::format("- gradient_accumulation_steps: {}\n", a.gradient_accumulation_steps);
  if (batches_per_step(a) > 1) {
    text +=
        fmt::format("- total_train_batch_size: {}\n", batches_per_step(a) * a.per_device_train_batch_size);
  }
  text += "- optimizer: " + a.optim;
  if (a.optim.starts_with("adamw")) {
    text += fmt::format(" with betas=({},{}) and epsilon={}", a.adam_beta1, a.adam_beta2, a.adam_epsilon);
  }
  for (const auto& [key, value] : a.optim_args) text += fmt::format(", {}={}", key, value);
  text += "\n- lr_scheduler_type: " + a.lr_scheduler_type + "\n";
  if (const int64_t warmup = num_warmup_steps(a, setup.steps.length.max_steps); warmup > 0) {
    text += fmt::format("- lr_scheduler_warmup_steps: {}\n", warmup);
  }
  text += a.max_steps > 0 ? fmt::format("- training_steps: {}\n", a.max_steps)
                          : fmt::format("- num_epochs: {}\n", a.num_train_epochs);
  if (a.weight_decay != 0) text += fmt::format("- weight_decay: {}\n", a.weight_decay);
  if (a.z_loss_coef != 0) text += fmt::format("- z_loss_coef: {}\n", a.z_loss_coef);
  if (a.label_smoothing_factor != 0)
    text += fmt::format("- label_smoothing_factor: {}\n", a.label_smoothing_factor);
  if (a.bf16 || a.fp16) text += fmt::format("- mixed_precision_training: {}\n", a.bf16 ? "bf16" : "fp16");
  return text;
}

// Returns a table with one row per evaluation. A row contains the training loss that was logged last before the evaluation, and the
// metrics of the evaluation.
std::string results_table(const LogHistory& history) {
  std::string text;
  std::vector<std::string> keys;
  std::string training_loss = "No log";
  for (const LogRecord& record : history) {
    if (const auto loss = record.values.find("loss"); loss != record.values.end()) {
      training_loss = fmt::format("{:.4f}", loss->second);
    }
    if (!record.values.contains("eval_loss")) continue;
    if (text.empty()) {
      keys = quality_keys(record.values);
      text = "| Training Loss | Epoch | Step | Validation Loss |";
      for (size_t i = 1; i < keys.size(); ++i) text += " " + metric_title(keys[i]) + " |";
      text += "\n|:---:|:---:|:---:|:---:|";
      for (size_t i = 1; i < keys.size(); ++i) text += ":---:|";
      text += "\n";
    }
    text += fmt::format("| {} | {:.4f} | {} |", training_loss, record.epoch, record.step);
    for (const std::string& key : keys) {
      const auto it = record.values.find(key);
      text += it == record.values.end() ? " |" : fmt::format(" {:.4f} |", it->second);
    }
    text += "\n";
  }
  return text.empty() ? "No evaluation while training.\n" : text;
}

std::string front_matter(const RunSetup& setup, const std::vector<std::string>& metrics) {
  const Arguments& a = setup.arguments;
  const bool is_adapter = setup.request.model.lora.has_value();
  std::string text = fmt::format("---\nlibrary_name: {}\n", is_adapter ? "peft" : "transformers");
  if (!setup.model.base_model.empty()) text += "base_model: " + yaml_text(setup.model.base_model) + "\n";
  text += fmt::format("tags:\n- generated_from_trainer\n- plimsoll\n{}", is_adapter ? "- lora\n" : "");
  if (!a.task_name.empty() && !is_tagging_task(a.task_name)) text += "datasets:\n- glue\n";
  if (metrics.size() > 1) {
    text += "metrics:\n";
    for (size_t i = 1; i < metrics.size(); ++i) text += "- " + metrics[i].substr(5) + "\n";
  }
  text += fmt::format("pipeline_tag: {}\n", head_of(setup).pipeline_tag);
  return text + "model-index:\n- name: " + yaml_text(run_title(a)) + "\n  results: []\n---\n";
}

std::string what_it_is(const RunSetup& setup) {
  if (setup.model.base_model.empty()) return "A model trained from scratch (" + setup.model.label + ")";
  const std::optional<LoraConfig>& lora = setup.request.model.lora;
  return (lora ? fmt::format("A LoRA adapter of rank {} for `", lora->r) : "A fine-tuned version of `") +
         setup.model.base_model + "`";
}

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

std::string data_sentence(const RunSetup& setup) {
  const Arguments& a = setup.arguments;
  std::string text;
  if (setup.data.train) {
    text = "Trained on " + counted(setup.data.train->num_rows(), "row");
    if (!a.train_file.empty()) text += " of " + file_name(a.train_file);
  }
  if (setup.data.evaluate) {
    text += fmt::format("{} {}", text.empty() ? "Evaluated on" : ", evaluated on",
                        counted(setup.data.evaluate->num_rows(), "row"));
    if (!a.validation_file.empty()) text += " of " + file_name(a.validation_file);
  }
  return text + ".\n";
}

}  // namespace

std::string model_card(const RunSetup& setup, const TrainOutput& output) {
  const Arguments& a = setup.arguments;
  std::optional<LogRecord> last;
  for (const LogRecord& record : output.log_history) {
    if (record.values.contains("eval_loss")) last = record;
  }
  const std::vector<std::string> keys = last ? quality_keys(last->values) : std::vector<std::string>();
  std::string text =
      front_matter(setup, keys) + "\n" + std::string(kMark) +
      " Complete it, and remove this\ncomment if later runs must not overwrite the file. -->\n\n# " +
      run_title(a) + "\n\n";
  text +=
      what_it_is(setup) +
      (a.task_name.empty() || is_tagging_task(a.task_name) ? "."
                                                           : " on the task " + a.task_name + " of GLUE.") +
      "\n";
  if (last) {
    text += fmt::format("After step {} of {}, on the validation data:\n", last->step,
                        setup.steps.length.max_steps);
    for (const std::string& key : keys)
      text += fmt::format("- {}: {:.4f}\n", metric_title(key), last->values.at(key));
  }
  text +=
      fmt::format("\n## Model description\n\n{} for {}: {}, width {}, {}.\n", setup.model.config.model_type,
                  head_of(setup).description, counted(setup.model.config.num_hidden_layers, "layer"),
                  setup.model.config.hidden_size, describe_outputs(setup.model.config));
  text += "\n## Intended uses & limitations\n\nTo be written by whoever publishes the model.\n";
  text += "\n## Training and evaluation data\n\n" + data_sentence(setup);
  text += "\n## Training procedure\n\n### Training hyperparameters\n\n" + hyperparameters(setup);
  text += "\n### Training results\n\n" + results_table(output.log_history);
  text += fmt::format("\n### Framework versions\n\n- Plimsoll {}\n", PLIMSOLL_VERSION);
  return text;
}

bool is_model_card(std::string_view text) {
  return text.find(kMark) != std::string_view::npos;
}

}  // namespace plimsoll
