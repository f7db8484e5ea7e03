// Measures the memory bandwidth of the memory-bound CUDA kernels at the sizes of BERT-large. The number of bytes that a
// kernel moves is the one that the comment in its header states. Prints the time and bandwidth of each kernel, and its bandwidth as a share
// of that of a device-to-device copy on this card: of a copy of 512 MiB, which shows the limit of the memory, and ("same size") of a copy
// that moves as many bytes as the kernel, which shows the limit of a launch of that size.
//
//   gpu_kernels_bench [word ...]     only the kernels whose names contain one of the words
//
// Operands are taken from pools that are much larger than the card's cache, different ones in each call, so
// that the cache has no effect. A time is the median over 25 measurements, each of which takes the time of ten calls between two CUDA
// events. A launch costs a few microseconds at any size; copies of several sizes show the limit for small tensors.
#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/gpu/kernels_bench.h"
#include "kernels/element_wise/activation.h"
#include "kernels/element_wise/add.h"
#include "kernels/element_wise/cast.h"
#include "kernels/element_wise/dropout.h"
#include "kernels/element_wise/gelu.h"
#include "kernels/element_wise/scale_shift.h"
#include "kernels/embedding/embedding.h"
#include "kernels/embedding/first_token.h"
#include "kernels/embedding/sort_ids.h"
#include "kernels/layer_norm/bias_dropout_residual_norm.h"
#include "kernels/layer_norm/normalize.h"
#include "kernels/loss/softmax_cross_entropy.h"
#include "kernels/optimizer/tensor_scan.h"

namespace plimsoll {
namespace {

constexpr int64_t kTokens = 16384;
// with this number of tokens, tensors have 128 MiB and more and are much larger than any cache
constexpr int64_t kManyTokens = 65536;

// Returns ids with a distribution like that of text: a few words are frequent, most are rare.
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

void measure_copy(Bench& bench, int64_t mib) {
  const int64_t bytes = mib << 20;
  bench.measure(fmt::format("copy of {} MiB", mib), 2 * bytes, [&] {
    PLIMSOLL_CUDA(cudaMemcpyAsync(bench.out.take(DType::kU8, bytes).data,
                                  bench.in.take(DType::kU8, bytes).data, static_cast<size_t>(bytes),
                                  cudaMemcpyDeviceToDevice));
  });
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

void measure_embeddings(Bench& bench, DType dtype, int64_t C, int64_t T) {
  const int64_t n = T * C, element = dtype_bytes(dtype);
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
  SortIdsArgs sort{.num_lists = 3, .T = T, .V = rows[0], .num_tokens = T, .scratch = {}};
  for (size_t k = 0; k < 3; ++k) {
    sort.ids[k] = ids[k];
    sort.sorted[k] = integers(DType::kI32, std::vector<int64_t>(static_cast<size_t>(2 * T)));
  }
  // The bandwidth counts one read per id (4 bytes) and one write per pair of the sorted output (8 bytes).
  bench.measure(fmt::format("sort_ids of three lists, {} tokens", T), 3 * T * 12, [&] {
    sort.scratch = out.take(DType::kU8, sort_ids_cuda_scratch_bytes(T, 3));
    sort_ids_cuda(sort, nullptr, nullptr);
  });
  sort.scratch = out.take(DType::kU8, sort_ids_cuda_scratch_bytes(T, 3));
  sort_ids_cuda(sort, nullptr, nullptr);
  for (size_t k = 0; k < 3; ++k) {
    const int64_t V = rows[k];
    bench.measure(
        label("embedding_bwd", dtype, T, C) + fmt::format(" of {} rows", V), n * element + V * C * 4, [&] {
          embedding_bwd_cuda({.d_x = in.take(dtype, n),
                              .sorted = sort.sorted[k],
                              .d_table = out.take(DType::kF32, V * C),
                              .T = T,
                              .C = C,
                              .V = V,
                              .scratch = out.take(DType::kU8, embedding_bwd_cuda_scratch_bytes(T, C))},
                             nullptr, nullptr);
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

void run(std::span<char* const> words) {
  Bench bench(words);
  for (const int64_t mib : {16, 32, 64, 128}) measure_copy(bench, mib);
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const int64_t C : {1024, 4096}) measure_flat(bench, dtype, C);
    for (const int64_t C : {1024, 4096}) measure_rows(bench, dtype, C);
    for (const double p : {0.1, 0.0}) measure_norms(bench, dtype, 1024, p);
    measure_embeddings(bench, dtype, 1024, kTokens);
    measure_embeddings(bench, dtype, 1024, kManyTokens);
    measure_losses(bench, dtype);
  }
  for (const double p : {0.1, 0.0}) {
    measure_norms(bench, DType::kBF16, 1024, p, kManyTokens);
    measure_norms(bench, DType::kF32, 1024, p, kManyTokens);
  }
  measure_norms(bench, DType::kBF16, 768, 0.1);
  measure_norms(bench, DType::kBF16, 384, 0.1);
  measure_optimizers(bench);
  measure_dequantize(bench);
  PLIMSOLL_CUDA(cudaDeviceSynchronize());
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) {
  plimsoll::run(std::span(argv, static_cast<size_t>(argc)).subspan(1));
  return 0;
}
