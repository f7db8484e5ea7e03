#include "train/host_memory.h"

#include "io/data/batch.h"
#include "train/run_setup.h"

namespace plimsoll {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// The program, its libraries as far as they are touched, compiled kernels and the allocator's slack: the
// VmHWM of runs with an arena of a few MiB, rounded up (tests/training/memory_test.cc holds the sum to the
// truth).
constexpr int64_t kProcessBytes = 56 * kMiB;
// A thread's stack and what oneDNN keeps for it.
constexpr int64_t kBytesPerThread = 2 * kMiB;
// Chunks of a checkpoint on their way, with conversion: see io/ckpt.
constexpr int64_t kIoBytes = 8 * kMiB;
// Of a tokenizer's vocabulary, trie and tables, per token.
constexpr int64_t kTokenizerBytesPerToken = 512;
// A bound bucket: closures and compiled products per op.
constexpr int64_t kBytesPerBoundOp = 4096;

int64_t bytes_of(const std::optional<Dataset>& data) {
  // Beside the tokens: lengths and order of the sampler (two i32 and one u64 key a row).
  return data ? data->held_bytes() + 16 * data->num_rows() : 0;
}

}  // namespace

HostMemory estimate_host_memory(const RunSetup& setup) {
  HostMemory host;
  const int64_t threads = setup.request.num_threads;
  const int64_t ops = 60 * setup.model.num_hidden_layers;
  constexpr int64_t kBuckets = 12;
  host.process_bytes = kProcessBytes + threads * kBytesPerThread + kBuckets * ops * kBytesPerBoundOp;
  host.data_bytes = bytes_of(setup.train) + bytes_of(setup.evaluate) + bytes_of(setup.evaluate_mismatched) +
                    bytes_of(setup.predict);
  if (setup.tokenizer) host.data_bytes += setup.tokenizer->vocab_size() * kTokenizerBytesPerToken;
  const int64_t slots =
      1 + setup.arguments.dataloader_num_workers * setup.arguments.dataloader_prefetch_factor.value_or(2);
  host.data_bytes += slots * 16 * setup.request.train_bucket.tokens;
  host.io_bytes = kIoBytes;
  return host;
}

}  // namespace plimsoll
