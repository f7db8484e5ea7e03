// Measures the CUDA kernels that are bound by memory against the bytes that their contracts say they move, at
// the sizes of BERT-large, and prints for each the time, the bandwidth and its share of a device-to-device
// copy on this card.
//
//   gpu_kernels_bench [word ...]     only the kernels whose names contain one of the words
//
// Operands are taken from pools much larger than the card's cache, others in each call, so that the cache
// helps no one. A time is the median of nine batches of ten calls between two events.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/cuda/error.h"
#include "kernels/element_wise/activation_cuda.h"
#include "kernels/element_wise/add_cuda.h"
#include "kernels/element_wise/cast_cuda.h"
#include "kernels/element_wise/dropout_cuda.h"
#include "kernels/element_wise/gelu_cuda.h"
#include "kernels/element_wise/scale_shift_cuda.h"
#include "kernels/embedding/embedding_cuda.h"
#include "kernels/embedding/first_token_cuda.h"
#include "kernels/layer_norm/bias_dropout_residual_norm_cuda.h"
#include "kernels/layer_norm/normalize_cuda.h"
#include "kernels/loss/softmax_cross_entropy_cuda.h"
#include "kernels/optimizer/adafactor_cuda.h"
#include "kernels/optimizer/adagrad_cuda.h"
#include "kernels/optimizer/adamw_8bit_cuda.h"
#include "kernels/optimizer/adamw_cuda.h"
#include "kernels/optimizer/global_norm_cuda.h"
#include "kernels/optimizer/lion_8bit_cuda.h"
#include "kernels/optimizer/lion_cuda.h"
#include "kernels/optimizer/tensor_scan_cuda.h"

namespace plimsoll {
namespace {

constexpr int64_t kPoolBytes = int64_t{3} << 30;
constexpr int kCalls = 10;
constexpr int kBatches = 9;
constexpr int64_t kTokens = 16384;
constexpr int64_t kManyTokens = 65536;  // tensors of 128 MiB and more, well beyond any cache

// Device memory that is handed out again and again, round and round.
class Pool {
 public:
  Pool() {
    void* data = nullptr;
    PLIMSOLL_CUDA(cudaMalloc(&data, static_cast<size_t>(kPoolBytes)));
    data_ = static_cast<char*>(data);
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() { static_cast<void>(cudaFree(data_)); }

  // Small numbers of either sign, whichever floating type reads them.
  void fill() {
    std::vector<uint16_t> host(size_t{32} << 20);
    uint64_t state = 1;
    for (uint16_t& bits : host) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      bits = static_cast<uint16_t>(((state >> 33) & 0x80ff) | 0x3f00);  // +-[0.5, 2) in bf16, about 2 in f16
    }
    const auto bytes = static_cast<int64_t>(host.size() * 2);
    for (int64_t at = 0; at + bytes <= kPoolBytes; at += bytes) {
      PLIMSOLL_CUDA(cudaMemcpy(data_ + at, host.data(), static_cast<size_t>(bytes), cudaMemcpyHostToDevice));
    }
  }
  View take(DType dtype, int64_t count) {
    const int64_t bytes = (count * dtype_bytes(dtype) + 255) / 256 * 256;
    if (next_ + bytes > kPoolBytes) next_ = 0;
    View view{data_ + next_, dtype};
    next_ += bytes;
    return view;
  }

