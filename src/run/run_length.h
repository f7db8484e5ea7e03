// How many steps a run makes, and of which batches. One part of prepare_run (run_setup.h); not thread-safe.
#pragma once

#include "base/file.h"
#include "run/run_setup.h"

namespace plimsoll {

// How long a run is, by its data and arguments.
struct RunLength {
  int64_t rows_per_epoch = 0;
  int64_t batches_per_epoch = 0;
  int64_t steps_per_epoch = 0;
  int64_t max_steps = 0;
  double num_epochs = 0;
};
RunLength run_length(const Arguments& arguments, const Sampler& sampler);

// Fills the sampler's options and, where there is training data, steps, epochs and the census of the batches
// that the run takes. Requires: the data is read. Warnings and notes join those of the setup. Cost: a walk
// over the batches of the epochs, as count_batches() bounds it.
void count_steps(RunSetup& setup, FileSystem& files);

}  // namespace plimsoll
