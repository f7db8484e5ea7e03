// Measures optimizer kernels on the tensors of a BERT-base encoder (85 million weights in 192 tensors), and a
// plain copy of the same number of bytes. The bytes per second that it prints count every byte that the
// header of the kernel states as read or written.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "device/cpu/parallel.h"
#include "kernels/optimizer/adafactor.h"
#include "kernels/optimizer/adagrad.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/eight_bit.h"
#include "kernels/optimizer/global_norm.h"
#include "kernels/optimizer/lion.h"
#include "kernels/optimizer/sgd.h"
#include "kernels/optimizer/tensor_scan.h"

namespace plimsoll {
namespace {

constexpr int64_t kWidth = 768, kLayers = 12;

struct Model {
  Model() {
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      for (int i = 0; i < 4; ++i) add({kWidth * kWidth, kWidth});
      add({4 * kWidth * kWidth, 4 * kWidth, 4 * kWidth * kWidth, kWidth, kWidth, kWidth, kWidth, kWidth});
    }
  }
  void add(const std::vector<int64_t>& counts) {
    for (const int64_t count : counts) {
      OptimizerTensor tensor{.count = count};
      for (View* view : {&tensor.param, &tensor.m, &tensor.v}) *view = make(count);
      tensor.grad = make(count);
      tensors.push_back(tensor);
      num_elements += count;
    }
  }
  View make(int64_t count) {
    memory.push_back(std::make_unique<float[]>(static_cast<size_t>(count)));
    std::fill_n(memory.back().get(), count, 0.01f);
    return {memory.back().get(), DType::kF32};
  }
  std::vector<std::unique_ptr<float[]>> memory;
  std::vector<OptimizerTensor> tensors;
  int64_t num_elements = 0;
};

Model& model() {
  static Model instance;
  return instance;
}

void count_bytes(benchmark::State& state, int64_t bytes_per_element) {
  state.SetBytesProcessed(state.iterations() * model().num_elements * bytes_per_element);
}

// Measures the upper limit of the bandwidth: a plain copy of the gradient of each parameter, divided into the same tasks as an update.
void bench_copy(benchmark::State& state) {
  set_num_threads(static_cast<int>(state.range(0)));
  Model& m = model();
  for (auto _ : state) {
    parallel_over_tensors(m.tensors, [&](int64_t, size_t i, int64_t begin, int64_t count) {
      std::memcpy(m.tensors[i].v.as<float>() + begin, m.tensors[i].grad.as<float>() + begin,
                  static_cast<size_t>(count) * sizeof(float));
    });
  }
  count_bytes(state, 8);
}

void bench_adamw(benchmark::State& state) {
  set_num_threads(static_cast<int>(state.range(0)));
  const double lr = 1e-5;
  const int64_t step = 10;
  for (auto _ : state) {
    adamw_cpu({.tensors = model().tensors,
               .learning_rate = {&lr, DType::kF64},
               .step = {&step, DType::kI64},
               .weight_decay = 0.01});
  }
  count_bytes(state, 28);
}

// Selects the values that are stored in 16 bits. kMoments: the moments. kSplit: the gradients, and the weights split into two halves.
// kWeights: the gradients, and the weights only in bf16. kAll: as kWeights, and also the moments.
enum class Halves { kMoments, kSplit, kWeights, kAll };

// Returns the tensors of the same model, of which those that `halves` selects are in bf16. They use the memory of the fp32 tensors, which
// is filled with 16-bit patterns that are 0.01 if they are read as bf16, and also about 0.01 if two of them are read as one fp32 number.
std::vector<OptimizerTensor> half_tensors(Halves halves) {
  const auto as_bf16 = [](View& view) { view = {view.data, DType::kBF16}; };
  std::vector<OptimizerTensor> tensors = model().tensors;
  for (const auto& memory : model().memory) {
    const size_t index = static_cast<size_t>(&memory - model().memory.data());
    std::fill_n(reinterpret_cast<uint16_t*>(memory.get()), 2 * tensors[index / 4].count, uint16_t{0x3c24});
  }
  for (OptimizerTensor& tensor : tensors) {
    if (halves != Halves::kMoments) {
      if (halves == Halves::kSplit) {
        tensor.remainder = {static_cast<uint16_t*>(tensor.param.data) + tensor.count, DType::kU8};
      }
      as_bf16(tensor.param);
      tensor.grad = {tensor.grad.data, DType::kBF16};
    }
    if (halves == Halves::kMoments || halves == Halves::kAll) {
      as_bf16(tensor.m);
      as_bf16(tensor.v);
    }
  }
  return tensors;
}

void bench_adamw_halves(benchmark::State& state, Halves halves, int64_t bytes) {
  set_num_threads(static_cast<int>(state.range(0)));
  const std::vector<OptimizerTensor> tensors = half_tensors(halves);
  const double lr = 1e-5;
  const int64_t step = 10;
  for (auto _ : state) {
    adamw_cpu({.tensors = tensors,
               .learning_rate = {&lr, DType::kF64},
               .step = {&step, DType::kI64},
               .weight_decay = 0.01});
  }
  count_bytes(state, bytes);
}

void bench_sgd(benchmark::State& state, double momentum, int64_t bytes) {
  set_num_threads(static_cast<int>(state.range(0)));
  const double lr = 1e-5;
  const int64_t step = 10;
  for (auto _ : state) {
    sgd_cpu({.tensors = model().tensors,
             .learning_rate = {&lr, DType::kF64},
             .step = {&step, DType::kI64},
             .momentum = momentum});
  }
  count_bytes(state, bytes);
}

void bench_global_norm(benchmark::State& state) {
  set_num_threads(static_cast<int>(state.range(0)));
  double norm = 0.0;
  for (auto _ : state) {
    global_norm_cpu({.tensors = model().tensors, .norm = {&norm, DType::kF64}});
    benchmark::DoNotOptimize(norm);
  }
  count_bytes(state, 4);
}

void bench_lion(benchmark::State& state) {
  set_num_threads(static_cast<int>(state.range(0)));
  const double lr = 1e-5;
  for (auto _ : state) lion_cpu({.tensors = model().tensors, .learning_rate = {&lr, DType::kF64}});
  count_bytes(state, 20);
}

void bench_adagrad(benchmark::State& state) {
  set_num_threads(static_cast<int>(state.range(0)));
  const double lr = 1e-5;
  const int64_t step = 10;
  for (auto _ : state) {
    adagrad_cpu(
        {.tensors = model().tensors, .learning_rate = {&lr, DType::kF64}, .step = {&step, DType::kI64}});
  }
  count_bytes(state, 20);
}

// Returns the tensors of the same model with states in 8 bits. They use the memory of the fp32 tensors.
std::vector<OptimizerTensor> eight_bit_tensors() {
  std::vector<OptimizerTensor> tensors = model().tensors;
  for (OptimizerTensor& tensor : tensors) {
    const auto codes = [&](View& state, View& absmax) {
      absmax = {state.as<float>() + (tensor.count + 3) / 4, DType::kF32};
      state = {state.data, DType::kU8};
    };
    codes(tensor.m, tensor.m_absmax);
    codes(tensor.v, tensor.v_absmax);
  }
  return tensors;
}

void bench_adamw_8bit(benchmark::State& state) {
  set_num_threads(static_cast<int>(state.range(0)));
  const std::vector<OptimizerTensor> tensors = eight_bit_tensors();
  const double lr = 1e-5;
  const int64_t step = 10;
  for (auto _ : state) {
    adamw_8bit_cpu({.tensors = tensors, .learning_rate = {&lr, DType::kF64}, .step = {&step, DType::kI64}});
  }
  count_bytes(state, 16);
}

void bench_lion_8bit(benchmark::State& state) {
  set_num_threads(static_cast<int>(state.range(0)));
  const std::vector<OptimizerTensor> tensors = eight_bit_tensors();
  const double lr = 1e-5;
  for (auto _ : state) lion_8bit_cpu({.tensors = tensors, .learning_rate = {&lr, DType::kF64}});
  count_bytes(state, 14);
}

void bench_sgd_8bit(benchmark::State& state) {
  set_num_threads(static_cast<int>(state.range(0)));
  const std::vector<OptimizerTensor> tensors = eight_bit_tensors();
  const double lr = 1e-5;
  const int64_t step = 10;
  for (auto _ : state) {
    sgd_8bit_cpu({.tensors = tensors,
                  .learning_rate = {&lr, DType::kF64},
                  .step = {&step, DType::kI64},
                  .momentum = 0.9});
  }
  count_bytes(state, 14);
}

void bench_adagrad_8bit(benchmark::State& state) {
  set_num_threads(static_cast<int>(state.range(0)));
  const std::vector<OptimizerTensor> tensors = eight_bit_tensors();
  const double lr = 1e-5;
  const int64_t step = 10;
  for (const OptimizerTensor& tensor : tensors) {
    std::memset(tensor.m.data, 0, static_cast<size_t>(tensor.count));
    fill_cpu({.x = tensor.m_absmax, .count = eight_bit_blocks(tensor.count)});
  }
  for (auto _ : state) {
    adagrad_8bit_cpu({.tensors = tensors, .learning_rate = {&lr, DType::kF64}, .step = {&step, DType::kI64}});
  }
  count_bytes(state, 14);
}

void bench_adafactor(benchmark::State& state) {
  set_num_threads(static_cast<int>(state.range(0)));
  std::vector<AdafactorTensor> tensors;
  int64_t scratch_bytes = 0;
  for (const OptimizerTensor& tensor : model().tensors) {
    const bool is_matrix = tensor.count > 4 * kWidth;
    AdafactorTensor other{.param = tensor.param, .grad = tensor.grad, .columns = tensor.count};
    if (is_matrix) {
      other.rows = tensor.count / kWidth;
      other.columns = kWidth;
      other.row = tensor.m;
      other.column = tensor.v;
    } else {
      other.v = tensor.v;
    }
    scratch_bytes += adafactor_scratch(other.rows, other.columns, is_matrix).bytes;
    tensors.push_back(other);
  }
  std::vector<double> scratch(static_cast<size_t>(scratch_bytes / 8 + 2));
  const double lr = 1e-5;
  const int64_t step = 10;
  for (auto _ : state) {
    adafactor_cpu({.tensors = tensors,
                   .learning_rate = {&lr, DType::kF64},
                   .step = {&step, DType::kI64},
                   .scratch = {scratch.data(), DType::kU8}});
  }
  count_bytes(state, 20);
}

void bench_fill(benchmark::State& state) {
  set_num_threads(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    for (const OptimizerTensor& tensor : model().tensors) fill_cpu({.x = tensor.v, .count = tensor.count});
  }
  count_bytes(state, 4);
}

#define PLIMSOLL_THREADS Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime()
BENCHMARK(bench_copy)->PLIMSOLL_THREADS;
BENCHMARK(bench_adamw)->PLIMSOLL_THREADS;
BENCHMARK_CAPTURE(bench_adamw_halves, moments, Halves::kMoments, 20)->PLIMSOLL_THREADS;
BENCHMARK_CAPTURE(bench_adamw_halves, split, Halves::kSplit, 26)->PLIMSOLL_THREADS;
BENCHMARK_CAPTURE(bench_adamw_halves, weights, Halves::kWeights, 22)->PLIMSOLL_THREADS;
BENCHMARK_CAPTURE(bench_adamw_halves, all, Halves::kAll, 14)->PLIMSOLL_THREADS;
BENCHMARK_CAPTURE(bench_sgd, plain, 0.0, 12)->PLIMSOLL_THREADS;
BENCHMARK_CAPTURE(bench_sgd, momentum, 0.9, 20)->PLIMSOLL_THREADS;
BENCHMARK(bench_lion)->PLIMSOLL_THREADS;
BENCHMARK(bench_adagrad)->PLIMSOLL_THREADS;
BENCHMARK(bench_adamw_8bit)->PLIMSOLL_THREADS;
BENCHMARK(bench_lion_8bit)->PLIMSOLL_THREADS;
BENCHMARK(bench_sgd_8bit)->PLIMSOLL_THREADS;
BENCHMARK(bench_adagrad_8bit)->PLIMSOLL_THREADS;
BENCHMARK(bench_adafactor)->PLIMSOLL_THREADS;
BENCHMARK(bench_global_norm)->PLIMSOLL_THREADS;
BENCHMARK(bench_fill)->PLIMSOLL_THREADS;

}  // namespace
}  // namespace plimsoll

BENCHMARK_MAIN();
