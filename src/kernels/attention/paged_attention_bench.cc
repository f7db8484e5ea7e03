// Benchmarks decoding with paged attention and prints the bytes of keys and values read per second. BM_ReadMemory measures, in the same
// run, the memory bandwidth with which to compare them.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "device/cpu/parallel.h"
#include "kernels/attention/paged_attention.h"

namespace plimsoll {
namespace {

struct DecodeShape {
  const char* name;
  int64_t sequences, length, heads, kv_heads, head_dim;
};
constexpr DecodeShape kShapes[] = {
    {"gpt2_1x1024", 1, 1024, 12, 12, 64},    {"gpt2_32x192", 32, 192, 12, 12, 64},
    {"gpt2_8x1024", 8, 1024, 12, 12, 64},    {"llama1b_1x8192", 1, 8192, 32, 8, 64},
    {"llama8b_8x4096", 8, 4096, 32, 8, 128}, {"qwen05b_8x4096", 8, 4096, 14, 2, 64},
};

// Runs one decoding step of a model. The model has enough layers, each with its own KV cache, that no KV cache is still in the processor's
// cache when the next step reads it.
void decode(benchmark::State& state, const DecodeShape& shape, DType dtype) {
  constexpr int64_t kPageSize = 16, kBytesOfAllLayers = 1 << 29;
  PagedAttentionDims dims{.tokens = shape.sequences,
                          .sequences = shape.sequences,
                          .longest = 1,
                          .heads = shape.heads,
                          .kv_heads = shape.kv_heads,
                          .head_dim = shape.head_dim,
                          .num_pages = 0,
                          .page_size = kPageSize,
                          .max_pages = shape.length / kPageSize,
                          .window = 0};
  dims.num_pages = dims.sequences * dims.max_pages;
  const int64_t element = dtype_bytes(dtype);
  const int64_t layer_bytes = dims.num_pages * kPageSize * 2 * dims.kv_heads * dims.head_dim * element;
  const int64_t layers = std::max<int64_t>(1, kBytesOfAllLayers / layer_bytes);
  std::vector<uint16_t> cache(
      static_cast<size_t>(layers * layer_bytes / 2),
      // Every 16-bit word is 0x3c01. The elements are then about 0.008 both in bf16 (0x3c01) and in fp32
      // (0x3c013c01).
      0x3c01);
  std::vector<uint16_t> qkv(
      static_cast<size_t>(dims.tokens * (dims.heads + 2 * dims.kv_heads) * dims.head_dim * element / 2),
      0x3c01);
  std::vector<uint16_t> o(static_cast<size_t>(dims.tokens * dims.heads * dims.head_dim * element / 2));
  std::vector<int32_t> table(static_cast<size_t>(dims.num_pages)),
      lengths(static_cast<size_t>(dims.sequences)), cu(static_cast<size_t>(dims.sequences + 1));
  std::iota(table.begin(), table.end(), 0);
  std::shuffle(table.begin(), table.end(), std::mt19937(1));
  std::iota(cu.begin(), cu.end(), 0);
  std::fill(lengths.begin(), lengths.end(), static_cast<int32_t>(shape.length));
  const int64_t scratch_bytes = paged_attention_cpu_scratch_bytes(dims, num_threads());
  std::vector<float> scratch(static_cast<size_t>(scratch_bytes / 4));
  int64_t layer = 0;
  for (auto _ : state) {
    paged_attention_cpu({.dims = dims,
                         .scale = 1.0 / std::sqrt(static_cast<double>(dims.head_dim)),
                         .qkv = {qkv.data(), dtype},
                         .cu_seqlens = {cu.data(), DType::kI32},
                         .page_table = {table.data(), DType::kI32},
                         .lengths = {lengths.data(), DType::kI32},
                         .cache = {cache.data() + layer * layer_bytes / 2, dtype},
                         .o = {o.data(), dtype},
                         .scratch = {scratch.data(), DType::kF32},
                         .scratch_bytes = scratch_bytes});
    layer = (layer + 1) % layers;
  }
  state.SetBytesProcessed(state.iterations() * layer_bytes);
}

// Measures the bandwidth of reading memory: reads 512 MiB on all threads, eight words at a time.
void BM_ReadMemory(benchmark::State& state) {
  const std::vector<uint64_t> memory(size_t{1} << 26, 1);
  constexpr int64_t kBlock = 1 << 15;
  for (auto _ : state) {
    parallel_for(static_cast<int64_t>(memory.size()) / kBlock, [&](int64_t block, int) {
      const uint64_t* from = memory.data() + block * kBlock;
      uint64_t a = 0, b = 0, c = 0, d = 0;
      for (int64_t i = 0; i < kBlock; i += 8) {
        a ^= from[i] ^ from[i + 1];
        b ^= from[i + 2] ^ from[i + 3];
        c ^= from[i + 4] ^ from[i + 5];
        d ^= from[i + 6] ^ from[i + 7];
      }
      benchmark::DoNotOptimize(a ^ b ^ c ^ d);
    });
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(memory.size()) * 8);
}
BENCHMARK(BM_ReadMemory)->UseRealTime();

[[maybe_unused]] const bool kRegistered = [] {
  for (const DecodeShape& shape : kShapes) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const std::string name =
          std::string("paged_attention/") + shape.name + "/" + std::string(dtype_name(dtype));
      benchmark::RegisterBenchmark(name.c_str(), [&shape, dtype](benchmark::State& state) {
        decode(state, shape, dtype);
      })->UseRealTime();
    }
  }
  return true;
}();

}  // namespace
}  // namespace plimsoll
