// Benchmarks the three matrix products of the linear layers of MiniLM, BERT-base and BERT-large with each CPU implementation in the kernel
// catalog. Arguments of a benchmark: product (0 y, 1 dX, 2 dW), T, N, K, with the letters of matmul_catalog.h. A large B is converted to
// the implementation's layout ("packed") during the run, as in training. FLOPs are counted as in matmul.h.
#include <benchmark/benchmark.h>

#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "device/cpu/cpu_features.h"
#include "device/cpu/parallel.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/pack_pairs.h"
#include "kernels/matmul/testing/matmul_rows.h"

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
  // The second operand, B, of the product dW is an activation. In the other two products B is a weight, which is stored in fp32.
  problem.b = state.range(0) == 2 ? dtype : DType::kF32;
  problem.c = state.range(0) == 2 ? DType::kF32 : dtype;
  problem.num_threads = num_threads();
  problem.isa = cpu_isa();
  return problem;
}

void matmul(benchmark::State& state, const KernelRow& row, DType dtype) {
  const MatmulProblem problem = test::on_row(row, product_of(state, dtype));
  if (!test::accepts(row, problem, cpu_isa()))
    return state.SkipWithError("the implementation does not support the matrix product");
  const auto size = [](int64_t count) { return static_cast<size_t>(count); };
  std::vector<float> a(size(problem.m * problem.k)), b(size(problem.k * problem.n)),
      c(size(problem.m * problem.n)), bias(size(problem.n));
  // Scratch memory begins at a multiple of 4096 bytes, as in the arena of a run.
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
// Registers a benchmark for each implementation and type, for example "matmul_cpu_onednn/bf16".
void register_rows() {
  for (const KernelRow* row : test::cpu_matmul_rows()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const std::string name = fmt::format("{}/{}", row->implementation, dtype_name(dtype));
      layers(benchmark::RegisterBenchmark(
          name.c_str(), [row, dtype](benchmark::State& state) { matmul(state, *row, dtype); }));
    }
  }
}

// The variants of a product that are measured separately: the whole product, the product with B already in oneDNN's layout, the conversion
// of B to that layout, and, for the gradient of a weight, products with dY transposed beforehand.
enum class Part : int64_t { kWhole, kPackedB, kPacking, kPlainA, kPlainAPackedB, kTransposedAPackedB };

void parts(benchmark::State& state, DType dtype) {
  if (dtype == DType::kBF16 && !has_bf16_products(cpu_isa()))
    return state.SkipWithError("no bf16 on this CPU");
  MatmulProblem problem = product_of(state, dtype);
  const auto part = static_cast<Part>(state.range(4));
  if (part == Part::kPlainA || part == Part::kPlainAPackedB) problem.trans_a = Transpose::kNo;
  if (part != Part::kWhole && part != Part::kPlainA) problem.b_operand = MatmulOperand::kPacked;
  const auto size = [](int64_t count) { return static_cast<size_t>(count); };
  std::vector<float> a(size(problem.m * problem.k)), plain(size(problem.k * problem.n)),
      c(size(problem.m * problem.n));
  const int64_t scratch_bytes = matmul_scratch_bytes(problem);
  const int64_t packed_bytes = matmul_packed_b_bytes(problem);
  std::vector<std::byte> memory(size(scratch_bytes + packed_bytes + 8192));
  std::byte* scratch = memory.data() + (4096 - reinterpret_cast<uintptr_t>(memory.data()) % 4096) % 4096;
  std::byte* packed = scratch + (scratch_bytes + 4095) / 4096 * 4096;
  problem.bias = MatmulBias::kNone;
  const auto prepared = prepare_matmul_cpu(problem);
  const ConstView plain_b{plain.data(), problem.b};
  const bool is_packed = problem.b_operand == MatmulOperand::kPacked;
  MatmulArgs args{.a = {a.data(), problem.a},
                  .b = is_packed ? ConstView{packed, problem.a} : plain_b,
                  .bias = {},
                  .c = {c.data(), problem.c},
                  .scratch = {scratch, size(scratch_bytes)}};
  for (auto _ : state) {
    if (part == Part::kPacking) {
      prepared->pack_b(plain_b, {packed, size(packed_bytes)}, args.scratch);
    } else {
      prepared->run(args);
    }
  }
  state.SetLabel(prepared->description());
  state.counters["FLOP/s"] = benchmark::Counter(static_cast<double>(matmul_flops(problem)),
                                                benchmark::Counter::kIsIterationInvariantRate);
}

void layer_parts(benchmark::internal::Benchmark* benchmark) {
  for (const auto& [T, N, K] : {std::array<int64_t, 3>{1024, 2304, 768},
                                {1024, 768, 768},
                                {1024, 3072, 768},
                                {1024, 768, 3072},
                                {4096, 1536, 384},
                                {4096, 384, 384}}) {
    for (const int64_t product : {0, 1, 2}) {
      for (int64_t part = 0; part < (product == 2 ? 6 : 3); ++part) benchmark->Args({product, T, N, K, part});
    }
  }
  benchmark->UseRealTime()->Unit(benchmark::kMillisecond)->MinTime(0.2);
}
BENCHMARK_CAPTURE(parts, f32, DType::kF32)->Apply(layer_parts);
BENCHMARK_CAPTURE(parts, bf16, DType::kBF16)->Apply(layer_parts);

// Benchmarks the packing of B. Arguments: k, n, transposed. 12 matrices are packed in turn, so that they are read from memory and not from
// the cache, like weights in a training step.
void pack_pairs(benchmark::State& state) {
  const int64_t k = state.range(0), n = state.range(1);
  constexpr size_t kMatrices = 12;
  const PairTiles tiles{64, kPairTileTerms * 64, kPairTileTerms * 64 * ((k + 31) / 32)};
  std::vector<std::vector<float>> plain(kMatrices, std::vector<float>(static_cast<size_t>(k * n), 1.0f));
  std::vector<BF16> packed(static_cast<size_t>((n + 63) / 64 * tiles.column_tile_stride));
  size_t i = 0;
  for (auto _ : state) {
    pack_pairs_cpu(plain[i++ % kMatrices].data(), k, n,
                   state.range(2) != 0 ? Transpose::kYes : Transpose::kNo, tiles, packed.data());
  }
  state.SetBytesProcessed(state.iterations() * k * n * 6);
}
BENCHMARK(pack_pairs)
    ->ArgsProduct({{768, 3072}, {768, 3072}, {0, 1}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  plimsoll::register_rows();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
