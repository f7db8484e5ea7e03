// Determines the order of the rows of a data set. Thread-safe: order_epoch is a pure function; a Sampler must not be used by several
// threads at the same time.
//
// The order of an epoch is a pure function of (strategy, seed, epoch, number of rows, lengths). A position in the data is therefore only
// two integers (epoch and index), and resuming at any position costs the computation of one permutation.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace plimsoll {

enum class SamplingStrategy { kRandom, kSequential, kGroupByLength };

// Parses a value of --train_sampling_strategy: "random", "sequential" or "group_by_length". Errors: kUsage for any other value.
SamplingStrategy parse_sampling_strategy(std::string_view word);

// Specifies if the last batch of an epoch is kept or dropped when it is incomplete.
enum class LastBatch { kKeep, kDrop };

struct SamplerOptions {
  SamplingStrategy strategy = SamplingStrategy::kRandom;
  uint64_t seed = 42;
  int64_t batch_size = 8;
  // The number of batches per optimizer step. The strategy group_by_length needs it, because each group of rows that it sorts by length is
  // as large as a whole number of steps, as in Trainer.
  int64_t accumulation_steps = 1;
  LastBatch last_batch = LastBatch::kKeep;
};

// A position in the data: the first `index` rows of epoch `epoch` were already used. It counts rows, not batches, so it remains valid if
// a run resumes with another batch size.
struct DataPosition {
  int64_t epoch = 0;
  int64_t index = 0;
  auto operator<=>(const DataPosition&) const = default;
};

// Temporary memory of order_epoch. The caller reuses it for later epochs, which then allocate nothing.
struct OrderScratch {
  std::vector<uint64_t> keys;
};

// Writes the order of the epoch into `order`. Random: a Fisher-Yates shuffle with random numbers that Philox computes from (seed, epoch).
// Group by length, as Trainer's LengthGroupedSampler: the random order is cut into groups of rows / (4 x rows per step) optimizer steps (at
// least 1, at most 50), each group is sorted by decreasing length (equal lengths keep the random order), and the longest row of the data
// set comes first. Requires: lengths.size() == order.size(), or lengths is empty and the strategy does not group.
void order_epoch(const SamplerOptions& options, int64_t epoch, std::span<const int32_t> lengths,
                 OrderScratch& scratch, std::span<int32_t> order);

// Produces batches over an unlimited number of epochs.
class Sampler {
 public:
  // `lengths` contains the number of tokens of each row. `sequences` contains the number of sequences of each row; it is empty if every
  // row is one sequence. Errors: kUsage if dropping the last batch would leave no rows. Requires: batch_size >= 1, accumulation_steps >=
  // 1, at least one row.
  Sampler(const SamplerOptions& options, std::vector<int32_t> lengths, std::vector<int32_t> sequences = {});

  // A batch: its rows, which are valid until the next call of next(), and its position in the data.
  struct Step {
    std::span<const int32_t> rows;
    DataPosition position;  // position of the first row of the batch
    DataPosition next;      // position of the first row of the next batch
    bool last_in_epoch = false;
    // The rows of this batch and of the batches after it, up to accumulation_steps batches of the same epoch. If this batch is the first
    // one of an optimizer step, these are all rows of the step.
    std::span<const int32_t> step_rows;
  };
  // Returns the batch at the current position and advances the position. Cost: proportional to the size of the batch; the first batch of
  // an epoch also computes a permutation.
  Step next();

  // Sets the position of the next batch. A position at or after the end of an epoch means the start of the
  // next epoch. Requires: position.epoch >= 0, position.index >= 0.
  void seek(DataPosition position);
  DataPosition position() const { return position_; }

  int64_t num_rows() const { return static_cast<int64_t>(lengths_.size()); }
  // Returns the number of rows used per epoch: all rows, or those of the full batches.
  int64_t rows_per_epoch() const { return rows_per_epoch_; }
  int64_t batches_per_epoch() const;
  std::span<const int32_t> lengths() const { return lengths_; }
  // Returns the number of sequences of each row; the list is empty if every row is one sequence.
  std::span<const int32_t> sequences() const { return sequences_; }
  const SamplerOptions& options() const { return options_; }

 private:
  void normalize();

  SamplerOptions options_;
  std::vector<int32_t> lengths_;
  std::vector<int32_t> sequences_;
  std::vector<int32_t> order_;
  OrderScratch scratch_;
  int64_t rows_per_epoch_ = 0;
  int64_t ordered_epoch_ = -1;
  DataPosition position_;
};

}  // namespace plimsoll
