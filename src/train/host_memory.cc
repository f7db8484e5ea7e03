#include "train/host_memory.h"

#include "io/data/batch.h"
#include "train/run_setup.h"

namespace plimsoll {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// The program, its libraries as far as they are touched and the allocator's slack: the VmHWM less arena and
// data of runs with one bucket, rounded up.
constexpr int64_t kProcessBytes = 26 * kMiB;
// A thread's stack and what oneDNN keeps for it.
constexpr int64_t kBytesPerThread = 1 * kMiB;
// A chunk of a checkpoint on its way, with conversion, and its JSON texts.
constexpr int64_t kIoBytes = 4 * kMiB;
// Of a tokenizer's vocabulary, trie and tables, per token.
constexpr int64_t kTokenizerBytesPerToken = 256;
// A bound bucket: closures per op, and the products compiled for its shapes (measured: 0.25 MiB a bucket).
constexpr int64_t kBytesPerBoundOp = 512;
constexpr int64_t kCompiledBytesPerBucket = kMiB / 4;

int64_t bytes_of(const std::optional<Dataset>& data) {
  // Beside the tokens: lengths and order of the sampler (two i32 and one u64 key a row).
  return data ? data->held_bytes() + 16 * data->num_rows() : 0;
}

}  // namespace

int64_t train_buckets_used(const RunSetup& setup) {
  if (setup.train_census.num_batches == 0) return 1;
  const std::vector<Bucket> ladder = make_ladder(setup.request.train_bucket);
  int64_t used = 0;
  size_t batch = 0;
  const std::vector<int32_t>& tokens = setup.train_census.tokens;
  for (const Bucket& bucket : ladder) {
    const size_t first = batch;
    while (batch < tokens.size() && tokens[batch] <= bucket.tokens) ++batch;
    if (batch > first) ++used;
  }
  return used;
}

HostMemory estimate_host_memory(const RunSetup& setup) {
  HostMemory host;
  const int64_t threads = setup.request.num_threads;
  const int64_t ops = 60 * setup.model.num_hidden_layers;
  host.process_bytes = kProcessBytes + threads * kBytesPerThread +
                       (train_buckets_used(setup) + 4) * (ops * kBytesPerBoundOp + kCompiledBytesPerBucket);
  host.data_bytes = bytes_of(setup.train) + bytes_of(setup.evaluate) + bytes_of(setup.evaluate_mismatched) +
                    bytes_of(setup.predict) + bytes_of(setup.predict_mismatched);
  if (setup.tokenizer) host.data_bytes += setup.tokenizer->vocab_size() * kTokenizerBytesPerToken;
  const int64_t slots =
      1 + setup.arguments.dataloader_num_workers * setup.arguments.dataloader_prefetch_factor.value_or(2);
  host.data_bytes += slots * 16 * setup.request.train_bucket.tokens;
  host.io_bytes = kIoBytes;
  return host;
}

}  // namespace plimsoll
