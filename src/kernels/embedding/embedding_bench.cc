// Benchmarks sums of embeddings and their gradients at the sizes of MiniLM and BERT-base. The program prints the bytes per second that the
// kernels read and write, counted as embedding.h states.
#include <benchmark/benchmark.h>

#include <vector>

#include "base/philox.h"
#include "kernels/embedding/embedding.h"
#include "kernels/embedding/rope.h"
#include "kernels/embedding/sort_ids.h"

namespace plimsoll {
namespace {

std::vector<int32_t> random_ids(int64_t count, int64_t bound) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (size_t t = 0; t < ids.size(); ++t) {
    ids[t] = static_cast<int32_t>(philox_element({.seed = 1}, t) % static_cast<uint32_t>(bound));
  }
  return ids;
}

void embedding_sum_fwd(benchmark::State& state) {
  const int64_t T = state.range(0), C = state.range(1), V = 30522;
  std::vector<float> words(static_cast<size_t>(V * C), 1.0f), positions(static_cast<size_t>(512 * C), 1.0f),
      types(static_cast<size_t>(2 * C), 1.0f), x(static_cast<size_t>(T * C));
  const auto word_ids = random_ids(T, V), position_ids = random_ids(T, 512), type_ids = random_ids(T, 2);
  const auto f32 = [](const auto& v) { return ConstView{v.data(), DType::kF32}; };
  const auto i32 = [](const auto& v) { return ConstView{v.data(), DType::kI32}; };
  for (auto _ : state) {
    embedding_sum_fwd_cpu({.tables = {f32(words), f32(positions), f32(types)},
                           .ids = {i32(word_ids), i32(position_ids), i32(type_ids)},
                           .num_tables = 3,
                           .x = {x.data(), DType::kF32},
                           .T = T,
                           .C = C,
                           .num_tokens = T});
  }
  state.SetBytesProcessed(state.iterations() * 4 * T * C * 4);
}
BENCHMARK(embedding_sum_fwd)
    ->Args({4096, 384})
    ->Args({1024, 768})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

void embedding_bwd(benchmark::State& state) {
  const int64_t T = state.range(0), C = state.range(1), V = state.range(2);
  std::vector<float> d_x(static_cast<size_t>(T * C), 1.0f), d_table(static_cast<size_t>(V * C));
  std::vector<int32_t> sorted(static_cast<size_t>(2 * T));
  const auto ids = random_ids(T, V);
  sort_ids_ref({.ids = {ConstView{ids.data(), DType::kI32}},
                .sorted = {View{sorted.data(), DType::kI32}},
                .num_lists = 1,
                .T = T,
                .V = V,
                .num_tokens = T,
                .scratch = {}});
  for (auto _ : state) {
    embedding_bwd_cpu({.d_x = {d_x.data(), DType::kF32},
                       .sorted = {sorted.data(), DType::kI32},
                       .d_table = {d_table.data(), DType::kF32},
                       .T = T,
                       .C = C,
                       .V = V,
                       .scratch = {}});
  }
  state.SetBytesProcessed(state.iterations() * (T + V) * C * 4);
}
BENCHMARK(embedding_bwd)
    ->Args({4096, 384, 30522})
    ->Args({1024, 768, 30522})
    ->Args({1024, 768, 512})
    ->Args({1024, 768, 2})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

void sort_ids(benchmark::State& state) {
  const int64_t T = state.range(0), V = state.range(1);
  std::vector<int32_t> sorted(static_cast<size_t>(2 * T));
  std::vector<std::byte> scratch(static_cast<size_t>(sort_ids_scratch_bytes(V)));
  const auto ids = random_ids(T, V);
  for (auto _ : state) {
    sort_ids_cpu({.ids = {ConstView{ids.data(), DType::kI32}},
                  .sorted = {View{sorted.data(), DType::kI32}},
                  .num_lists = 1,
                  .T = T,
                  .V = V,
                  .num_tokens = T,
                  .scratch = {scratch.data(), DType::kU8}});
  }
  state.SetItemsProcessed(state.iterations() * T);
}
BENCHMARK(sort_ids)->Args({4096, 30522})->Args({65536, 30522})->Unit(benchmark::kMicrosecond);

// Benchmarks rotary embeddings at the sizes of q and k of Llama 3.2 1B: 32 and 8 heads of 64 elements, rotated in place.
void rope(benchmark::State& state) {
  constexpr int64_t T = 1024, D = 64, H = 40, N = 48 * D;
  std::vector<float> x(static_cast<size_t>(T * N), 1.0f), table(static_cast<size_t>(T * D), 0.5f);
  const View rows{x.data(), DType::kF32};
  for (auto _ : state) {
    rope_cpu({.x = rows, .table = {table.data(), DType::kF32}, .y = rows, .T = T, .N = N, .H = H, .D = D});
  }
  state.SetBytesProcessed(state.iterations() * (2 * H + 1) * T * D * 4);
}
BENCHMARK(rope)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace plimsoll

BENCHMARK_MAIN();
