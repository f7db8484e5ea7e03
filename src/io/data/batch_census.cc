#include "io/data/batch_census.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/check.h"

namespace plimsoll {

void BatchCensus::add(const BatchSize& batch) {
  largest.tokens = std::max(largest.tokens, batch.tokens);
  largest.sequences = std::max(largest.sequences, batch.sequences);
  largest.longest = std::max(largest.longest, batch.longest);
  total_tokens += batch.tokens;
  total_sequences += batch.sequences;
  ++num_walked;
  const auto at = std::ranges::lower_bound(counts, batch.tokens, {}, &std::pair<int64_t, int64_t>::first);
  if (at != counts.end() && at->first == batch.tokens) {
    ++at->second;
  } else {
    counts.insert(at, {batch.tokens, 1});
  }
}

BatchCensus count_batches(Sampler sampler, int64_t num_epochs, int64_t max_walked_rows) {
  const bool is_same_each_epoch = sampler.options().strategy == SamplingStrategy::kSequential;
  const int64_t affordable = std::max<int64_t>(1, max_walked_rows / sampler.rows_per_epoch());
  const int64_t walked = std::min(num_epochs, is_same_each_epoch ? 1 : affordable);
  BatchCensus census;
  sampler.seek({0, 0});
  for (int64_t batch = 0; batch < walked * sampler.batches_per_epoch(); ++batch) {
    const Sampler::Step step = sampler.next();
    BatchSize size{.sequences = sampler.sequences().empty() ? std::ssize(step.rows) : 0};
    for (const int32_t row : step.rows) {
      const int64_t length = sampler.lengths()[static_cast<size_t>(row)];
      size.tokens += length;
      size.longest = std::max(size.longest, length);
      if (!sampler.sequences().empty()) size.sequences += sampler.sequences()[static_cast<size_t>(row)];
    }
    census.add(size);
  }
  census.num_batches = num_epochs * sampler.batches_per_epoch();
  if (walked == num_epochs) return census;
  // Divides the sums by the number of simulated epochs (`walked`) and multiplies them by the number of all epochs. Epochs contain the same
  // rows, except for those dropped with an incomplete last batch, so the error is small.
  census.total_tokens = census.total_tokens / walked * num_epochs;
  census.total_sequences = census.total_sequences / walked * num_epochs;
  if (is_same_each_epoch) return census;
  census.is_exact = false;
  census.largest.tokens = largest_batch_tokens(sampler.lengths(), sampler.options().batch_size);
  census.largest.sequences = largest_batch_sequences(sampler);
  census.largest.longest = *std::ranges::max_element(sampler.lengths());
  return census;
}

namespace {

// Returns the sum of the `batch_size` largest elements of `numbers`, such as the lengths of the longest rows.
int64_t sum_of_largest(std::span<const int32_t> numbers, int64_t batch_size) {
  std::vector<int32_t> sorted(numbers.begin(), numbers.end());
  const auto count = static_cast<std::ptrdiff_t>(std::min(std::ssize(sorted), batch_size));
  std::ranges::partial_sort(sorted, sorted.begin() + count, std::greater<>());
  return std::accumulate(sorted.begin(), sorted.begin() + count, int64_t{0});
}

}  // namespace

int64_t largest_batch_tokens(std::span<const int32_t> lengths, int64_t batch_size) {
  return sum_of_largest(lengths, batch_size);
}

int64_t largest_batch_sequences(const Sampler& sampler) {
  const int64_t batch_size = sampler.options().batch_size;
  return sampler.sequences().empty() ? std::min(sampler.num_rows(), batch_size)
                                     : sum_of_largest(sampler.sequences(), batch_size);
}

BatchSize largest_batch_without_data(int64_t batch_size, int64_t max_seq_length) {
  return {batch_size * max_seq_length, batch_size, max_seq_length};
}

}  // namespace plimsoll
