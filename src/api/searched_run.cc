#include "api/searched_run.h"

#include <fmt/ranges.h>

#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/units.h"
#include "hardware/gpu_target.h"
#include "models/architecture.h"
#include "models/model.h"
#include "plimsoll/plan.h"
#include "run/corpus.h"
#include "run/run_setup.h"

namespace plimsoll {

int64_t planned_length(const Arguments& arguments) {
  return arguments.dataset_name == "dummy" ? arguments.dummy_seq_length : arguments.max_seq_length;
}

bool evaluates(const Arguments& arguments) {
  return arguments.do_eval || arguments.do_predict || arguments.eval_strategy != "no";
}

Arguments without_data(Arguments arguments, const Environment& environment) {
  const int64_t length = planned_length(arguments);
  if (const TaskChoice task = task_of_file(arguments, environment, posix_file_system()); task.problem_type)
    arguments.problem_type = problem_type_name(*task.problem_type);
  if (arguments.dataset_name != "dummy") arguments.dataset_name.clear();
  arguments.train_file.clear();
  arguments.validation_file.clear();
  arguments.test_file.clear();
  arguments.max_seq_length = length;
  return arguments;
}

Arguments without_recompute_choice(Arguments arguments) {
  if (arguments.recompute == "selective") arguments.recompute = Arguments().recompute;
  arguments.recompute_budget.reset();
  return arguments;
}

std::string idle_network_note(const RankLinks& links, int64_t num_ranks, int64_t num_machines) {
  if (num_ranks == 1 || num_machines > 1 || links.between.empty()) return {};
  return fmt::format("--links: {} has no effect here: it connects machines, and this run is on one",
                     links.between);
}

std::string shell_word(const std::string& word) {
  if (!word.empty() && word.find_first_of(" \t*?[]{}()<>|&;$`\"'\\!#~") == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

namespace {

// Returns true for an argument that is omitted from the printed command: the search chooses it, it was filled in and
// not given by the user, or it is a --device that names a card of the table of devices instead of one of this machine.
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

SearchedCommand command_of_search(const Arguments& arguments, const std::string& label,
                                  const CommandKind& kind) {
  const bool is_plan = kind.is_plan;
  SearchedCommand command;
  const auto add = [&](const std::string& name, const std::string& value) {
    command.words += fmt::format("{}--{} {}", command.words.empty() ? "" : " ", name, value);
  };
  // The command may be incomplete: a model configuration has only sizes, but training also needs data, and weights or a tokenizer.
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
  // The search is for one GPU, but without --nproc_per_node a run would use all visible GPUs.
  Arguments run = arguments;
  if (find_gpu_target(run.device)) run.device = "auto";
  if (kind.is_for_one_gpu && !is_plan && run.nproc_per_node == 1 && num_ranks_on_this_machine(run) > 1)
    add("nproc_per_node", "1");
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
