// Determines the labels of a run and their order: those of the task, of the training data or of the model. Thread-safe: no state.
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

// Returns the labels of a run that reads data. `train` and `task` may be null. If a trained model is fine-tuned further, its labels keep
// their order; the complete list is kept if the model's head is kept. Errors: kUsage and kBadData as infer_labels().
LabelScheme choose_labels(const Arguments& arguments, const ModelSource& model, const TextSplit* train,
                          const GlueTask* task, Diagnostics& diagnostics);

// The kind and number of the labels in rows that the calling program passes.
struct RowLabels {
  std::optional<LabelKind> kind = {};  // kind of the labels; not set if no row has a label
  int64_t num_labels = 0;              // largest class + 1, or number of values per row
  std::vector<std::string> names = {};
};

// Returns the labels of a run whose rows the calling program passes. If the program passes no names of labels, the names of the model are
// used if the model has as many labels as the run. Errors: kUsage for an unknown problem_type.
LabelScheme choose_row_labels(const Arguments& arguments, const ModelSource& model, RunPurpose purpose,
                              const RowLabels& shown);

// Checks that the rows of a split match the task. Errors: kUsage if the rows are lists of words but the task labels
// texts, or if the rows are texts but the task labels words.
void require_matching_rows(const TextSplit& split, LabelKind kind);

// Returns the kind of labels of a plan that reads no data.
LabelScheme planned_labels(const Arguments& arguments, const ModelConfig& config);

// Returns the model configuration with the labels of the run. `reads` states whether the labels come from data. Errors: kUsage if
// --num_labels contradicts the data.
ModelConfig with_labels(ModelConfig config, const Arguments& arguments, const LabelScheme& labels,
                        DataUse reads);

// Warns if the labels of the training data are probably wrong: more different labels than half of the rows, or the same label in almost
// all rows.
void warn_of_odd_labels(const LabelScheme& labels, const std::string& label_column, const Dataset& train,
                        Diagnostics& diagnostics);

}  // namespace plimsoll
