#include "api/fit_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "hardware/gpu_target.h"
#include "models/model.h"

namespace plimsoll {
namespace {

// Returns true for an argument that the search chooses, or that was filled in and not given by the user.
bool is_no_word(const ArgumentDifference& difference) {
  for (const std::string_view name :
       {"per_device_train_batch_size", "gradient_accumulation_steps", "eval_steps", "metric_for_best_model",
        "greater_is_better", "do_train"}) {
    if (difference.name == name) return true;
  }
  return difference.name == "device" && find_gpu_target(difference.after).has_value();
}

std::string value_of(const ArgumentDifference& difference, const Arguments& arguments) {
  std::optional<int64_t> bytes;
  if (difference.name == "memory_limit") bytes = arguments.memory_limit;
  if (difference.name == "recompute_budget") bytes = arguments.recompute_budget;
  if (bytes && *bytes % kMiB == 0) return fmt::format("{}MiB", *bytes / kMiB);
  return shell_word(difference.after);
}

}  // namespace

std::string shell_word(const std::string& word) {
  if (!word.empty() && word.find_first_of(" \t*?[]{}()<>|&;$`\"'\\!#~") == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

FitCommand fit_command(const Arguments& arguments, const std::string& label, bool is_plan) {
  FitCommand command;
  const auto add = [&](const std::string& name, const std::string& value) {
    command.words += fmt::format("{}--{} {}", command.words.empty() ? "" : " ", name, value);
  };
  // A configuration states only the size of a model. Training also needs data and either weights or a tokenizer.
  const bool reads_text = arguments.dataset_name != "dummy" && !is_plan;
  const bool needs_data = reads_text && arguments.dataset_name.empty() && arguments.train_file.empty();
  const bool needs_tokenizer = reads_text && arguments.model_name_or_path.empty() &&
                               arguments.adapter_name_or_path.empty() && arguments.tokenizer_name.empty();
  const bool needs_model =
      needs_tokenizer && arguments.config_overrides.empty() && find_preset(arguments.config_name).has_value();
  if (needs_model) add("model_name_or_path", "MODEL");
  if (is_plan) add("device", arguments.device);
  for (const ArgumentDifference& difference : diff_arguments(Arguments{}, arguments)) {
    if (is_no_word(difference) || (needs_model && difference.name == "config_name")) continue;
    add(difference.name, value_of(difference, arguments));
  }
  std::vector<std::string> missing;
  if (needs_model)
    missing.push_back("MODEL: a folder, or a name in Hugging Face's cache, of the model " + label);
  if (needs_tokenizer && !needs_model) {
    add("tokenizer_name", "TOKENIZER");
    missing.emplace_back("TOKENIZER: a folder with one");
  }
  if (needs_data) {
    add("train_file", "FILE");
    missing.emplace_back("FILE: the training data");
  }
  command.to_fill_in = fmt::format("{}", fmt::join(missing, "; "));
  return command;
}

}  // namespace plimsoll
