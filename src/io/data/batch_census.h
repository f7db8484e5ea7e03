// Computes the sizes of a run's batches before it starts. The planner derives the bucket sizes from them.
// Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/tensor_batch.h"
#include "io/data/sampler.h"

namespace plimsoll {

struct BatchCensus {
  // Each of the three fields is the maximum over all batches, so no single batch need have all three values. `longest` is the
  // number of tokens of a row, which for packed rows is an upper bound for a sequence.
  BatchSize largest;
  // Pairs of a token count and the number of visited batches with this count, in increasing order.
  std::vector<std::pair<int64_t, int64_t>> counts;
  int64_t num_walked = 0;  // number of batches in `counts`
  int64_t num_batches = 0;
  // Sums over all batches. They are extrapolated from the visited epochs if incomplete last batches are
  // dropped and not every epoch was visited.
  int64_t total_tokens = 0;
  int64_t total_sequences = 0;
  // True if every batch was visited. Otherwise largest.tokens is the sum of the longest rows that fit into
  // one batch, an upper bound for every order.
  bool is_exact = true;

  // Adds one batch. For tests and for count_batches.
  void add(const BatchSize& batch);
};

// The maximum number of rows to visit, about half a second of work. At least one epoch is always visited.
inline constexpr int64_t kMaxWalkedRows = int64_t{1} << 24;

// Counts the batches of epochs [0, num_epochs). Sequential epochs are identical, so only one is visited.
// Shuffled epochs are visited until kMaxWalkedRows rows are reached; after that the largest batch is an upper
// bound. Cost: one permutation and one pass over the rows per visited epoch. Memory: a few words per row and
// per distinct count, independent of the number of epochs. Requires: num_epochs >= 0.
BatchCensus count_batches(Sampler sampler, int64_t num_epochs, int64_t max_walked_rows = kMaxWalkedRows);

// Returns the sum of the `batch_size` largest lengths: the largest number of tokens that a batch can have in any order of the rows.
int64_t largest_batch_tokens(std::span<const int32_t> lengths, int64_t batch_size);

// Returns the largest number of sequences that a batch of the sampler may have, in any order of its rows.
int64_t largest_batch_sequences(const Sampler& sampler);

// Returns the batch size if no data is available: every batch has batch_size sequences of maximum length.
BatchSize largest_batch_without_data(int64_t batch_size, int64_t max_seq_length);

}  // namespace plimsoll
