// Measures attention forward and backward, with and without dropout, at the shapes for which the project has speed targets. The counters
// show the floating-point operations per second as attention.h counts them. An upper bound to compare them with is the rate that the inner
// loop (the register tile of attention_tiles-inl.h) reaches on one thread, times the number of threads.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "device/cpu/parallel.h"
#include "kernels/attention/attention.h"

namespace plimsoll {
namespace {

struct Shape {
  const char* name;
  std::vector<int64_t> lengths;
  int64_t heads;
  int64_t head_dim;
};

// Returns the same 32 sequence lengths from 8 to 256 in every run.
std::vector<int64_t> mixed_lengths() {
  std::vector<int64_t> lengths;
  for (int64_t b = 0; b < 32; ++b) lengths.push_back(8 + (b * 97 + 31) % 249);
  return lengths;
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {"bert_base_8x128", std::vector<int64_t>(8, 128), 12, 64},
      {"minilm_32x128", std::vector<int64_t>(32, 128), 12, 32},
      {"mixed_32x8to256_d64", mixed_lengths(), 12, 64},
      {"mixed_32x8to256_d32", mixed_lengths(), 12, 32},
      {"bert_large_4x512", std::vector<int64_t>(4, 512), 16, 64},
      {"short_32x64_d32", std::vector<int64_t>(32, 64), 12, 32},
  };
  return all;
}

// All tensors of one benchmarked shape, aligned to 64 bytes.
class Tensors {
 public:
  Tensors(const Shape& shape, AttentionMask mask, double dropout) {
    cu_seqlens_.push_back(0);
    for (int64_t length : shape.lengths) {
      cu_seqlens_.push_back(cu_seqlens_.back() + static_cast<int32_t>(length));
      dims_.longest = std::max(dims_.longest, length);
      const double pairs = static_cast<double>(length * length * shape.heads * shape.head_dim);
      flops_ += mask == AttentionMask::kCausal ? pairs / 2 : pairs;
    }
    dims_.tokens = cu_seqlens_.back();
    dims_.sequences = static_cast<int64_t>(shape.lengths.size());
    dims_.heads = shape.heads;
    dims_.head_dim = shape.head_dim;
    options_.scale = 1.0 / std::sqrt(static_cast<double>(shape.head_dim));
    options_.mask = mask;
    options_.dropout = dropout;
    const int64_t columns = shape.heads * shape.head_dim;
    qkv_ = make(3 * columns * dims_.tokens);
    d_qkv_ = make(3 * columns * dims_.tokens);
    o_ = make(columns * dims_.tokens);
    d_o_ = make(columns * dims_.tokens);
    lse_ = make(shape.heads * dims_.tokens);
    scratch_bytes_ = std::max(attention_fwd_cpu_scratch_bytes(dims_, num_threads()),
                              attention_bwd_cpu_scratch_bytes(dims_, num_threads()));
    scratch_ = make(scratch_bytes_ / 4);
  }

  void forward() {
    attention_fwd_cpu({dims_,
                       options_,
                       part(0),
                       part(1),
                       part(2),
                       {cu_seqlens_.data(), DType::kI32},
                       {o_.get()},
                       {lse_.get()},
                       {scratch_.get()},
                       scratch_bytes_});
  }
  void backward() {
    attention_bwd_cpu({dims_,
                       options_,
                       part(0),
                       part(1),
                       part(2),
                       {cu_seqlens_.data(), DType::kI32},
                       {o_.get()},
                       {lse_.get()},
                       {d_o_.get()},
                       d_part(0),
                       d_part(1),
                       d_part(2),
                       {scratch_.get()},
                       scratch_bytes_});
  }
  double fwd_flops() const { return 4 * flops_; }
  double bwd_flops() const { return 10 * flops_; }

 private:
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  using Memory = std::unique_ptr<float, Free>;
  static Memory make(int64_t count) {
    const size_t bytes = static_cast<size_t>(attention_round_up(std::max<int64_t>(count, 0) * 4, 64));
    float* memory = static_cast<float*>(std::aligned_alloc(64, bytes));
    uint32_t number = 12345;
    for (int64_t i = 0; i < count; ++i) {
      number = number * 1664525u + 1013904223u;
      memory[i] = static_cast<float>(number >> 8) * 0x1p-23f - 1.0f;
    }
    return Memory(memory);
  }
  int64_t stride() const { return 3 * dims_.heads * dims_.head_dim; }
  ConstRows part(int64_t n) const { return {{qkv_.get() + n * stride() / 3, DType::kF32}, stride()}; }
  Rows d_part(int64_t n) const { return {{d_qkv_.get() + n * stride() / 3, DType::kF32}, stride()}; }

  AttentionDims dims_;
  AttentionOptions options_;
  double flops_ = 0;
  std::vector<int32_t> cu_seqlens_;
  Memory qkv_, d_qkv_, o_, d_o_, lse_, scratch_;
  int64_t scratch_bytes_ = 0;
};

enum class Pass { kForward, kBackward };

void run(benchmark::State& state, const Shape& shape, Pass pass, AttentionMask mask, double dropout,
         int threads) {
  set_num_threads(threads);
  flush_denormals_on_all_threads();
  Tensors tensors(shape, mask, dropout);
  tensors.forward();
  for (auto _ : state) {
    pass == Pass::kForward ? tensors.forward() : tensors.backward();
    benchmark::ClobberMemory();
  }
  const double flops = pass == Pass::kForward ? tensors.fwd_flops() : tensors.bwd_flops();
  state.counters["GFLOP/s"] = benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void register_all() {
  for (const Shape& shape : shapes()) {
    for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
      for (const double dropout : {0.0, 0.1}) {
        for (const int threads : {1, 2}) {
          const std::string name = std::string(shape.name) + (pass == Pass::kForward ? "/fwd" : "/bwd") +
                                   (dropout > 0 ? "/dropout" : "/no_dropout") +
                                   "/threads:" + std::to_string(threads);
          benchmark::RegisterBenchmark(name.c_str(),
                                       [=](benchmark::State& state) {
                                         run(state, shape, pass, AttentionMask::kBidirectional, dropout,
                                             threads);
                                       })
              ->UseRealTime()
              ->Unit(benchmark::kMicrosecond);
        }
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  plimsoll::register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
