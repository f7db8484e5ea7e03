// The order of a data set's rows. Thread-safe: order_epoch is a pure function; a Sampler is a value for one
// thread.
//
// The order of an epoch is a pure function of (strategy, seed, epoch, number of rows, lengths), so a position
// is two integers and resuming at it costs one permutation, however far it is.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace plimsoll {

enum class SamplingStrategy { kRandom, kSequential, kGroupByLength };

// "random", "sequential", "group_by_length": the values of --train_sampling_strategy. Errors: kUsage for
// another word.
SamplingStrategy parse_sampling_strategy(std::string_view word);

// What happens to the rows that do not fill an epoch's last batch.
enum class LastBatch { kKeep, kDrop };

struct SamplerOptions {
  SamplingStrategy strategy = SamplingStrategy::kRandom;
  uint64_t seed = 42;
  int64_t batch_size = 8;
  // group_by_length sorts within groups for this many batches a step, as Trainer does: batch size x
  // accumulation.
  int64_t accumulation_steps = 1;
  LastBatch last_batch = LastBatch::kKeep;
};

// A place in the data: `index` rows of epoch `epoch` are done. Counted in rows, so that it outlives another
// batch size.
struct DataPosition {
  int64_t epoch = 0;
  int64_t index = 0;
  auto operator<=>(const DataPosition&) const = default;
};

// Room that order_epoch needs beside its result, kept by the caller so that a second epoch allocates nothing.
struct OrderScratch {
  std::vector<uint64_t> keys;
};

// Writes the order of the epoch into `order`. Random: Fisher-Yates on Philox numbers of (seed, epoch). Group
// by length: as Trainer's LengthGroupedSampler: that random order, cut in groups of min(rows / (4 x step),
// 50) steps' rows, each sorted by falling length (equal lengths keep the random order), and the longest row
// of all first. Requires: lengths.size() == order.size(), or lengths is empty and the strategy does not
// group.
void order_epoch(const SamplerOptions& options, int64_t epoch, std::span<const int32_t> lengths,
                 OrderScratch& scratch, std::span<int32_t> order);

// Walks batches through epochs without end.
class Sampler {
 public:
  // `lengths` has one entry a row and is copied. Errors: kUsage if a dropped last batch would leave nothing.
  // Requires: batch_size >= 1, accumulation_steps >= 1, at least one row.
  Sampler(const SamplerOptions& options, std::vector<int32_t> lengths);

  // A batch's rows, valid until the next call, and where it lies.
  struct Step {
    std::span<const int32_t> rows;
    DataPosition position;  // of its first row
    DataPosition next;      // of the batch after it
    bool last_in_epoch = false;
  };
  // The batch at the position, then moves behind it. Cost: O(batch), and a permutation at the first of an
  // epoch.
  Step next();

  // The next batch begins here. A position at or behind an epoch's end means the next epoch's beginning.
  // Requires: position.epoch >= 0, position.index >= 0.
  void seek(DataPosition position);
  DataPosition position() const { return position_; }

  int64_t num_rows() const { return static_cast<int64_t>(lengths_.size()); }
  // Rows that an epoch gives: all, or those of its full batches.
  int64_t rows_per_epoch() const { return rows_per_epoch_; }
  int64_t batches_per_epoch() const;
  std::span<const int32_t> lengths() const { return lengths_; }
  const SamplerOptions& options() const { return options_; }

 private:
  void normalize();

  SamplerOptions options_;
  std::vector<int32_t> lengths_;
  std::vector<int32_t> order_;
  OrderScratch scratch_;
  int64_t rows_per_epoch_ = 0;
  int64_t ordered_epoch_ = -1;
  DataPosition position_;
};

}  // namespace plimsoll