 private:
  char* data_ = nullptr;
  int64_t next_ = 0;
};

// Integers that stay where they are.
View integers(DType dtype, const std::vector<int64_t>& values) {
  void* data = nullptr;
  PLIMSOLL_CUDA(cudaMalloc(&data, values.size() * 8));
  std::vector<int32_t> narrow_values(values.begin(), values.end());
  const void* from = dtype == DType::kI64 ? static_cast<const void*>(values.data()) : narrow_values.data();
  PLIMSOLL_CUDA(cudaMemcpy(data, from, values.size() * static_cast<size_t>(dtype_bytes(dtype)),
                           cudaMemcpyHostToDevice));
  return {data, dtype};
}

// Ids as a text has them: a few words are frequent, most are rare.
std::vector<int64_t> token_ids(int64_t num_tokens, int64_t num_words) {
  std::vector<int64_t> ids;
  uint64_t state = 7;
  for (int64_t t = 0; t < num_tokens; ++t) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double uniform = static_cast<double>(state >> 11) * 0x1p-53;
    ids.push_back(static_cast<int64_t>(static_cast<double>(num_words) * uniform * uniform * uniform));
  }
  return ids;
}

class Bench {
 public:
  explicit Bench(std::span<char* const> words) : words_(words.begin(), words.end()) {
    in.fill();
    out.fill();
    PLIMSOLL_CUDA(cudaEventCreate(&start_));
    PLIMSOLL_CUDA(cudaEventCreate(&stop_));
    const int64_t bytes = int64_t{1} << 29;
    copy_rate_ =
        2.0 * static_cast<double>(bytes) / milliseconds([&] {
          PLIMSOLL_CUDA(cudaMemcpyAsync(out.take(DType::kU8, bytes).data, in.take(DType::kU8, bytes).data,
                                        static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice));
        });
    fmt::print("device copy of {} MiB: {:.3f} TB/s (read and written)\n\n", bytes >> 20, copy_rate_ * 1e-9);
    fmt::print("{:<44} {:>9} {:>9} {:>7} {:>7}\n", "kernel", "ms", "MB", "TB/s", "share");
  }

  void measure(const std::string& name, int64_t bytes, const std::function<void()>& call) {
    const auto is_in_name = [&](const std::string& word) { return name.find(word) != std::string::npos; };
    if (!words_.empty() && std::none_of(words_.begin(), words_.end(), is_in_name)) return;
    const double ms = milliseconds(call);
    const double rate = static_cast<double>(bytes) / ms;
    fmt::print("{:<44} {:>9.4f} {:>9.2f} {:>7.3f} {:>6.1f}%\n", name, ms, static_cast<double>(bytes) * 1e-6,
               rate * 1e-9, 100.0 * rate / copy_rate_);
  }

  Pool in, out;  // what kernels read, what they write

 private:
  double milliseconds(const std::function<void()>& call) {
    for (int i = 0; i < 3; ++i) call();
    std::vector<float> times;
    for (int batch = 0; batch < kBatches; ++batch) {
      PLIMSOLL_CUDA(cudaEventRecord(start_));
      for (int i = 0; i < kCalls; ++i) call();
      PLIMSOLL_CUDA(cudaEventRecord(stop_));
      PLIMSOLL_CUDA(cudaEventSynchronize(stop_));
      float ms = 0.0f;
      PLIMSOLL_CUDA(cudaEventElapsedTime(&ms, start_, stop_));
      times.push_back(ms / kCalls);
    }
    std::nth_element(times.begin(), times.begin() + kBatches / 2, times.end());
    return static_cast<double>(times[kBatches / 2]);
  }

