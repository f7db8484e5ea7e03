// Computes the sizes of a run's batches before it starts, by simulating the order of the rows. The planner uses these sizes to choose the
// buckets, which are the batch sizes for which a program is compiled. Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/tensor_batch.h"
#include "io/data/sampler.h"

namespace plimsoll {

struct BatchCensus {
  // The maximum of each size over all batches. The three maxima may be from different batches. `longest` is the number of tokens of the
  // longest row, which for packed rows is an upper bound for the length of a sequence.
  BatchSize largest;
  // A histogram of the simulated batches: pairs of a number of tokens and the number of batches with this number of tokens, by increasing
  // number of tokens.
  std::vector<std::pair<int64_t, int64_t>> counts;
  int64_t num_walked = 0;  // number of simulated batches, the sum of the second numbers in `counts`
  int64_t num_batches = 0;
  // Numbers of tokens and sequences in all batches of the run. If only some epochs were simulated, the numbers are extrapolated from these
  // epochs, which is approximate if incomplete last batches are dropped.
  int64_t total_tokens = 0;
  int64_t total_sequences = 0;
  // True if every batch of the run was simulated. Otherwise largest.tokens is the sum of the lengths of the batch_size longest rows, an
  // upper bound for every order of the rows.
  bool is_exact = true;

  // Adds one batch to the histogram and to the sums. Public for tests.
  void add(const BatchSize& batch);
};

// The maximum number of rows whose order is simulated, which takes about half a second. At least one epoch is always simulated.
inline constexpr int64_t kMaxWalkedRows = int64_t{1} << 24;

// Computes the sizes of the batches of epochs [0, num_epochs). Without shuffling all epochs are identical, so only one is simulated.
// Shuffled epochs are simulated until kMaxWalkedRows rows are reached; if epochs remain, an upper bound replaces the size of the largest
// batch. Cost: one permutation and one pass over the rows per simulated epoch. Memory: a few integers per row and per distinct number of
// tokens, independent of the number of epochs. Requires: num_epochs >= 0.
BatchCensus count_batches(Sampler sampler, int64_t num_epochs, int64_t max_walked_rows = kMaxWalkedRows);

// Returns the sum of the `batch_size` largest lengths of rows: the largest number of tokens that a batch can have in any order of the
// rows.
int64_t largest_batch_tokens(std::span<const int32_t> lengths, int64_t batch_size);

// Returns the largest number of sequences that a batch of the sampler may have, in any order of its rows.
int64_t largest_batch_sequences(const Sampler& sampler);

// Returns the size of the largest possible batch if no data is available: batch_size sequences of maximum length.
BatchSize largest_batch_without_data(int64_t batch_size, int64_t max_seq_length);

}  // namespace plimsoll
