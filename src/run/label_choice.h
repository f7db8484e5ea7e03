// The labels of a run and their order: those of the task, of the training data or of the model. Thread-safe: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/data/dataset.h"
#include "io/data/glue.h"
#include "io/data/labels.h"
#include "io/data/text_split.h"
#include "run/model_source.h"
#include "run/run_purpose.h"

namespace plimsoll {

// Returns the labels of a run that reads data. `train` and `task` may be null. The labels of a model that is
// fine-tuned further keep their order, and their list if the model's head is kept. Errors: kUsage and kBadData as
// infer_labels().
LabelScheme choose_labels(const Arguments& arguments, const ModelSource& model, const TextSplit* train,
                          const GlueTask* task, Diagnostics& diagnostics);

// The kind and number of labels that rows from memory have.
struct RowLabels {
  std::optional<LabelKind> kind = {};  // not set if no row has a label
  int64_t num_labels = 0;              // the largest class + 1, or the number of values
  std::vector<std::string> names = {};
};

// Returns the labels of a run whose rows come from memory. Names of labels that are not given are those of the model if
// it has the same number. Errors: kUsage for an unknown problem_type.
LabelScheme choose_row_labels(const Arguments& arguments, const ModelSource& model, RunPurpose purpose,
                              const RowLabels& shown);

// Checks that the rows of a split match the task. Errors: kUsage if the rows are lists of words but the task labels
// texts, or if the rows are texts but the task labels words.
void require_matching_rows(const TextSplit& split, LabelKind kind);

// Returns the kind of labels of a plan that reads no data.
LabelScheme planned_labels(const Arguments& arguments, const ModelConfig& config);

// Returns the configuration with the labels of the run. `reads`: whether they come from data. Errors: kUsage if
// --num_labels contradicts the data.
ModelConfig with_labels(ModelConfig config, const Arguments& arguments, const LabelScheme& labels,
                        DataUse reads);

// Warns if labels of the training data look wrong: more labels than half of the rows, or one label for almost all.
void warn_of_odd_labels(const LabelScheme& labels, const std::string& label_column, const Dataset& train,
                        Diagnostics& diagnostics);

}  // namespace plimsoll
