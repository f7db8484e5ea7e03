// Which labels a run has and in which order: those of the task, of the training data or of the model. One
// part of read_run_data() (data_sets.h); not thread-safe.
#pragma once

#include "io/data/glue.h"
#include "io/data/text_split.h"
#include "run/run_setup.h"

namespace plimsoll {

// Fills the scheme of the labels. `train` and `task` may be null. The labels of a model that is fine-tuned
// further keep their order, and their list where its head is kept. Warnings and notes join those of the
// setup. Requires: the model is there. Errors: kUsage and kBadData as infer_labels().
void choose_labels(RunSetup& setup, const TextSplit* train, const GlueTask* task);

}  // namespace plimsoll
