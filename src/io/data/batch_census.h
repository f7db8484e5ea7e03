// How large the batches of a run will be, before it runs: what the planner sizes buckets with. Thread-safe:
// pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "io/data/sampler.h"

namespace plimsoll {

struct BatchSize {
  int64_t tokens = 0;
  int64_t sequences = 0;
  int64_t longest = 0;
  bool operator==(const BatchSize&) const = default;
};

struct BatchCensus {
  BatchSize largest;            // each of the three is the largest over all batches, not those of one batch
  std::vector<int32_t> tokens;  // of each batch, sorted rising
  int64_t num_batches = 0;
  int64_t total_tokens = 0;
  int64_t total_sequences = 0;
};

// Counts the batches of epochs [0, num_epochs), or the first max_batches if that is not negative. Cost: one
// permutation and one pass over the rows an epoch.
BatchCensus count_batches(Sampler sampler, int64_t num_epochs, int64_t max_batches = -1);

// Without data: every batch is batch x maximum length.
BatchSize largest_batch_without_data(int64_t batch_size, int64_t max_seq_length);

}  // namespace plimsoll
