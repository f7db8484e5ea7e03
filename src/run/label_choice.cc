#include "run/label_choice.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "tasks/task.h"

namespace plimsoll {
namespace {

// A head that was trained for other labels is taken over where it has the same size; that is seldom meant.
void warn_of_other_labels(RunSetup& setup) {
  const std::vector<std::string>& model = setup.model.id2label;
  const bool is_generic = std::all_of(model.begin(), model.end(),
                                      [](const std::string& name) { return name.starts_with("LABEL_"); });
  if (is_generic || setup.model.num_labels != setup.labels.num_labels) return;
  setup.warnings.push_back(
      fmt::format("the model was trained with the labels {}, the data has {}: its classifier is taken over "
                  "as it is, label for label in this order",
                  fmt::join(model, ", "), fmt::join(setup.labels.names, ", ")));
}

}  // namespace

void choose_labels(RunSetup& setup, const TextSplit* train, const GlueTask* task) {
  const Arguments& arguments = setup.arguments;
  LabelOptions options;
  if (!arguments.problem_type.empty()) options.kind = parse_task(arguments.problem_type).labels;
  if (task != nullptr) {
    setup.labels = glue_labels(*task);
  } else if (train != nullptr && train->has_label()) {
    setup.labels = infer_labels(*train, options);
  } else {
    // A fine-tuned model brings its own.
    std::vector<std::string> names = setup.model.id2label;
    for (int64_t i = static_cast<int64_t>(names.size()); i < setup.model.num_labels; ++i)
      names.push_back("LABEL_" + std::to_string(i));
    setup.labels = given_labels(names);
    const TaskRecord& by_model =
        setup.model.problem_type ? task_of(*setup.model.problem_type) : default_task(setup.model.num_labels);
    setup.labels.kind = options.kind.value_or(by_model.labels);
    if (setup.labels.kind == LabelKind::kNumbers) setup.labels.names.clear();
  }
  if (setup.model.id2label.empty() || setup.labels.names.empty()) return;
  const int64_t num_in_data = setup.labels.num_labels;
  if (take_model_order(setup.labels, setup.model.id2label)) return;
  // A head that is made anew has the size that the data needs.
  const bool keeps_head = setup.weights && !arguments.ignore_mismatched_sizes && task == nullptr;
  if (keeps_head && take_model_list(setup.labels, setup.model.id2label)) {
    setup.notes.push_back(
        fmt::format("the training data has {} of the model's {} labels: the model keeps its list, {}",
                    num_in_data, setup.labels.num_labels, fmt::join(setup.labels.names, ", ")));
    return;
  }
  warn_of_other_labels(setup);
}

}  // namespace plimsoll
