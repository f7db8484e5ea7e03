// How large the batches of a run will be, before it runs: what the planner sizes buckets with. Thread-safe:
// pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
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
  BatchSize largest;  // each of the three is the largest over all batches, not those of one batch
  // Token counts and how many of the batches that were walked have each; rising.
  std::vector<std::pair<int64_t, int64_t>> counts;
  int64_t num_walked = 0;  // batches in `counts`
  int64_t num_batches = 0;
  int64_t total_tokens = 0;  // of all batches; where the last rows of an epoch are dropped and not every
                             // epoch was walked, those that were stand for the others
  int64_t total_sequences = 0;
  // Whether every batch was walked. Where not, largest.tokens is that of the longest rows in one batch, which
  // no order exceeds.
  bool is_exact = true;

  // Counts one batch more. For tests, and for count_batches.
  void add(const BatchSize& batch);
};

// So many rows are walked at most, but an epoch at least: half a second's work.
inline constexpr int64_t kMaxWalkedRows = int64_t{1} << 24;

// Counts the batches of epochs [0, num_epochs). Epochs in sequence are all alike, one is walked. Shuffled
// ones are walked as long as they have kMaxWalkedRows rows together; beyond that the largest batch is a
// bound. Cost: one permutation and one pass over the rows for each epoch that is walked. Memory: a few words
// a row and a distinct count, whatever the number of epochs. Requires: num_epochs >= 0.
BatchCensus count_batches(Sampler sampler, int64_t num_epochs, int64_t max_walked_rows = kMaxWalkedRows);

// Tokens of the longest rows in one batch.
int64_t largest_batch_tokens(std::span<const int32_t> lengths, int64_t batch_size);

// Without data: every batch is batch x maximum length.
BatchSize largest_batch_without_data(int64_t batch_size, int64_t max_seq_length);

}  // namespace plimsoll
