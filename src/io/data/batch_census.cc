#include "io/data/batch_census.h"

#include <algorithm>

#include "base/check.h"

namespace plimsoll {

BatchCensus count_batches(Sampler sampler, int64_t num_epochs, int64_t max_batches) {
  BatchCensus census;
  const int64_t all = num_epochs * sampler.batches_per_epoch();
  census.num_batches = max_batches < 0 ? all : std::min(all, max_batches);
  census.tokens.reserve(static_cast<size_t>(census.num_batches));
  sampler.seek({0, 0});
  for (int64_t batch = 0; batch < census.num_batches; ++batch) {
    const Sampler::Step step = sampler.next();
    BatchSize size;
    size.sequences = static_cast<int64_t>(step.rows.size());
    for (const int32_t row : step.rows) {
      const int64_t length = sampler.lengths()[static_cast<size_t>(row)];
      size.tokens += length;
      size.longest = std::max(size.longest, length);
    }
    census.largest.tokens = std::max(census.largest.tokens, size.tokens);
    census.largest.sequences = std::max(census.largest.sequences, size.sequences);
    census.largest.longest = std::max(census.largest.longest, size.longest);
    census.total_tokens += size.tokens;
    census.total_sequences += size.sequences;
    census.tokens.push_back(narrow<int32_t>(size.tokens));
  }
  std::sort(census.tokens.begin(), census.tokens.end());
  return census;
}

BatchSize largest_batch_without_data(int64_t batch_size, int64_t max_seq_length) {
  return {batch_size * max_seq_length, batch_size, max_seq_length};
}

}  // namespace plimsoll
