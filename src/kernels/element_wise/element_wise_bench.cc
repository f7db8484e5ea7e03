// Compares the element-wise kernels with the machine's copy bandwidth. Each line of the output gives the bytes per second that a kernel
// must move according to its contract. Compare it with the line `copy` for the same size, which reads and writes every byte once. Sizes:
// tensors of 1 MiB stay in the second-level cache, those of 24 MiB have the size of one hidden layer of 32 x 128 tokens x 1536, and those
// of 256 MiB are in memory.
#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "device/cpu/parallel.h"
#include "kernels/element_wise/activation.h"
#include "kernels/element_wise/add.h"
#include "kernels/element_wise/cast.h"
#include "kernels/element_wise/chunks.h"
#include "kernels/element_wise/dropout.h"
#include "kernels/element_wise/gelu.h"
#include "kernels/element_wise/glu.h"
#include "kernels/element_wise/scale_shift.h"

namespace plimsoll {
namespace {

constexpr int64_t kColumns = 1536;
constexpr RandomSite kSite{.seed = 42, .step = 1, .site = 2};

// The tensors of a benchmark, with T rows and kColumns columns. state.range(0) is the size of an fp32 tensor in KiB, and state.range(1) is
// the number of threads.
struct Tensors {
  DType dtype;
  int64_t T, n;
  std::vector<float> storage[4];
  std::vector<float> row = std::vector<float>(kColumns, 0.5f), row_sum = row, row_sum2 = row;
  std::vector<float> scratch;

  Tensors(const benchmark::State& state, DType type) : dtype(type) {
    set_num_threads(static_cast<int>(state.range(1)));
    T = state.range(0) * 1024 / (kColumns * 4);
    n = T * kColumns;
    for (std::vector<float>& tensor : storage) {
      tensor.resize(static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i)
        tensor[static_cast<size_t>(i)] = static_cast<float>(i % 601) * 0.01f - 3.0f;
      if (dtype == DType::kBF16) cast_in_place(tensor);
    }
    scratch.resize(static_cast<size_t>(column_sums_scratch_bytes(T, kColumns, 2) / 4));
  }
  void cast_in_place(std::vector<float>& tensor) const {
    auto* to = reinterpret_cast<char*>(tensor.data());
    for (int64_t i = 0; i < n; ++i) {
      const uint16_t bits = f32_to_bf16(tensor[static_cast<size_t>(i)]);
      std::memcpy(to + 2 * i, &bits, 2);
    }
  }
  View at(int i) { return {storage[i].data(), dtype}; }
  View row_view() { return {row.data(), DType::kF32}; }
  void report(benchmark::State& state, int64_t tensors_moved) const {
    state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * tensors_moved * n *
                            dtype_bytes(dtype));
  }
};

// The baseline of the benchmark: std::memcpy, with the same chunks and threads as the kernels.
void copy(benchmark::State& state) {
  Tensors tensors(state, DType::kF32);
  for (auto _ : state) {
    for_each_chunk(tensors.n, [&](int64_t begin, int64_t end) {
      std::memcpy(tensors.storage[1].data() + begin, tensors.storage[0].data() + begin,
                  static_cast<size_t>(end - begin) * 4);
    });
    benchmark::ClobberMemory();
  }
  tensors.report(state, 2);
}

template <DType kType>
void add(benchmark::State& state) {
  Tensors t(state, kType);
  for (auto _ : state) add_fwd_cpu({t.at(0), t.at(1), t.at(2), t.n});
  t.report(state, 3);
}
template <DType kType>
void bias_add(benchmark::State& state) {
  Tensors t(state, kType);
  for (auto _ : state) bias_add_fwd_cpu({t.at(0), t.row_view(), t.at(1), t.T, kColumns});
  t.report(state, 2);
}
template <DType kType>
void bias_grad(benchmark::State& state) {
  Tensors t(state, kType);
  const View sum{t.row_sum.data(), DType::kF32};
  const View scratch{t.scratch.data(), DType::kU8};
  for (auto _ : state) bias_grad_cpu({t.at(0), sum, scratch, t.T, kColumns});
  t.report(state, 1);
}
template <DType kType, Activation kActivation>
void bias_gelu_fwd(benchmark::State& state) {
  Tensors t(state, kType);
  for (auto _ : state) bias_gelu_fwd_cpu({t.at(0), t.row_view(), t.at(1), t.T, kColumns, kActivation});
  t.report(state, 2);
}
template <DType kType, Activation kActivation>
void bias_gelu_bwd(benchmark::State& state) {
  Tensors t(state, kType);
  const View sum{t.row_sum.data(), DType::kF32};
  const View scratch{t.scratch.data(), DType::kU8};
  for (auto _ : state) {
    bias_gelu_bwd_cpu({t.at(0), t.row_view(), t.at(1), t.at(2), sum, scratch, t.T, kColumns, kActivation});
  }
  t.report(state, 3);
}
// A gated linear unit multiplies two halves of each row: x has T / 2 rows of 2 kColumns elements, as many elements as a whole tensor, and y
// and d_y have half as many. The forward kernel therefore moves 1.5 times the bytes of a tensor, and the backward kernel 2.5 times.
template <DType kType>
void glu_fwd(benchmark::State& state) {
  Tensors t(state, kType);
  for (auto _ : state) glu_fwd_cpu({t.at(0), t.at(1), t.T / 2, kColumns, Activation::kSilu});
  t.report(state, 1);
}
template <DType kType>
void glu_bwd(benchmark::State& state) {
  Tensors t(state, kType);
  for (auto _ : state) glu_bwd_cpu({t.at(0), t.at(1), t.at(2), t.T / 2, kColumns, Activation::kSilu});
  t.report(state, 2);
}
template <DType kType>
void tanh_forward(benchmark::State& state) {
  Tensors t(state, kType);
  for (auto _ : state) tanh_fwd_cpu({t.at(0), t.at(1), t.n});
  t.report(state, 2);
}
template <DType kType>
void dropout(benchmark::State& state) {
  Tensors t(state, kType);
  for (auto _ : state) dropout_fwd_cpu({t.at(0), t.at(1), t.n, 0.1, kSite});
  t.report(state, 2);
}
template <DType kType>
void scale_shift_bwd(benchmark::State& state) {
  Tensors t(state, kType);
  const View d_gain{t.row_sum.data(), DType::kF32};
  const View d_bias{t.row_sum2.data(), DType::kF32};
  const View scratch{t.scratch.data(), DType::kU8};
  for (auto _ : state) {
    scale_shift_bwd_cpu({t.at(0), t.at(1), t.row_view(), t.at(2), d_gain, d_bias, scratch, t.T, kColumns});
  }
  t.report(state, 3);
}
void cast_f32_to_bf16(benchmark::State& state) {
  Tensors t(state, DType::kF32);
  for (auto _ : state) cast_fwd_cpu({t.at(0), View{t.storage[1].data(), DType::kBF16}, t.n});
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * t.n * 6);
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"KiB", "threads"})->Unit(benchmark::kMicrosecond)->UseRealTime();
  for (const int64_t kib : {int64_t{384}, int64_t{24 * 1024}, int64_t{384 * 1024}}) {
    for (const int64_t threads : {1, 2}) bench->Args({kib, threads});
  }
}

