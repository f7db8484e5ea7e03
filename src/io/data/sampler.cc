#include "io/data/sampler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/philox.h"

namespace plimsoll {
namespace {

// Every user of the random number generator has a number ("site") that keeps its random numbers independent of those of the others. This
// one is for the order of rows. The sites of the ops of a graph are numbered from zero and never reach this value.
constexpr uint32_t kOrderSite = 0xDA7A0000u;

// Shuffles with the algorithm of Fisher and Yates: for decreasing i, the element at position i is swapped with that at a random position
// in [0, i]. This position depends on (seed, epoch, i) only. It is computed from 64 random bits, so the bias is below 2^-32 for any data
// set with 32-bit row numbers.
void shuffle(uint64_t seed, int64_t epoch, std::span<int32_t> order) {
  std::iota(order.begin(), order.end(), 0);
  const RandomSite where{seed, static_cast<uint32_t>(epoch), kOrderSite};
  for (size_t i = order.size(); i-- > 1;) {
    const std::array<uint32_t, 4> bits = philox_block(where, i);
    const uint64_t draw = (static_cast<uint64_t>(bits[0]) << 32) | bits[1];
    const auto j = static_cast<size_t>((static_cast<unsigned __int128>(draw) * (i + 1)) >> 64);
    std::swap(order[i], order[j]);
  }
}

void group_by_length(const SamplerOptions& options, std::span<const int32_t> lengths, OrderScratch& scratch,
                     std::span<int32_t> order) {
  const auto num_rows = static_cast<int64_t>(order.size());
  const int64_t step_rows = options.batch_size * options.accumulation_steps;
  const int64_t steps_per_group = std::clamp<int64_t>(num_rows / (step_rows * 4), 1, 50);
  const int64_t group_rows = steps_per_group * step_rows;
  // A key consists of INT32_MAX minus the length of a row (upper half) and the position of the row in the random order (lower half).
  // Sorting the keys with std::sort gives the same result as a stable sort of the rows by decreasing length.
  scratch.keys.resize(order.size());
  std::vector<uint64_t>& keys = scratch.keys;
  for (size_t i = 0; i < order.size(); ++i) {
    const auto shortness = static_cast<uint32_t>(INT32_MAX - lengths[static_cast<size_t>(order[i])]);
    keys[i] = (static_cast<uint64_t>(shortness) << 32) | i;
  }
  size_t longest_at = 0;
  for (int64_t begin = 0; begin < num_rows; begin += group_rows) {
    const int64_t end = std::min(begin + group_rows, num_rows);
    std::sort(keys.begin() + begin, keys.begin() + end);
    const auto first = static_cast<size_t>(begin);
    longest_at = (keys[first] >> 32) < (keys[longest_at] >> 32) ? first : longest_at;
  }
  std::swap(keys[0], keys[longest_at]);
  // The lower half of each key is a position in `order`, from which the row is read. The rows are collected in the keys first, because
  // writing them to `order` at once would overwrite rows that are still to be read.
  for (uint64_t& key : keys) {
    const auto place = static_cast<size_t>(key & 0xFFFFFFFFu);
    key = static_cast<uint64_t>(static_cast<uint32_t>(order[place]));
  }
  for (size_t i = 0; i < order.size(); ++i) {
    order[i] = static_cast<int32_t>(keys[i]);
  }
}

}  // namespace

SamplingStrategy parse_sampling_strategy(std::string_view word) {
  if (word == "random") {
    return SamplingStrategy::kRandom;
  }
  if (word == "sequential") {
    return SamplingStrategy::kSequential;
  }
  if (word == "group_by_length") {
    return SamplingStrategy::kGroupByLength;
  }
  throw_error(ErrorCode::kUsage,
              "--train_sampling_strategy must be random, sequential or group_by_length, not '{}'", word);
}

void order_epoch(const SamplerOptions& options, int64_t epoch, std::span<const int32_t> lengths,
                 OrderScratch& scratch, std::span<int32_t> order) {
  if (options.strategy == SamplingStrategy::kSequential) {
    std::iota(order.begin(), order.end(), 0);
    return;
  }
  shuffle(options.seed, epoch, order);
  if (options.strategy == SamplingStrategy::kGroupByLength && !order.empty()) {
    PLIMSOLL_CHECK(lengths.size() == order.size(),
                   "grouping by length needs one length per row, but there are {} lengths for {} rows",
                   lengths.size(), order.size());
    group_by_length(options, lengths, scratch, order);
  }
}

Sampler::Sampler(const SamplerOptions& options, std::vector<int32_t> lengths, std::vector<int32_t> sequences)
    : options_(options), lengths_(std::move(lengths)), sequences_(std::move(sequences)) {
  PLIMSOLL_CHECK(sequences_.empty() || sequences_.size() == lengths_.size(),
                 "the sampler needs the number of sequences of every row or none, but has {} for {} rows",
                 sequences_.size(), lengths_.size());
  PLIMSOLL_CHECK(options.batch_size >= 1 && options.accumulation_steps >= 1 && !lengths_.empty(),
                 "the batch size ({}), the number of accumulation steps ({}) and the number of rows ({}) "
                 "must be at least 1",
                 options.batch_size, options.accumulation_steps, lengths_.size());
  rows_per_epoch_ = num_rows();
  if (options.last_batch == LastBatch::kDrop) {
    rows_per_epoch_ -= rows_per_epoch_ % options.batch_size;
    if (rows_per_epoch_ == 0) {
      throw_error(ErrorCode::kUsage,
                  "--dataloader_drop_last leaves no data: {} rows are fewer than a batch of {}\n  use a "
                  "smaller --per_device_train_batch_size",
                  num_rows(), options.batch_size);
    }
  }
  order_.resize(lengths_.size());
  if (options.strategy == SamplingStrategy::kGroupByLength) {
    scratch_.keys.resize(lengths_.size());
  }
}

int64_t Sampler::batches_per_epoch() const {
  return (rows_per_epoch_ + options_.batch_size - 1) / options_.batch_size;
}

void Sampler::normalize() {
  if (position_.index >= rows_per_epoch_) {
    position_ = {position_.epoch + 1, 0};
  }
}

void Sampler::seek(DataPosition position) {
  PLIMSOLL_CHECK(position.epoch >= 0 && position.index >= 0);
  position_ = position;
  normalize();
}

Sampler::Step Sampler::next() {
  if (ordered_epoch_ != position_.epoch) {
    order_epoch(options_, position_.epoch, lengths_, scratch_, order_);
    ordered_epoch_ = position_.epoch;
  }
  const int64_t count = std::min(options_.batch_size, rows_per_epoch_ - position_.index);
  Step step;
  step.rows = std::span<const int32_t>(order_).subspan(static_cast<size_t>(position_.index),
                                                       static_cast<size_t>(count));
  const int64_t step_count =
      std::min(options_.batch_size * options_.accumulation_steps, rows_per_epoch_ - position_.index);
  step.step_rows = std::span<const int32_t>(order_).subspan(static_cast<size_t>(position_.index),
                                                            static_cast<size_t>(step_count));
  step.position = position_;
  position_.index += count;
  step.last_in_epoch = position_.index >= rows_per_epoch_;
  normalize();
  step.next = position_;
  return step;
}

}  // namespace plimsoll
