// The three products of the linear layers of MiniLM, BERT-base and BERT-large. Arguments: product (0 y, 1 dX,
// 2 dW), T, N, K. A large B is packed on the way, as in training. FLOPs are those of the contract.
#include <benchmark/benchmark.h>

#include <vector>

#include "device/cpu/cpu_features.h"
#include "device/cpu/parallel.h"
#include "kernels/matmul/matmul.h"

namespace plimsoll {
namespace {

MatmulProblem product_of(const benchmark::State& state, DType dtype) {
  const int64_t T = state.range(1), N = state.range(2), K = state.range(3);
  MatmulProblem problem;
  if (state.range(0) == 0)
    problem = {.m = T, .n = N, .k = K, .trans_b = Transpose::kYes, .bias = MatmulBias::kRow};
  if (state.range(0) == 1) problem = {.m = T, .n = K, .k = N};
  if (state.range(0) == 2) problem = {.m = N, .n = K, .k = T, .trans_a = Transpose::kYes};
  problem.a = dtype;
  problem.b = state.range(0) == 2 ? dtype : DType::kF32;  // weights are fp32 masters
  problem.c = state.range(0) == 2 ? DType::kF32 : dtype;
  problem.num_threads = num_threads();
  problem.isa = cpu_isa();
  return problem;
}

void matmul(benchmark::State& state, DType dtype) {
  if (dtype == DType::kBF16 && !has_bf16_products(cpu_isa()))
    return state.SkipWithError("no bf16 on this CPU");
  const MatmulProblem problem = product_of(state, dtype);
  const auto size = [](int64_t count) { return static_cast<size_t>(count); };
  std::vector<float> a(size(problem.m * problem.k)), b(size(problem.k * problem.n)),
      c(size(problem.m * problem.n)), bias(size(problem.n));
  // Page-aligned, as in the arena.
  const int64_t scratch_bytes = matmul_scratch_bytes(problem);
  std::vector<std::byte> memory(size(scratch_bytes + 4096));
  std::byte* scratch = memory.data() + (4096 - reinterpret_cast<uintptr_t>(memory.data()) % 4096) % 4096;
  MatmulArgs args{.a = {a.data(), problem.a},
                  .b = {b.data(), problem.b},
                  .bias = {},
                  .c = {c.data(), problem.c},
                  .scratch = {scratch, size(scratch_bytes)}};
  if (problem.bias == MatmulBias::kRow) args.bias = {bias.data(), DType::kF32};
  const auto prepared = prepare_matmul_cpu(problem);
  for (auto _ : state) prepared->run(args);
  state.SetLabel(prepared->description());
  state.counters["FLOP/s"] = benchmark::Counter(static_cast<double>(matmul_flops(problem)),
                                                benchmark::Counter::kIsIterationInvariantRate);
}

void layers(benchmark::internal::Benchmark* benchmark) {
  for (const int64_t T : {256, 1024, 2048}) {
    for (const int64_t H : {384, 768, 1024}) {
      for (const auto& [N, K] : {std::pair<int64_t, int64_t>{H, H}, {4 * H, H}, {H, 4 * H}}) {
        for (const int64_t product : {0, 1, 2}) benchmark->Args({product, T, N, K});
      }
    }
  }
  benchmark->UseRealTime()->Unit(benchmark::kMillisecond)->MinTime(0.2);
}
BENCHMARK_CAPTURE(matmul, f32, DType::kF32)->Apply(layers);
BENCHMARK_CAPTURE(matmul, bf16, DType::kBF16)->Apply(layers);

}  // namespace
}  // namespace plimsoll

BENCHMARK_MAIN();