  std::vector<std::string> words_;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
  double copy_rate_ = 1.0;
};

std::string label(std::string_view kernel, DType dtype, int64_t T, int64_t C) {
  return fmt::format("{} {} {}x{}", kernel, dtype_name(dtype), T, C);
}

void measure_flat(Bench& bench, DType dtype, int64_t C) {
  const int64_t n = kTokens * C;
  const int64_t bytes = n * dtype_bytes(dtype);
  Pool &in = bench.in, &out = bench.out;
  const View rng = integers(DType::kI64, {42, 7});
  bench.measure(label("add", dtype, kTokens, C), 3 * bytes, [&] {
    add_fwd_cuda({in.take(dtype, n), in.take(dtype, n), out.take(dtype, n), n}, nullptr);
  });
  bench.measure(label("dropout", dtype, kTokens, C), 2 * bytes, [&] {
    dropout_fwd_cuda({.x = in.take(dtype, n), .y = out.take(dtype, n), .n = n, .p = 0.1, .where = {}},
                     rng.as<int64_t>(), nullptr);
  });
  bench.measure(label("gelu_fwd", dtype, kTokens, C), 2 * bytes, [&] {
    gelu_fwd_cuda({in.take(dtype, n), out.take(dtype, n), n}, nullptr);
  });
  bench.measure(label("gelu_bwd", dtype, kTokens, C), 3 * bytes, [&] {
    gelu_bwd_cuda({in.take(dtype, n), in.take(dtype, n), out.take(dtype, n), n}, nullptr);
  });
  const DType other = dtype == DType::kF32 ? DType::kBF16 : DType::kF32;
  bench.measure(label("cast to the other", dtype, kTokens, C), bytes + n * dtype_bytes(other), [&] {
    cast_fwd_cuda({in.take(dtype, n), out.take(other, n), n}, nullptr);
  });
  bench.measure(label("fill", dtype, kTokens, C), bytes, [&] {
    fill_cuda({out.take(dtype, n), n, 0.0}, nullptr);
  });
}

void measure_rows(Bench& bench, DType dtype, int64_t C) {
  const int64_t T = kTokens, n = T * C;
  const int64_t bytes = n * dtype_bytes(dtype);
  Pool &in = bench.in, &out = bench.out;
  bench.measure(label("bias_add", dtype, T, C), 2 * bytes, [&] {
    bias_add_fwd_cuda({in.take(dtype, n), in.take(DType::kF32, C), out.take(dtype, n), T, C}, nullptr);
  });
  bench.measure(label("bias_grad", dtype, T, C), bytes, [&] {
    bias_grad_cuda({in.take(dtype, n), out.take(DType::kF32, C),
                    out.take(DType::kU8, bias_grad_cuda_scratch_bytes(T, C)), T, C},
                   nullptr, nullptr);
  });
  bench.measure(label("bias_gelu_fwd", dtype, T, C), 2 * bytes, [&] {
    bias_gelu_fwd_cuda({in.take(dtype, n), in.take(DType::kF32, C), out.take(dtype, n), T, C}, nullptr);
  });
  bench.measure(label("bias_gelu_bwd", dtype, T, C), 3 * bytes, [&] {
    bias_gelu_bwd_cuda(
        {in.take(dtype, n), in.take(DType::kF32, C), in.take(dtype, n), out.take(dtype, n),
         out.take(DType::kF32, C), out.take(DType::kU8, bias_gelu_bwd_cuda_scratch_bytes(T, C)), T, C},
        nullptr, nullptr);
  });
  bench.measure(label("scale_shift_fwd", dtype, T, C), 2 * bytes, [&] {
    scale_shift_fwd_cuda(
        {in.take(dtype, n), in.take(DType::kF32, C), in.take(DType::kF32, C), out.take(dtype, n), T, C},
        nullptr);
  });
  bench.measure(label("scale_shift_bwd", dtype, T, C), 3 * bytes, [&] {
    scale_shift_bwd_cuda({in.take(dtype, n), in.take(dtype, n), in.take(DType::kF32, C), out.take(dtype, n),
                          out.take(DType::kF32, C), out.take(DType::kF32, C),
                          out.take(DType::kU8, scale_shift_bwd_cuda_scratch_bytes(T, C)), T, C},
                         nullptr, nullptr);
  });
}

void measure_norms(Bench& bench, DType dtype, int64_t C, double p, int64_t T = kTokens) {
  const int64_t n = T * C;
  const int64_t bytes = n * dtype_bytes(dtype);
  Pool &in = bench.in, &out = bench.out;
  const View rng = integers(DType::kI64, {42, 7});
  const std::string suffix = fmt::format(" p {}", p);
  bench.measure(label("norm_fwd", dtype, T, C) + suffix, 4 * bytes + T * 4, [&] {
    BiasDropoutResidualNormFwdArgs args;
    args.x = in.take(dtype, n);
    args.residual = in.take(dtype, n);
    args.bias = in.take(DType::kF32, C);
    args.gain = in.take(DType::kF32, C);
    args.beta = in.take(DType::kF32, C);
    args.y = out.take(dtype, n);
    args.x_hat = out.take(dtype, n);
    args.rstd = out.take(DType::kF32, T);
    args.T = T;
    args.C = C;
    args.p = p;
    bias_dropout_residual_norm_fwd_cuda(args, rng.as<int64_t>(), nullptr);
  });
  for (const bool second : {false, true}) {
    const int64_t tensors = (second ? 3 : 2) + (p > 0.0 ? 2 : 1);
    bench.measure(
        label(second ? "norm_bwd of two" : "norm_bwd", dtype, T, C) + suffix, tensors * bytes + T * 4, [&] {
          BiasDropoutResidualNormBwdArgs args;
          args.d_y = in.take(dtype, n);
          if (second) args.d_y2 = in.take(dtype, n);
          args.x_hat = in.take(dtype, n);
          args.rstd = in.take(DType::kF32, T);
          args.gain = in.take(DType::kF32, C);
          args.d_residual = out.take(dtype, n);
          if (p > 0.0) args.d_x = out.take(dtype, n);
          args.d_bias = out.take(DType::kF32, C);
          args.d_gain = out.take(DType::kF32, C);
          args.d_beta = out.take(DType::kF32, C);
          args.scratch = out.take(DType::kU8, bias_dropout_residual_norm_bwd_cuda_scratch_bytes(T, C));
          args.T = T;
          args.C = C;
          args.p = p;
          bias_dropout_residual_norm_bwd_cuda(args, rng.as<int64_t>(), nullptr, nullptr);
        });
  }
  bench.measure(label("normalize_bwd", dtype, T, C), 3 * bytes + T * 4, [&] {
    normalize_bwd_cuda(
        {in.take(dtype, n), in.take(dtype, n), in.take(DType::kF32, T), out.take(dtype, n), T, C}, nullptr);
  });
}

void measure_embeddings(Bench& bench, DType dtype, int64_t C) {
  const int64_t T = kTokens, n = T * C, element = dtype_bytes(dtype);
  Pool &in = bench.in, &out = bench.out;
  std::vector<int64_t> positions, types;
  for (int64_t t = 0; t < T; ++t) positions.push_back(t % 512), types.push_back(t % 512 > 300 ? 1 : 0);
  const int64_t rows[] = {30522, 512, 2};
  const View ids[] = {integers(DType::kI32, token_ids(T, rows[0])), integers(DType::kI32, positions),
                      integers(DType::kI32, types)};
  bench.measure(label("embedding_sum of three", dtype, T, C), n * (4 + element), [&] {
    EmbeddingSumFwdArgs args;
    for (size_t k = 0; k < 3; ++k) {
      args.tables[k] = in.take(DType::kF32, rows[k] * C);
      args.ids[k] = ids[k];
    }
    args.num_tables = 3;
    args.x = out.take(dtype, n);
    args.T = args.num_tokens = T;
    args.C = C;
    embedding_sum_fwd_cuda(args, nullptr, nullptr);
  });
  for (size_t k = 0; k < 3; ++k) {
    const int64_t V = rows[k];
    bench.measure(
        label("embedding_bwd", dtype, T, C) + fmt::format(" of {} rows", V), n * element + V * C * 4, [&] {
          embedding_bwd_cuda({.d_x = in.take(dtype, n),
                              .ids = ids[k],
                              .d_table = out.take(DType::kF32, V * C),
                              .T = T,
                              .C = C,
                              .V = V,
                              .num_tokens = T,
                              .scratch = out.take(DType::kU8, embedding_bwd_cuda_scratch_bytes(T, C))},
                             nullptr, nullptr, nullptr);
        });
  }
}

void measure_losses(Bench& bench, DType dtype) {
  const int64_t B = 4096, K = 30528, n = B * K;
  const int64_t bytes = n * dtype_bytes(dtype);
  Pool &in = bench.in, &out = bench.out;
  const View labels = integers(DType::kI32, token_ids(B, K));
  bench.measure(label("cross_entropy_fwd", dtype, B, K), bytes, [&] {
    softmax_cross_entropy_fwd_cuda({.logits_BK = in.take(dtype, n),
                                    .labels_B = labels,
                                    .denominator = in.take(DType::kF32, 1),
                                    .loss = out.take(DType::kF32, 1),
                                    .num_rows = B,
                                    .num_classes = K,
                                    .scratch = out.take(DType::kU8, row_loss_cuda_scratch_bytes(B))},
                                   nullptr);
  });
  bench.measure(label("cross_entropy_bwd", dtype, B, K), 2 * bytes, [&] {
    softmax_cross_entropy_bwd_cuda({.logits_BK = in.take(dtype, n),
                                    .labels_B = labels,
                                    .denominator = in.take(DType::kF32, 1),
                                    .d_loss = in.take(DType::kF32, 1),
                                    .d_logits_BK = out.take(dtype, n),
                                    .num_rows = B,
                                    .num_classes = K},
                                   nullptr);
  });
}

// The parameters of BERT-large's 24 blocks: sizes large and small, in one list.
std::vector<int64_t> parameter_counts(int num_blocks) {
  std::vector<int64_t> counts;
  for (int block = 0; block < num_blocks; ++block) {
    for (const int64_t count : {3 * 1048576, 3 * 1024, 1048576, 1024, 1024, 1024, 4 * 1048576, 4096,
                                4 * 1048576, 1024, 1024, 1024}) {
      counts.push_back(count);
    }
  }
  return counts;
}

void measure_optimizer(Bench& bench, DType grads, DType low) {
  const std::vector<int64_t> counts = parameter_counts(8);
  int64_t total = 0;
  for (const int64_t count : counts) total += count;
  // The bits of 1e-4.
  const View rate = integers(DType::kI32, {0x38d1b717}), step = integers(DType::kI64, {10});
  Pool &in = bench.in, &out = bench.out;
  std::vector<OptimizerTensor> tensors;
  for (const int64_t count : counts) {
    tensors.push_back({.param = out.take(DType::kF32, count),
                       .grad = in.take(grads, count),
                       .m = out.take(DType::kF32, count),
                       .v = out.take(DType::kF32, count),
                       .count = count});
    if (is_floating(low)) tensors.back().low = out.take(low, count);
    // Second moments are not negative.
    fill_cuda({tensors.back().v, count, 0.25}, nullptr);
  }
  const std::string types = fmt::format(" of {} gradients, {} copy, {} M", dtype_name(grads),
                                        is_floating(low) ? dtype_name(low) : "no", total / 1000000);
  bench.measure("adamw" + types, total * (24 + dtype_bytes(grads) + (is_floating(low) ? 2 : 0)), [&] {
    adamw_cuda(
        {.tensors = tensors, .learning_rate = {rate.data, DType::kF32}, .step = step, .weight_decay = 0.01},
        nullptr);
  });
  bench.measure("global_norm" + types, total * dtype_bytes(grads), [&] {
    global_norm_cuda({.tensors = tensors,
                      .norm = out.take(DType::kF32, 1),
                      .finite = out.take(DType::kF32, 1),
                      .scratch = out.take(DType::kU8, kGlobalNormCudaScratchBytes)},
                     nullptr);
  });
}

// The optimizers with smaller states, on the same parameters in fp32.
void measure_small_states(Bench& bench) {
  const std::vector<int64_t> counts = parameter_counts(8);
  int64_t total = 0;
  for (const int64_t count : counts) total += count;
  const View rate = integers(DType::kI32, {0x38d1b717}), step = integers(DType::kI64, {10});
  Pool &in = bench.in, &out = bench.out;
  std::vector<OptimizerTensor> fp32, eight_bit;
  std::vector<AdafactorTensor> factored;
  int64_t scratch_bytes = 0;
  for (const int64_t count : counts) {
    const int64_t blocks = eight_bit_blocks(count);
    const View param = out.take(DType::kF32, count), grad = in.take(DType::kF32, count);
    fp32.push_back({.param = param, .grad = grad, .m = out.take(DType::kF32, count), .count = count});
    fill_cuda({fp32.back().m, count, 0.25}, nullptr);
    eight_bit.push_back({.param = param,
                         .grad = grad,
                         .m = out.take(DType::kU8, count),
                         .v = out.take(DType::kU8, count),
                         .count = count,
                         .m_absmax = out.take(DType::kF32, blocks),
                         .v_absmax = out.take(DType::kF32, blocks)});
    fill_cuda({eight_bit.back().m_absmax, blocks, 0.01}, nullptr);
    fill_cuda({eight_bit.back().v_absmax, blocks, 0.01}, nullptr);
    AdafactorTensor tensor{.param = param, .grad = grad, .columns = count};
    if (count > 4096) {
      tensor.rows = count / 1024;
      tensor.columns = 1024;
      tensor.row = out.take(DType::kF32, tensor.rows);
      tensor.column = out.take(DType::kF32, 1024);
      fill_cuda({tensor.row, tensor.rows, 0.01}, nullptr);
      fill_cuda({tensor.column, 1024, 0.01}, nullptr);
    } else {
      tensor.v = out.take(DType::kF32, count);
      fill_cuda({tensor.v, count, 0.01}, nullptr);
    }
    scratch_bytes += adafactor_scratch(tensor.rows, tensor.columns, tensor.is_matrix()).bytes;
    factored.push_back(tensor);
  }
  const ConstView lr{rate.data, DType::kF32};
  const std::string size = fmt::format(" of f32 gradients, {} M", total / 1000000);
  bench.measure("lion" + size, total * 20,
                [&] { lion_cuda({.tensors = fp32, .learning_rate = lr}, nullptr); });
  bench.measure("adagrad" + size, total * 20,
                [&] { adagrad_cuda({.tensors = fp32, .learning_rate = lr, .step = step}, nullptr); });
  bench.measure("adamw_8bit" + size, total * 16 + total / 16,
                [&] { adamw_8bit_cuda({.tensors = eight_bit, .learning_rate = lr, .step = step}, nullptr); });
  bench.measure("lion_8bit" + size, total * 14 + total / 32,
                [&] { lion_8bit_cuda({.tensors = eight_bit, .learning_rate = lr}, nullptr); });
  bench.measure("adafactor" + size, total * 20, [&] {
    adafactor_cuda({.tensors = factored,
                    .learning_rate = lr,
                    .step = step,
                    .scratch = out.take(DType::kU8, scratch_bytes)},
                   nullptr);
  });
}

void run(std::span<char* const> words) {
  Bench bench(words);
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const int64_t C : {1024, 4096}) measure_flat(bench, dtype, C);
    for (const int64_t C : {1024, 4096}) measure_rows(bench, dtype, C);
    for (const double p : {0.1, 0.0}) measure_norms(bench, dtype, 1024, p);
    measure_embeddings(bench, dtype, 1024);
    measure_losses(bench, dtype);
  }
  for (const double p : {0.1, 0.0}) {
    measure_norms(bench, DType::kBF16, 1024, p, kManyTokens);
    measure_norms(bench, DType::kF32, 1024, p, kManyTokens);
  }
  measure_norms(bench, DType::kBF16, 768, 0.1);
  measure_norms(bench, DType::kBF16, 384, 0.1);
  measure_optimizer(bench, DType::kF32, DType::kBF16);
  measure_optimizer(bench, DType::kBF16, DType::kU8);
  measure_small_states(bench);
  PLIMSOLL_CUDA(cudaDeviceSynchronize());
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) {
  plimsoll::run(std::span(argv, static_cast<size_t>(argc)).subspan(1));
  return 0;
}
