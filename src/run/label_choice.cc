#include "run/label_choice.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/data/labels.h"
#include "io/data/word_labels.h"
#include "run/model_source.h"
#include "tasks/task.h"

namespace plimsoll {
namespace {

// Warns if the classifier of a model that was trained for other labels is kept only because the number of labels is the same. This is
// rarely intended.
void warn_of_other_labels(const ModelConfig& config, const LabelScheme& labels, Diagnostics& diagnostics) {
  const std::vector<std::string>& model = config.id2label;
  const bool is_generic = std::all_of(model.begin(), model.end(),
                                      [](const std::string& name) { return name.starts_with("LABEL_"); });
  if (is_generic || config.num_labels != labels.num_labels) return;
  diagnostics.warn(fmt::format(
      "the model was trained with the labels {}, but the data has the labels {}: the classifier of the model "
      "is kept, and the first label of the data takes the place of the first label of the model, and so on",
      fmt::join(model, ", "), fmt::join(labels.names, ", ")));
}

// Returns the labels that are stored with a trained model.
LabelScheme labels_of_model(const ModelConfig& config, std::optional<LabelKind> kind) {
  std::vector<std::string> names = config.id2label;
  for (int64_t i = std::ssize(names); i < config.num_labels; ++i)
    names.push_back("LABEL_" + std::to_string(i));
  LabelScheme labels = given_labels(names);
  const TaskRecord& by_model =
      config.problem_type ? task_of(*config.problem_type) : default_task(config.num_labels);
  labels.kind = kind.value_or(by_model.labels);
  if (const std::string delimiter = trained_columns(config.source.json).label_delimiter; !delimiter.empty())
    labels.delimiter = delimiter;
  if (labels.kind == LabelKind::kNumbers) labels.names.clear();
  return labels;
}

// Infers the kind of labels from the rows of a split, for a run whose task is not known otherwise.
LabelKind kind_of_rows(const TextSplit& split) {
  return split.has_words() ? LabelKind::kClassPerToken : LabelKind::kClass;
}

}  // namespace

void require_matching_rows(const TextSplit& split, LabelKind kind) {
  const std::string& file = split.table().file_name();
  if (split.has_words() && kind != LabelKind::kClassPerToken) {
    throw_error(ErrorCode::kUsage,
                "{}: each row is a list of words, but the task is {}, which reads whole texts; select a "
                "column of texts "
                "with --text_column_names, or use a model for token classification",
                file, problem_type_name(task_of(kind).problem_type));
  }
  if (!split.has_words() && kind == LabelKind::kClassPerToken) {
    throw_error(ErrorCode::kUsage,
                "{}: each row is a text, but the task is {}, which reads lists of words; use a JSON file "
                "with a list of "
                "words and a list of tags per row, or a CoNLL file with one word and its tag per line",
                file, problem_type_name(task_of(kind).problem_type));
  }
}

LabelScheme choose_labels(const Arguments& arguments, const ModelSource& model, const TextSplit* train,
                          const GlueTask* task, Diagnostics& diagnostics) {
  const ModelConfig& config = model.config;
  LabelOptions options;
  if (!arguments.problem_type.empty()) options.kind = parse_task(arguments.problem_type).labels;
  if (!arguments.label_delimiter.empty()) {
    options.delimiter = arguments.label_delimiter;
    options.has_delimiter = true;
  }
  if (train != nullptr) require_matching_rows(*train, options.kind.value_or(kind_of_rows(*train)));
  LabelScheme labels = task != nullptr                          ? glue_labels(*task)
                       : train != nullptr && train->has_words() ? infer_word_labels(*train)
                       : train != nullptr && train->has_label() ? infer_labels(*train, options)
                                                                : labels_of_model(config, options.kind);
  if (!arguments.label_delimiter.empty()) labels.delimiter = arguments.label_delimiter;
  if (task == nullptr && train != nullptr && train->has_label() && !train->has_words()) {
    for (std::string& warning : label_warnings(*train, labels, options.kind.has_value())) {
      labels.kind == LabelKind::kNumbers ? diagnostics.note(std::move(warning))
                                         : diagnostics.warn(std::move(warning));
    }
  }
  if (config.id2label.empty() || labels.names.empty()) return labels;
  const int64_t num_in_data = labels.num_labels;
  if (take_model_order(labels, config.id2label)) return labels;
  // The model's list of labels is used only if its head is kept. A new head has as many outputs as the data has labels.
  const bool keeps_head = model.weights && !arguments.ignore_mismatched_sizes && task == nullptr;
  if (keeps_head && take_model_list(labels, config.id2label)) {
    diagnostics.note(
        fmt::format("the training data has {} of the model's {} labels: the model keeps its list, {}",
                    num_in_data, labels.num_labels, fmt::join(labels.names, ", ")));
    return labels;
  }
  warn_of_other_labels(config, labels, diagnostics);
  return labels;
}

LabelScheme choose_row_labels(const Arguments& arguments, const ModelSource& model, RunPurpose purpose,
                              const RowLabels& shown) {
  const ModelConfig& config = model.config;
  const TaskRecord& by_model =
      config.problem_type ? task_of(*config.problem_type)
                          : task_of(is_training(purpose) ? ProblemType::kSingleLabel
                                                         : default_task(config.num_labels).problem_type);
  // For a run that trains, the rows of the training data determine the kind of labels. Any other run uses the kind with which the model
  // was trained.
  const LabelKind kind = !arguments.problem_type.empty()      ? parse_task(arguments.problem_type).labels
                         : is_training(purpose) && shown.kind ? *shown.kind
                                                              : by_model.labels;
  if (are_tokens(kind)) return {.kind = kind};
  int64_t num_labels = std::ssize(shown.names);
  if (num_labels == 0 && arguments.num_labels) num_labels = *arguments.num_labels;
  if (num_labels == 0 && kind == LabelKind::kNumbers && is_training(purpose))
    num_labels = std::max<int64_t>(shown.num_labels, 1);
  if (num_labels == 0)
    num_labels = is_training(purpose) ? std::max(shown.num_labels, config.num_labels) : config.num_labels;
  std::vector<std::string> names = shown.names;
  if (names.empty() && std::ssize(config.id2label) == num_labels) names = config.id2label;
  for (int64_t i = std::ssize(names); i < num_labels; ++i) names.push_back("LABEL_" + std::to_string(i));
  LabelScheme labels = given_labels(std::move(names));
  labels.kind = kind;
  if (kind == LabelKind::kNumbers) labels.names.clear();
  return labels;
}

LabelScheme planned_labels(const Arguments& arguments, const ModelConfig& config) {
  LabelScheme labels;
  const TaskRecord& task = !arguments.problem_type.empty()
                               ? parse_task(arguments.problem_type)
                               : task_of(config.problem_type.value_or(ProblemType::kSingleLabel));
  labels.kind = task.labels;
  return labels;
}

ModelConfig with_labels(ModelConfig config, const Arguments& arguments, const LabelScheme& labels,
                        DataUse reads) {
  if (are_tokens(labels.kind)) {
    if (arguments.num_labels) {
      throw_error(ErrorCode::kUsage,
                  "--num_labels {}: a language model has no labels, it predicts one of the {} tokens of "
                  "its vocabulary; leave it out",
                  *arguments.num_labels, config.vocab_size);
    }
    config.problem_type = task_of(labels.kind).problem_type;
    return config;
  }
  if (reads == DataUse::kNone) {
    config.num_labels = arguments.num_labels.value_or(config.num_labels);
    config.problem_type = task_of(labels.kind).problem_type;
    return config;
  }
  if (arguments.num_labels.value_or(labels.num_labels) != labels.num_labels) {
    throw_error(ErrorCode::kUsage,
                "--num_labels {}: the labels of the data, or of the model, are {}; leave it out",
                *arguments.num_labels, labels.num_labels);
  }
  config.num_labels = labels.num_labels;
  config.id2label = labels.names_by_id();
  config.problem_type = task_of(labels.kind).problem_type;
  return config;
}

void warn_of_odd_labels(const LabelScheme& labels, const std::string& label_column, const Dataset& train,
                        Diagnostics& diagnostics) {
  const std::vector<std::string> names = labels.names_by_id();
  if (train.num_rows() >= 20 && 2 * std::ssize(names) > train.num_rows()) {
    diagnostics.warn(fmt::format(
        "{} labels for {} rows: is '{}' the column of the labels? Name it with --label_column_name",
        names.size(), train.num_rows(), label_column));
  }
  // The check below is skipped for labels of words: most words of a text do not belong to an entity, so that it would always
  // warn.
  if (labels.kind != LabelKind::kClass) return;
  const LabelBalance balance = label_balance(train.labels, labels.num_labels);
  if (balance.majority_share <= 0.9) return;
  diagnostics.warn(fmt::format(
      "{:.0f} % of the training rows have the label '{}': a model that always predicts it is right as often",
      100.0 * balance.majority_share,
      names.empty() ? std::to_string(balance.majority) : names[static_cast<size_t>(balance.majority)]));
}

}  // namespace plimsoll
