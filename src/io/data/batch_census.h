// How large the batches of a run will be, before it runs: what the planner sizes buckets with. Thread-safe:
// pure functions.
#pragma once

#include <cstdint>
#include <span>
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

  // The token count that this share of batches does not exceed. Requires: 0 <= share <= 1, num_batches >= 1.
  int64_t quantile(double share) const;
};

// Counts the batches of epochs [0, num_epochs), or the first max_batches if that is not negative. Cost: one
// permutation and one pass over the rows an epoch.
BatchCensus count_batches(Sampler sampler, int64_t num_epochs, int64_t max_batches = -1);

// Without data: every batch is batch x maximum length.
BatchSize largest_batch_without_data(int64_t batch_size, int64_t max_seq_length);

// What a ladder of token counts costs on these batches.
struct LadderUse {
  std::vector<int64_t> batches;  // in each bucket
  int64_t computed_tokens = 0;   // sum of bucket sizes over batches
  double waste = 0.0;            // 1 - real tokens / computed tokens
};
// Each batch runs in the smallest bucket that holds it. Requires: ladder rises strictly and its last holds
// the largest.
LadderUse use_ladder(const BatchCensus& census, std::span<const int64_t> ladder);

// The ladder of at most `num_buckets` token counts, each a multiple of `multiple`, that computes the fewest
// tokens on these batches; its last holds the largest. Cost: O(distinct^2 x buckets) on at most 512 distinct
// counts.
std::vector<int64_t> best_ladder(const BatchCensus& census, int64_t num_buckets, int64_t multiple);

}  // namespace plimsoll
