// Benchmarks the loss kernels on a small classifier, many classes, and a language model's vocabulary. The program prints the number of
// logits that are processed per second.
#include <benchmark/benchmark.h>

#include <vector>

#include "device/cpu/parallel.h"
#include "kernels/loss/bce_with_logits.h"
#include "kernels/loss/class_sums.h"
#include "kernels/loss/mse.h"
#include "kernels/loss/softmax_cross_entropy.h"

namespace plimsoll {
namespace {

struct Problem {
  Problem(int64_t B, int64_t K)
      : num_rows(B), num_classes(K), logits(size()), targets(size()), d_logits(size()) {
    for (size_t i = 0; i < logits.size(); ++i) {
      logits[i] = static_cast<float>((i * 29) % 37) / 4.0f - 4.0f;
      targets[i] = static_cast<float>(i % 2);
    }
    labels.assign(static_cast<size_t>(B), static_cast<int32_t>(K / 2));
  }
  size_t size() const { return static_cast<size_t>(num_rows * num_classes); }
  int64_t num_rows, num_classes;
  std::vector<float> logits, targets, d_logits;
  std::vector<int32_t> labels;
  float denominator = 1.0f, loss = 0.0f;
};
View view(std::vector<float>& values) {
  return {values.data(), DType::kF32};
}

void bench_cross_entropy_fwd(benchmark::State& state) {
  Problem p(state.range(0), state.range(1));
  set_num_threads(static_cast<int>(state.range(2)));
  for (auto _ : state) {
    softmax_cross_entropy_fwd_cpu({.logits_BK = view(p.logits),
                                   .labels_B = {p.labels.data(), DType::kI32},
                                   .denominator = {&p.denominator, DType::kF32},
                                   .loss = {&p.loss, DType::kF32},
                                   .num_rows = p.num_rows,
                                   .num_classes = p.num_classes});
  }
  state.SetItemsProcessed(state.iterations() * p.num_rows * p.num_classes);
}

void bench_cross_entropy_bwd(benchmark::State& state) {
  Problem p(state.range(0), state.range(1));
  set_num_threads(static_cast<int>(state.range(2)));
  for (auto _ : state) {
    softmax_cross_entropy_bwd_cpu({.logits_BK = view(p.logits),
                                   .labels_B = {p.labels.data(), DType::kI32},
                                   .denominator = {&p.denominator, DType::kF32},
                                   .d_loss = {&p.denominator, DType::kF32},
                                   .d_logits_BK = view(p.d_logits),
                                   .num_rows = p.num_rows,
                                   .num_classes = p.num_classes});
  }
  state.SetItemsProcessed(state.iterations() * p.num_rows * p.num_classes);
}

// Describes the class sums (class_sums.h) of two ranks. The benchmark measures the first rank, which has half of all classes.
constexpr ClassColumns kTwoRanks{.ranks = 2};

void bench_class_sums(benchmark::State& state) {
  Problem p(state.range(0), state.range(1));
  set_num_threads(static_cast<int>(state.range(2)));
  std::vector<float> sums(static_cast<size_t>(p.num_rows * kTwoRanks.size()));
  for (auto _ : state) {
    class_sums_cpu({.logits_BK = view(p.logits),
                    .labels_B = {p.labels.data(), DType::kI32},
                    .sums_BS = view(sums),
                    .num_rows = p.num_rows,
                    .row_stride = p.num_classes,
                    .share = class_share(0, p.num_classes, 2 * p.num_classes),
                    .columns = kTwoRanks});
  }
  state.SetItemsProcessed(state.iterations() * p.num_rows * p.num_classes);
}

void bench_class_sums_bwd(benchmark::State& state) {
  Problem p(state.range(0), state.range(1));
  set_num_threads(static_cast<int>(state.range(2)));
  std::vector<float> d_sums(static_cast<size_t>(p.num_rows * kTwoRanks.size()), 0.5f);
  for (auto _ : state) {
    class_sums_bwd_cpu({.logits_BK = view(p.logits),
                        .labels_B = {p.labels.data(), DType::kI32},
                        .d_sums_BS = view(d_sums),
                        .d_logits_BK = view(p.d_logits),
                        .num_rows = p.num_rows,
                        .row_stride = p.num_classes,
                        .num_columns = p.num_classes,
                        .share = class_share(0, p.num_classes, 2 * p.num_classes),
                        .columns = kTwoRanks});
  }
  state.SetItemsProcessed(state.iterations() * p.num_rows * p.num_classes);
}

template <typename Args>
void bench_element_loss(benchmark::State& state, void (*kernel)(const Args&)) {
  Problem p(state.range(0), state.range(1));
  set_num_threads(static_cast<int>(state.range(2)));
  for (auto _ : state) {
    kernel({.x_BK = view(p.logits),
            .labels_BK = view(p.targets),
            .denominator = {&p.denominator, DType::kF32},
            .loss = {&p.loss, DType::kF32},
            .num_rows = p.num_rows,
            .num_real_rows = p.num_rows,
            .num_classes = p.num_classes});
  }
  state.SetItemsProcessed(state.iterations() * p.num_rows * p.num_classes);
}

#define PLIMSOLL_SHAPES \
  Args({8, 2, 1})->Args({32, 56, 1})->Args({512, 30522, 1})->Args({512, 30522, 2})->UseRealTime()
BENCHMARK(bench_cross_entropy_fwd)->PLIMSOLL_SHAPES;
BENCHMARK(bench_cross_entropy_bwd)->PLIMSOLL_SHAPES;
BENCHMARK(bench_class_sums)->PLIMSOLL_SHAPES;
BENCHMARK(bench_class_sums_bwd)->PLIMSOLL_SHAPES;
BENCHMARK_CAPTURE(bench_element_loss, bce, bce_with_logits_fwd_cpu)->PLIMSOLL_SHAPES;
BENCHMARK_CAPTURE(bench_element_loss, mse, mse_fwd_cpu)->PLIMSOLL_SHAPES;

// Measures the cost of distributing an empty loop over threads. kLossBlockElements is chosen such that a block of rows takes longer than
// this.
void bench_empty_parallel_for(benchmark::State& state) {
  set_num_threads(static_cast<int>(state.range(0)));
  for (auto _ : state) parallel_for(2, [](int64_t index, int) { benchmark::DoNotOptimize(index); });
}
BENCHMARK(bench_empty_parallel_for)->Arg(1)->Arg(2)->UseRealTime();

}  // namespace
}  // namespace plimsoll

BENCHMARK_MAIN();
