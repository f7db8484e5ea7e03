// Measures the kernels of optimizers for kernels_bench.cc, on the parameters of eight blocks of BERT-large.
#include "bench/gpu/kernels_bench.h"
#include "kernels/element_wise/cast.h"
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

// Returns the sizes of the parameters of `num_blocks` blocks of BERT-large. A block has large matrices and small
// vectors.
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
  // The learning rate is 1e-4, given by the bits of the fp32 number.
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
    // Fills the second moments with a positive number, because they must not be negative.
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

OptimizerTensor with_eight_bit_states(Pool& out, View param, View grad, int64_t count) {
  const int64_t blocks = eight_bit_blocks(count);
  const OptimizerTensor tensor{.param = param,
                               .grad = grad,
                               .m = out.take(DType::kU8, count),
                               .v = out.take(DType::kU8, count),
                               .count = count,
                               .m_absmax = out.take(DType::kF32, blocks),
                               .v_absmax = out.take(DType::kF32, blocks)};
  fill_cuda({tensor.m_absmax, blocks, 0.01}, nullptr);
  fill_cuda({tensor.v_absmax, blocks, 0.01}, nullptr);
  return tensor;
}

// Measures the optimizers whose states need less memory than AdamW's, on the same fp32 parameters.
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
    const View param = out.take(DType::kF32, count), grad = in.take(DType::kF32, count);
    fp32.push_back({.param = param, .grad = grad, .m = out.take(DType::kF32, count), .count = count});
    fill_cuda({fp32.back().m, count, 0.25}, nullptr);
    eight_bit.push_back(with_eight_bit_states(out, param, grad, count));
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
  bench.measure("sgd" + size, total * 12, [&] { sgd_cuda({.tensors = fp32, .learning_rate = lr}, nullptr); });
  bench.measure("sgd with momentum" + size, total * 20, [&] {
    sgd_cuda({.tensors = fp32, .learning_rate = lr, .step = step, .momentum = 0.9}, nullptr);
  });
  bench.measure("adagrad" + size, total * 20,
                [&] { adagrad_cuda({.tensors = fp32, .learning_rate = lr, .step = step}, nullptr); });
  bench.measure("adamw_8bit" + size, total * 16 + total / 16,
                [&] { adamw_8bit_cuda({.tensors = eight_bit, .learning_rate = lr, .step = step}, nullptr); });
  bench.measure("lion_8bit" + size, total * 14 + total / 32,
                [&] { lion_8bit_cuda({.tensors = eight_bit, .learning_rate = lr}, nullptr); });
  bench.measure("sgd_8bit" + size, total * 14 + total / 32, [&] {
    sgd_8bit_cuda({.tensors = eight_bit, .learning_rate = lr, .step = step, .momentum = 0.9}, nullptr);
  });
  // Adagrad's 8-bit states contain sums of squares, which must not be negative. Setting the scale of every block (its
  // absmax) to zero makes all of them zero, as before the first step.
  for (const OptimizerTensor& tensor : eight_bit) {
    fill_cuda({tensor.m_absmax, eight_bit_blocks(tensor.count), 0.0}, nullptr);
  }
  bench.measure("adagrad_8bit" + size, total * 14 + total / 32, [&] {
    adagrad_8bit_cuda({.tensors = eight_bit, .learning_rate = lr, .step = step}, nullptr);
  });
  bench.measure("adafactor" + size, total * 20, [&] {
    adafactor_cuda({.tensors = factored,
                    .learning_rate = lr,
                    .step = step,
                    .scratch = out.take(DType::kU8, scratch_bytes)},
                   nullptr);
  });
}

// Measures updates of weights that have no fp32 copy: they are stored in bf16 and rounded stochastically, with
// gradients in bf16.
void measure_bf16_alone(Bench& bench) {
  const std::vector<int64_t> counts = parameter_counts(8);
  int64_t total = 0;
  for (const int64_t count : counts) total += count;
  const View rate = integers(DType::kI32, {0x38d1b717}), step = integers(DType::kI64, {10});
  Pool &in = bench.in, &out = bench.out;
  std::vector<OptimizerTensor> fp32, eight_bit;
  for (const int64_t count : counts) {
    const View param = out.take(DType::kBF16, count), grad = in.take(DType::kBF16, count);
    fp32.push_back({.param = param,
                    .grad = grad,
                    .m = out.take(DType::kF32, count),
                    .v = out.take(DType::kF32, count),
                    .count = count});
    fill_cuda({fp32.back().v, count, 0.25}, nullptr);
    eight_bit.push_back(with_eight_bit_states(out, param, grad, count));
  }
  const ConstView lr{rate.data, DType::kF32};
  const std::string size = fmt::format(", bf16 alone, {} M", total / 1000000);
  bench.measure("adamw" + size, total * 22,
                [&] { adamw_cuda({.tensors = fp32, .learning_rate = lr, .step = step}, nullptr); });
  bench.measure("lion" + size, total * 14,
                [&] { lion_cuda({.tensors = fp32, .learning_rate = lr, .step = step}, nullptr); });
  bench.measure("sgd" + size, total * 6,
                [&] { sgd_cuda({.tensors = fp32, .learning_rate = lr, .step = step}, nullptr); });
  bench.measure("adamw_8bit" + size, total * 10 + total / 16,
                [&] { adamw_8bit_cuda({.tensors = eight_bit, .learning_rate = lr, .step = step}, nullptr); });
  bench.measure("lion_8bit" + size, total * 8 + total / 32,
                [&] { lion_8bit_cuda({.tensors = eight_bit, .learning_rate = lr, .step = step}, nullptr); });
  bench.measure("sgd_8bit" + size, total * 8 + total / 32, [&] {
    sgd_8bit_cuda({.tensors = eight_bit, .learning_rate = lr, .step = step, .momentum = 0.9}, nullptr);
  });
}

}  // namespace

void measure_optimizers(Bench& bench) {
  measure_optimizer(bench, DType::kF32, DType::kBF16);
  measure_optimizer(bench, DType::kBF16, DType::kU8);
  measure_small_states(bench);
  measure_bf16_alone(bench);
}

}  // namespace plimsoll