BENCHMARK(copy)->Apply(sizes);
BENCHMARK(add<DType::kF32>)->Apply(sizes);
BENCHMARK(add<DType::kBF16>)->Apply(sizes);
BENCHMARK(bias_add<DType::kF32>)->Apply(sizes);
BENCHMARK(bias_grad<DType::kF32>)->Apply(sizes);
BENCHMARK(bias_grad<DType::kBF16>)->Apply(sizes);
BENCHMARK(bias_gelu_fwd<DType::kF32, Activation::kGelu>)->Apply(sizes);
BENCHMARK(bias_gelu_fwd<DType::kF32, Activation::kGeluTanh>)->Apply(sizes);
BENCHMARK(bias_gelu_fwd<DType::kBF16, Activation::kGelu>)->Apply(sizes);
BENCHMARK(bias_gelu_bwd<DType::kF32, Activation::kGelu>)->Apply(sizes);
BENCHMARK(bias_gelu_bwd<DType::kF32, Activation::kGeluTanh>)->Apply(sizes);
BENCHMARK(bias_gelu_bwd<DType::kBF16, Activation::kGelu>)->Apply(sizes);
BENCHMARK(glu_fwd<DType::kF32>)->Apply(sizes);
BENCHMARK(glu_fwd<DType::kBF16>)->Apply(sizes);
BENCHMARK(glu_bwd<DType::kF32>)->Apply(sizes);
BENCHMARK(glu_bwd<DType::kBF16>)->Apply(sizes);
BENCHMARK(tanh_forward<DType::kF32>)->Apply(sizes);
BENCHMARK(dropout<DType::kF32>)->Apply(sizes);
BENCHMARK(dropout<DType::kBF16>)->Apply(sizes);
BENCHMARK(scale_shift_bwd<DType::kF32>)->Apply(sizes);
BENCHMARK(cast_f32_to_bf16)->Apply(sizes);

}  // namespace
}  // namespace plimsoll

BENCHMARK_MAIN();
