// The data of a run: which files, by which rules, and what of them the run keeps: tokens and labels. One part
// of prepare_run (run_setup.h); not thread-safe.
#pragma once

#include "base/file.h"
#include "io/data/dummy.h"
#include "train/run_setup.h"

namespace plimsoll {

// Tokens of the longest text: what is asked for, and what the model has positions for.
int64_t max_seq_length(const RunSetup& setup);
// Of --dataset_name dummy.
DummyOptions dummy_options(const RunSetup& setup);

// Fills the data sets, the scheme of the labels and what else follows from files. Requires: model, purpose
// and, unless the data is random, tokenizer are there. Warnings join those of the setup. Errors: kUsage where
// data is missing or contradictory, kBadData for what the files hold, kWillNotFit for a file that alone
// exceeds the limit.
void read_run_data(RunSetup& setup, FileSystem& files);

}  // namespace plimsoll
