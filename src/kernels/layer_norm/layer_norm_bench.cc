// Compares the normalization kernels with the machine's copy bandwidth. Each benchmark prints the bytes per second that a kernel reads and
// writes according to its contract. Compare them with those of the benchmark `copy` of the same size, which reads once and writes once.
#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "device/cpu/parallel.h"
#include "kernels/element_wise/chunks.h"
#include "kernels/layer_norm/bias_dropout_residual_norm.h"
#include "kernels/layer_norm/normalize.h"
#include "kernels/layer_norm/rms_norm.h"

namespace plimsoll {
namespace {

constexpr RandomSite kSite{.seed = 42, .step = 1, .site = 2};

// The tensors of a benchmark. state.range(0) is the number of rows, state.range(1) that of columns, and state.range(2) that of threads.
struct Tensors {
  DType dtype;
  int64_t T, C;
  std::vector<float> storage[5];
  std::vector<float> rows[6];
  std::vector<float> rstd, scratch;

  Tensors(const benchmark::State& state, DType type) : dtype(type), T(state.range(0)), C(state.range(1)) {
    set_num_threads(static_cast<int>(state.range(2)));
    for (std::vector<float>& tensor : storage) {
      tensor.resize(static_cast<size_t>(T * C));
      for (int64_t i = 0; i < T * C; ++i) {
        const float value = static_cast<float>(i % 601) * 0.01f - 3.0f;
        const uint16_t bits = f32_to_bf16(value);
        if (dtype == DType::kF32) tensor[static_cast<size_t>(i)] = value;
        if (dtype == DType::kBF16) std::memcpy(reinterpret_cast<char*>(tensor.data()) + 2 * i, &bits, 2);
      }
    }
    for (std::vector<float>& row : rows) row.assign(static_cast<size_t>(C), 0.5f);
    rstd.assign(static_cast<size_t>(T), 1.0f);
    scratch.resize(static_cast<size_t>(bias_dropout_residual_norm_bwd_scratch_bytes(T, C) / 4));
  }
  View at(int i) { return {storage[i].data(), dtype}; }
  View row(int i) { return {rows[i].data(), DType::kF32}; }
  View rstd_view() { return {rstd.data(), DType::kF32}; }
  void report(benchmark::State& state, int64_t tensors_moved) const {
    state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * tensors_moved * T * C *
                            dtype_bytes(dtype));
  }
};

// The baseline: std::memcpy with the same division of the data among the same number of threads.
void copy(benchmark::State& state) {
  Tensors t(state, DType::kF32);
  for (auto _ : state) {
    for_each_chunk(t.T * t.C, [&](int64_t begin, int64_t end) {
      std::memcpy(t.storage[1].data() + begin, t.storage[0].data() + begin,
                  static_cast<size_t>(end - begin) * 4);
    });
    benchmark::ClobberMemory();
  }
  t.report(state, 2);
}
template <DType kType>
void normalize_fwd(benchmark::State& state) {
  Tensors t(state, kType);
  for (auto _ : state) normalize_fwd_cpu({t.at(0), t.at(1), t.rstd_view(), t.T, t.C});
  t.report(state, 2);
}
template <DType kType>
void normalize_bwd(benchmark::State& state) {
  Tensors t(state, kType);
  for (auto _ : state) normalize_bwd_cpu({t.at(0), t.at(1), t.rstd_view(), t.at(2), t.T, t.C});
  t.report(state, 3);
}
template <DType kType>
void rms_norm_fwd(benchmark::State& state) {
  Tensors t(state, kType);
  const RmsNormDims dims{.T = t.T, .N = t.C, .C = t.C};
  for (auto _ : state) rms_norm_fwd_cpu({dims, t.at(0), t.row(0), {}, t.at(1), t.rstd_view(), 1e-5});
  t.report(state, 2);
}
template <DType kType>
void rms_norm_bwd(benchmark::State& state) {
  Tensors t(state, kType);
  const RmsNormDims dims{.T = t.T, .N = t.C, .C = t.C};
  const View scratch{t.scratch.data(), DType::kU8};
  for (auto _ : state) {
    rms_norm_bwd_cpu({dims, t.at(0), t.at(1), t.row(0), {}, t.rstd_view(), t.at(2), t.row(1), {}, scratch});
  }
  t.report(state, 3);
}
// The forward pass with all operands. range(3) is the dropout probability in percent.
template <DType kType>
void fused_fwd(benchmark::State& state) {
  Tensors t(state, kType);
  BiasDropoutResidualNormFwdArgs args;
  args.x = t.at(0);
  args.bias = t.row(0);
  args.residual = t.at(1);
  args.gain = t.row(1);
  args.beta = t.row(2);
  args.y = t.at(2);
  args.x_hat = t.at(3);
  args.rstd = t.rstd_view();
  args.T = t.T;
  args.C = t.C;
  args.eps = 1e-12;
  args.p = static_cast<double>(state.range(3)) / 100.0;
  args.where = kSite;
  for (auto _ : state) bias_dropout_residual_norm_fwd_cpu(args);
  t.report(state, 4);
}
template <DType kType>
void fused_bwd(benchmark::State& state) {
  Tensors t(state, kType);
  BiasDropoutResidualNormBwdArgs args;
  args.d_y = t.at(0);
  args.d_y2 = t.at(1);
  args.x_hat = t.at(2);
  args.rstd = t.rstd_view();
  args.gain = t.row(0);
  args.d_residual = t.at(3);
  args.p = static_cast<double>(state.range(3)) / 100.0;
  if (args.p > 0.0) args.d_x = t.at(4);
  args.d_bias = t.row(1);
  args.d_gain = t.row(2);
  args.d_beta = t.row(3);
  args.scratch = {t.scratch.data(), DType::kU8};
  args.T = t.T;
  args.C = t.C;
  args.where = kSite;
  for (auto _ : state) bias_dropout_residual_norm_bwd_cpu(args);
  t.report(state, args.p > 0.0 ? 5 : 4);
}

constexpr std::pair<int64_t, int64_t> kShapes[] = {{128, 384}, {4096, 384}, {1024, 768}, {65536, 768}};

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"T", "C", "threads"})->Unit(benchmark::kMicrosecond)->UseRealTime();
  for (const auto& [T, C] : kShapes) {
    for (const int64_t threads : {1, 2}) bench->Args({T, C, threads});
  }
}
void sizes_with_dropout(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"T", "C", "threads", "p"})->Unit(benchmark::kMicrosecond)->UseRealTime();
  for (const auto& [T, C] : kShapes) {
    for (const int64_t threads : {1, 2}) {
      for (const int64_t per_cent : {0, 10}) bench->Args({T, C, threads, per_cent});
    }
  }
}

BENCHMARK(copy)->Apply(sizes);
BENCHMARK(normalize_fwd<DType::kF32>)->Apply(sizes);
BENCHMARK(normalize_bwd<DType::kF32>)->Apply(sizes);
BENCHMARK(rms_norm_fwd<DType::kF32>)->Apply(sizes);
BENCHMARK(rms_norm_fwd<DType::kBF16>)->Apply(sizes);
BENCHMARK(rms_norm_bwd<DType::kF32>)->Apply(sizes);
BENCHMARK(rms_norm_bwd<DType::kBF16>)->Apply(sizes);
BENCHMARK(fused_fwd<DType::kF32>)->Apply(sizes_with_dropout);
BENCHMARK(fused_fwd<DType::kBF16>)->Apply(sizes_with_dropout);
BENCHMARK(fused_bwd<DType::kF32>)->Apply(sizes_with_dropout);
BENCHMARK(fused_bwd<DType::kBF16>)->Apply(sizes_with_dropout);

}  // namespace
}  // namespace plimsoll

BENCHMARK_MAIN();
