// Reads the data of a run: chooses the files and the rules by which they are read, and keeps their tokens and
// labels. One part of prepare_run (run_setup.h); not thread-safe.
#pragma once

#include "base/file.h"
#include "io/data/dummy.h"
#include "run/run_setup.h"

namespace plimsoll {

// The most tokens that a text may have: what the arguments ask for, but no more than the model has positions.
int64_t max_seq_length(const RunSetup& setup);
// The options of the random data of --dataset_name dummy.
DummyOptions dummy_options(const RunSetup& setup);

// Fills the data sets, the scheme of the labels and what else follows from files. Requires: model, purpose
// and, unless the data is random, tokenizer are there. Warnings join those of the setup. Errors: kUsage where
// data is missing or contradictory, kBadData for what the files hold, kWillNotFit for a file that alone
// exceeds the limit.
void read_run_data(RunSetup& setup, FileSystem& files);

}  // namespace plimsoll
