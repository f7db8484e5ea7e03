// Determines the order of the rows of a data set. Thread-safe: order_epoch is a pure function; a Sampler is a
// value for one thread.
//
// The order of an epoch is a pure function of (strategy, seed, epoch, number of rows, lengths). A position is
// therefore two integers, and resuming at any position costs one permutation.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace plimsoll {

enum class SamplingStrategy { kRandom, kSequential, kGroupByLength };

// Parses a value of --train_sampling_strategy: "random", "sequential" or "group_by_length". Errors: kUsage
// for an unknown word.
SamplingStrategy parse_sampling_strategy(std::string_view word);

// The treatment of rows that do not fill the last batch of an epoch.
enum class LastBatch { kKeep, kDrop };

struct SamplerOptions {
  SamplingStrategy strategy = SamplingStrategy::kRandom;
  uint64_t seed = 42;
  int64_t batch_size = 8;
  // group_by_length sorts within groups of this number of batches per step, as Trainer does: batch size x
  // accumulation.
  int64_t accumulation_steps = 1;
  LastBatch last_batch = LastBatch::kKeep;
};

// A position in the data: the first `index` rows of epoch `epoch` are done. It counts rows, so it remains
// valid with another batch size.
struct DataPosition {
  int64_t epoch = 0;
  int64_t index = 0;
  auto operator<=>(const DataPosition&) const = default;
};

// Temporary memory of order_epoch. The caller keeps it, so that later epochs allocate nothing.
struct OrderScratch {
  std::vector<uint64_t> keys;
};

// Writes the order of the epoch into `order`. Random: Fisher-Yates with Philox numbers of (seed, epoch).
// Group by length, as Trainer's LengthGroupedSampler: the random order is cut into groups of min(rows / (4 x
// step), 50) steps, each group is sorted by decreasing length (equal lengths keep the random order), and the
// longest row of all comes first. Requires: lengths.size() == order.size(), or lengths is empty and the
// strategy does not group.
void order_epoch(const SamplerOptions& options, int64_t epoch, std::span<const int32_t> lengths,
                 OrderScratch& scratch, std::span<int32_t> order);

// Produces batches over an unlimited number of epochs.
class Sampler {
 public:
  // `lengths` has the number of tokens of each row, `sequences` their numbers of sequences if they are not one each.
  // Errors: kUsage if dropping the last batch would leave no rows. Requires: batch_size >= 1, accumulation_steps >= 1, at
  // least one row.
  Sampler(const SamplerOptions& options, std::vector<int32_t> lengths, std::vector<int32_t> sequences = {});

  // The rows of a batch, valid until the next call, and its position.
  struct Step {
    std::span<const int32_t> rows;
    DataPosition position;  // position of the first row of the batch
    DataPosition next;      // position of the next batch
    bool last_in_epoch = false;
    // The rows of the optimizer step that begins with this batch, if one does: up to accumulation_steps batches of the
    // same epoch.
    std::span<const int32_t> step_rows;
  };
  // Returns the batch at the current position and moves past it. Cost: proportional to the batch, and a
  // permutation for the first batch of an epoch.
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
  // Returns the number of sequences of each row; empty if every row is one.
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
