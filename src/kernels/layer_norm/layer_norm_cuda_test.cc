#include <gtest/gtest.h>

#include <cmath>

#include "kernels/element_wise/testing/cuda_cases.h"
#include "kernels/layer_norm/bias_dropout_residual_norm.h"
#include "kernels/layer_norm/norm_few_rows.h"
#include "kernels/layer_norm/normalize.h"
#include "kernels/layer_norm/testing/norm_cases.h"
#include "kernels/layer_norm/testing/rms_norm_case.h"

namespace plimsoll::test {
namespace {

GuardedBuffer rng_buffer() {
  return integers(DType::kI64, {static_cast<int64_t>(kSite.seed), kSite.step});
}

// Returns cases with all operands and with some of the optional operands absent, at every size and type, with parameters in fp32 and in the
// type of the rows.
std::vector<NormCase> cuda_norm_cases() {
  std::vector<NormCase> cases;
  for (const RowsAndColumns shape : cuda_shapes()) {
    for (const DType dtype : cuda_types()) {
      cases.push_back({.shape = shape, .dtype = dtype, .p = 0.1, .accumulate = Accumulate::kAdd});
      cases.push_back({.shape = shape,
                       .dtype = dtype,
                       .parameters = dtype,
                       .has_bias = false,
                       .has_residual = false,
                       .has_d_y2 = false});
      cases.push_back({.shape = shape, .dtype = dtype, .p = 0.1, .has_d_y2 = false, .has_d_sum_term = true});
    }
  }
  for (const bool present : {false, true}) {
    cases.push_back({.shape = {33, 384},
                     .parameters = DType::kBF16,
                     .p = 0.3,
                     .has_bias = present,
                     .has_residual = !present,
                     .has_d_y2 = present,
                     .has_beta = present});
  }
  return cases;
}

// Returns one case for each variant of the kernels: elements loaded one by one and in vectors of 16 bytes, rows of one warp and of several
// warps, one and several groups of warps per thread block, blocks of up to 256 threads and of more, and parameters in fp32 and in the
// type of the rows. In the backward pass, a block runs several iterations if a row has more than 1024 columns. In the forward pass it does
// so in the last case, on GPUs of up to 170 multiprocessors.
std::vector<NormCase> small_norm_cases() {
  std::vector<NormCase> cases;
  for (const DType dtype : cuda_types()) {
    for (const RowsAndColumns shape :
         {RowsAndColumns{33, 17}, RowsAndColumns{9, 1030}, RowsAndColumns{33, 384}, RowsAndColumns{33, 2048},
          RowsAndColumns{9, 2304}}) {
      cases.push_back({.shape = shape, .dtype = dtype, .p = 0.1, .accumulate = Accumulate::kAdd});
    }
    cases.push_back({.shape = {5, 384}, .dtype = dtype, .parameters = dtype, .has_d_y2 = false});
    cases.push_back({.shape = {5, 1024}, .dtype = dtype, .parameters = dtype});
    cases.push_back({.shape = {5, 768}, .dtype = dtype, .has_beta = false});
    cases.push_back({.shape = {5, 19}, .dtype = dtype, .parameters = dtype, .has_beta = false});
    cases.push_back({.shape = {33, 768}, .dtype = dtype, .has_d_sum_term = true});
    cases.push_back({.shape = {33, 768}, .dtype = dtype, .has_d_y2 = false, .has_d_sum_term = true});
    cases.push_back({.shape = {9, 2304}, .dtype = dtype, .has_d_sum_term = true});
    cases.push_back({.shape = {5, 19}, .dtype = dtype, .has_d_sum_term = true});
  }
  cases.push_back({.shape = {1400, 1032}, .dtype = DType::kBF16});
  return cases;
}

// Copies the operands to the GPU and returns the arguments with views of the copies.
BiasDropoutResidualNormFwdArgs on_gpu(Twins& gpu, ForwardTensors& tensors) {
  BiasDropoutResidualNormFwdArgs args = tensors.args;
  args.x = gpu(tensors.x);
  if (args.bias) args.bias = gpu(tensors.bias);
  if (args.residual) args.residual = gpu(tensors.residual);
  args.gain = gpu(tensors.gain);
  if (args.beta) args.beta = gpu(tensors.beta);
  args.where = {.site = kSite.site};
  return args;
}

void check_forward(const NormCase& test) {
  const RowsAndColumns shape = test.shape;
  ForwardTensors tensors(test);
  GuardedBuffer want_y("want y", DType::kF64, shape.size()),
      want_x_hat("want x_hat", DType::kF64, shape.size()), want_rstd("want rstd", DType::kF64, shape.T);
  BiasDropoutResidualNormFwdArgs reference = tensors.args;
  reference.y = want_y.view();
  reference.x_hat = want_x_hat.view();
  reference.rstd = want_rstd.view();
  bias_dropout_residual_norm_fwd_ref(reference);
  const ForwardBounds bounds = forward_bounds(test, tensors, want_x_hat, want_y, want_rstd);
  GuardedBuffer y("y", test.dtype, shape.size()), x_hat("x_hat", test.dtype, shape.size()),
      rstd("rstd", DType::kF32, shape.T), rng = rng_buffer();
  Twins gpu;
  BiasDropoutResidualNormFwdArgs args = on_gpu(gpu, tensors);
  args.y = gpu(y);
  args.x_hat = gpu(x_hat);
  args.rstd = gpu(rstd);
  const int64_t* numbers = gpu(rng).as<int64_t>();
  run_twice(gpu, {&y, &x_hat, &rstd}, [&] { bias_dropout_residual_norm_fwd_cuda(args, numbers, nullptr); });
  expect_within(y, want_y, bounds.y);
  expect_within(x_hat, want_x_hat, bounds.x_hat);
  expect_within(rstd, want_rstd, bounds.rstd);
  // y may overwrite x while x_hat overwrites the residual, without changing any bit.
  BiasDropoutResidualNormFwdArgs aliased = args;
  aliased.y = gpu(tensors.x);
  aliased.x_hat = gpu(tensors.residual);
  bias_dropout_residual_norm_fwd_cuda(aliased, numbers, nullptr);
  gpu.download();
  expect_same_bits(tensors.x, y);
  expect_same_bits(tensors.residual, x_hat);
}

TEST(NormCuda, ForwardAgreesWithTheReference) {
  for (const NormCase& test : cuda_norm_cases()) check_forward(test);
}

// Tests whose names contain "Small" have one case per variant of a kernel. Only these run under sanitizers, in which every allocation is
// slow.
TEST(NormCudaSmall, Forward) {
  for (const NormCase& test : small_norm_cases()) check_forward(test);
}

// The sum s = residual + dropout(x + bias) must be within its error bound of the exact sum. y, x_hat and rstd must have the bits that a
// separate norm computes from the stored s. s may overwrite the residual while y overwrites x.
void check_sum(const NormCase& test) {
  if (!test.has_residual) return;
  const int64_t size = test.shape.size();
  ForwardTensors tensors(test);
  const std::vector<SumAndBound> want = exact_sums(test, tensors);
  GuardedBuffer y("y", test.dtype, size), x_hat("x_hat", test.dtype, size), sum("sum", test.dtype, size),
      rstd("rstd", DType::kF32, test.shape.T), of_sum("y of the sum", test.dtype, size),
      x_hat_of_sum("x_hat of the sum", test.dtype, size),
      rstd_of_sum("rstd of the sum", DType::kF32, test.shape.T), rng = rng_buffer();
  Twins gpu;
  BiasDropoutResidualNormFwdArgs args = on_gpu(gpu, tensors);
  args.y = gpu(y);
  args.x_hat = gpu(x_hat);
  args.rstd = gpu(rstd);
  args.sum = gpu(sum);
  const int64_t* numbers = gpu(rng).as<int64_t>();
  run_twice(gpu, {&y, &x_hat, &rstd, &sum},
            [&] { bias_dropout_residual_norm_fwd_cuda(args, numbers, nullptr); });
  for (int64_t i = 0; i < size; ++i) {
    ASSERT_NEAR(sum.load(i), want[static_cast<size_t>(i)].sum, want[static_cast<size_t>(i)].bound) << i;
  }
  BiasDropoutResidualNormFwdArgs alone = args;
  alone.x = args.sum;
  alone.bias = alone.residual = {};
  alone.p = 0.0;
  alone.y = gpu(of_sum);
  alone.x_hat = gpu(x_hat_of_sum);
  alone.rstd = gpu(rstd_of_sum);
  alone.sum = {};
  bias_dropout_residual_norm_fwd_cuda(alone, numbers, nullptr);
  args.y = gpu(tensors.x);
  args.sum = gpu(tensors.residual);
  bias_dropout_residual_norm_fwd_cuda(args, numbers, nullptr);
  gpu.download();
  expect_same_bits(of_sum, y);
  expect_same_bits(x_hat_of_sum, x_hat);
  expect_same_bits(rstd_of_sum, rstd);
  expect_same_bits(tensors.x, y);
  expect_same_bits(tensors.residual, sum);
}

TEST(NormCuda, TheSumIsStoredAndNormalizedAsItIsStored) {
  for (const NormCase& test : cuda_norm_cases()) check_sum(test);
}
TEST(NormCudaSmall, Sum) {
  for (const NormCase& test : small_norm_cases()) check_sum(test);
}

TEST(NormCuda, KeepsNothingIfNoBackwardPassFollows) {
  const NormCase test{.shape = {33, 768}, .dtype = DType::kBF16, .p = 0.2};
  ForwardTensors tensors(test);
  GuardedBuffer y("y", test.dtype, test.shape.size()), alone("alone", test.dtype, test.shape.size()),
      x_hat("x_hat", test.dtype, test.shape.size()), rstd("rstd", DType::kF32, test.shape.T);
  Twins gpu;
  BiasDropoutResidualNormFwdArgs args = on_gpu(gpu, tensors);
  args.where = kSite;
  args.y = gpu(y);
  args.x_hat = gpu(x_hat);
  args.rstd = gpu(rstd);
  bias_dropout_residual_norm_fwd_cuda(args, nullptr, nullptr);
  args.y = gpu(alone);
  args.x_hat = {};
  args.rstd = {};
  bias_dropout_residual_norm_fwd_cuda(args, nullptr, nullptr);
  gpu.download();
  expect_same_bits(alone, y);
}

// Without dropout and outputs for a backward pass, few rows are normalized by a kernel of their own (norm_few_rows.h). Tests rows of one
// and of several warps, a last warp without columns for all of its threads, the largest number of columns, and all optional operands.
TEST(NormCudaSmall, FewRows) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const RowsAndColumns shape :
         {RowsAndColumns{1, 8}, {32, 768}, {5, 2056}, {3, kNormFewRowsColumns}}) {
      for (const bool present : {false, true}) {
        const NormCase test{.shape = shape,
                            .dtype = dtype,
                            .parameters = present ? dtype : DType::kF32,
                            .has_bias = present,
                            .has_residual = present,
                            .has_beta = present};
        ForwardTensors tensors(test);
        const int64_t size = shape.size();
        GuardedBuffer want_y("want y", DType::kF64, size), want_x_hat("want x_hat", DType::kF64, size),
            want_rstd("want rstd", DType::kF64, shape.T), y("y", dtype, size),
            of_sum("y of the sum", dtype, size), sum("sum", dtype, size), again("y again", dtype, size);
        BiasDropoutResidualNormFwdArgs reference = tensors.args;
        reference.y = want_y.view();
        reference.x_hat = want_x_hat.view();
        reference.rstd = want_rstd.view();
        bias_dropout_residual_norm_fwd_ref(reference);
        Twins gpu;
        BiasDropoutResidualNormFwdArgs args = on_gpu(gpu, tensors);
        args.y = gpu(y);
        run_twice(gpu, {&y}, [&] { bias_dropout_residual_norm_fwd_cuda(args, nullptr, nullptr); });
        expect_within(y, want_y, forward_bounds(test, tensors, want_x_hat, want_y, want_rstd).y);
        // The sum is stored, and the result has the bits that a separate norm computes from the stored sum.
        args.y = gpu(of_sum);
        args.sum = gpu(sum);
        bias_dropout_residual_norm_fwd_cuda(args, nullptr, nullptr);
        BiasDropoutResidualNormFwdArgs alone = args;
        alone.x = args.sum;
        alone.bias = alone.residual = {};
        alone.sum = {};
        alone.y = gpu(again);
        bias_dropout_residual_norm_fwd_cuda(alone, nullptr, nullptr);
        gpu.download();
        expect_same_bits(again, of_sum);
        const std::vector<SumAndBound> want = exact_sums(test, tensors);
        for (int64_t i = 0; i < size; ++i)
          ASSERT_NEAR(sum.load(i), want[static_cast<size_t>(i)].sum, want[static_cast<size_t>(i)].bound) << i;
      }
    }
  }
}

BiasDropoutResidualNormBwdArgs on_gpu(Twins& gpu, BackwardTensors& tensors, Gradients& gradients) {
  BiasDropoutResidualNormBwdArgs args = tensors.args;
  args.d_y = gpu(tensors.d_y);
  if (args.d_y2) args.d_y2 = gpu(tensors.d_y2);
  args.x_hat = gpu(tensors.x_hat);
  args.rstd = gpu(tensors.rstd);
  args.gain = gpu(tensors.gain);
  if (args.d_sum_term) args.d_sum_term = gpu(tensors.d_sum_term);
  args.d_residual = gpu(gradients.d_residual);
  args.d_x = gpu(gradients.d_x);
  args.d_bias = gpu(gradients.d_bias);
  args.d_gain = gpu(gradients.d_gain);
  args.d_beta = gpu(gradients.d_beta);
  args.where = {.site = kSite.site};
  return args;
}

void check_backward(const NormCase& test) {
  const RowsAndColumns shape = test.shape;
  BackwardTensors tensors(test);
  GuardedBuffer before(tensor_name("before", shape, test.dtype), DType::kF32, shape.C),
      rng = rng_buffer(), flag = integers(DType::kI32, {test.accumulate == Accumulate::kAdd ? 1 : 0}),
      scratch = scratch_of(bias_dropout_residual_norm_bwd_cuda_scratch_bytes(shape.T, shape.C));
  before.fill_normal();
  Gradients want(shape, DType::kF64, DType::kF64);
  want.hold(before);
  bias_dropout_residual_norm_bwd_ref(want.into(tensors.args));
  const BackwardBounds bounds =
      backward_bounds(test, tensors, want, before, norm_column_sum_cuda_depth(shape.T));
  Gradients got(shape, test.dtype, DType::kF32);
  if (test.accumulate == Accumulate::kAdd) got.hold(before);
  Twins gpu;
  BiasDropoutResidualNormBwdArgs args = on_gpu(gpu, tensors, got);
  args.scratch = gpu(scratch);
  const int64_t* numbers = gpu(rng).as<int64_t>();
  const int32_t* adds = gpu(flag).as<int32_t>();
  run_twice(gpu, {&got.d_residual, &got.d_x, &got.d_bias, &got.d_gain, &got.d_beta},
            [&] { bias_dropout_residual_norm_bwd_cuda(args, numbers, adds, nullptr); });
  expect_within(got, want, bounds);
  // Requests only d_x, without the other outputs and without sums over rows. Its bits must not change.
  GuardedBuffer alone("alone", test.dtype, shape.size());
  BiasDropoutResidualNormBwdArgs lean = args;
  lean.d_residual = lean.d_bias = lean.d_gain = lean.d_beta = lean.scratch = {};
  lean.d_x = gpu(alone);
  bias_dropout_residual_norm_bwd_cuda(lean, numbers, nullptr, nullptr);
  gpu.download();
  expect_same_bits(alone, got.d_x);
  // d_residual may overwrite d_y while d_x overwrites d_sum_term, d_y2 or x_hat, without changing any bit.
  args.d_residual = gpu(tensors.d_y);
  GuardedBuffer& over = test.has_d_sum_term ? tensors.d_sum_term
                        : test.has_d_y2     ? tensors.d_y2
                                            : tensors.x_hat;
  args.d_x = gpu(over);
  bias_dropout_residual_norm_bwd_cuda(args, numbers, adds, nullptr);
  gpu.download();
  expect_same_bits(tensors.d_y, got.d_residual);
  expect_same_bits(over, got.d_x);
}

TEST(NormCuda, BackwardAgreesWithTheReference) {
  for (const NormCase& test : cuda_norm_cases()) check_backward(test);
}

TEST(NormCudaSmall, Backward) {
  for (const NormCase& test : small_norm_cases()) check_backward(test);
}

TEST(NormCuda, BackwardDropsWhereForwardDid) {
  for (const DType dtype : cuda_types()) {
    const RowsAndColumns shape{50, 304};
    BackwardTensors tensors({.shape = shape, .dtype = dtype, .p = 0.5});
    Gradients got(shape, dtype, DType::kF32);
    GuardedBuffer scratch = scratch_of(bias_dropout_residual_norm_bwd_cuda_scratch_bytes(shape.T, shape.C));
    Twins gpu;
    BiasDropoutResidualNormBwdArgs args = on_gpu(gpu, tensors, got);
    args.where = kSite;
    args.scratch = gpu(scratch);
    bias_dropout_residual_norm_bwd_cuda(args, nullptr, nullptr, nullptr);
    gpu.download();
    for (int64_t i = 0; i < shape.size(); ++i) {
      const bool kept = random_half(kSite, static_cast<uint64_t>(i)) >= dropout_threshold(0.5);
      // With a dropout probability of 0.5 the scale is two, and multiplying by two does not round. d_x can therefore be compared exactly.
      EXPECT_EQ(got.d_x.load(i), kept ? 2.0 * got.d_residual.load(i) : 0.0);
    }
  }
}

TEST(NormCuda, RowsWithoutGradientContributeNothing) {
  const RowsAndColumns shape{40, 24};
  std::vector<std::vector<double>> sums;
  for (const double tail : {0.0, 1.5, -1e10}) {
    BackwardTensors tensors({.shape = shape, .p = 0.2});
    for (int64_t i = 25 * shape.C; i < shape.size(); ++i) {
      tensors.d_y.view().store(i, 0.0);
      tensors.d_y2.view().store(i, 0.0);
      tensors.x_hat.view().store(i, tail);
    }
    Gradients got(shape, DType::kF32, DType::kF32);
    GuardedBuffer scratch = scratch_of(bias_dropout_residual_norm_bwd_cuda_scratch_bytes(shape.T, shape.C));
    Twins gpu;
    BiasDropoutResidualNormBwdArgs args = on_gpu(gpu, tensors, got);
    args.where = kSite;
    args.scratch = gpu(scratch);
    bias_dropout_residual_norm_bwd_cuda(args, nullptr, nullptr, nullptr);
    gpu.download();
    for (int64_t i = 25 * shape.C; i < shape.size(); ++i) {
      EXPECT_EQ(got.d_residual.load(i), 0.0);
      EXPECT_EQ(got.d_x.load(i), 0.0);
    }
    sums.push_back(got.d_gain.to_doubles());
    for (const GuardedBuffer* sum : {&got.d_beta, &got.d_bias}) {
      for (const double value : sum->to_doubles()) sums.back().push_back(value);
    }
  }
  EXPECT_EQ(sums[0], sums[1]);
  EXPECT_EQ(sums[0], sums[2]);
}

void check_normalize(RowsAndColumns shape, DType dtype) {
  GuardedBuffer x(tensor_name("x", shape, dtype), dtype, shape.size()),
      d_x_hat(tensor_name("d_x_hat", shape, dtype), dtype, shape.size()), x_hat("x_hat", dtype, shape.size()),
      rstd("rstd", DType::kF32, shape.T), d_x("d_x", dtype, shape.size()),
      want_x_hat("want x_hat", DType::kF64, shape.size()), want_rstd("want rstd", DType::kF64, shape.T),
      want_d_x("want d_x", DType::kF64, shape.size());
  x.fill_normal(0.5, 2.0);
  d_x_hat.fill_normal();
  normalize_fwd_ref({x.view(), want_x_hat.view(), want_rstd.view(), shape.T, shape.C, kEps});
  Twins gpu;
  run_twice(gpu, {&x_hat, &rstd}, [&] {
    normalize_fwd_cuda({gpu(x), gpu(x_hat), gpu(rstd), shape.T, shape.C, kEps}, nullptr);
  });
  run_twice(gpu, {&d_x}, [&] {
    normalize_bwd_cuda({gpu(d_x_hat), gpu(x_hat), gpu(rstd), gpu(d_x), shape.T, shape.C}, nullptr);
  });
  normalize_bwd_ref({d_x_hat.view(), x_hat.view(), rstd.view(), want_d_x.view(), shape.T, shape.C});
  std::vector<double> x_hat_bounds, rstd_bounds, d_x_bounds;
  for (int64_t t = 0; t < shape.T; ++t) {
    RowMagnitudes row;
    row.rstd = want_rstd.load(t);
    double mean_abs_g = 0.0, mean_abs_gx = 0.0;
    for (int64_t i = t * shape.C; i < (t + 1) * shape.C; ++i) {
      row.mean_abs += std::abs(x.load(i)) / static_cast<double>(shape.C);
      mean_abs_g += std::abs(d_x_hat.load(i)) / static_cast<double>(shape.C);
      mean_abs_gx += std::abs(d_x_hat.load(i) * x_hat.load(i)) / static_cast<double>(shape.C);
    }
    rstd_bounds.push_back(rstd_error_bound(row, shape.C));
    for (int64_t i = t * shape.C; i < (t + 1) * shape.C; ++i) {
      x_hat_bounds.push_back(normalize_fwd_error_bound(row, want_x_hat.load(i), shape.C, dtype));
      d_x_bounds.push_back(normalize_bwd_error_bound(rstd.load(t), d_x_hat.load(i), x_hat.load(i), mean_abs_g,
                                                     mean_abs_gx, shape.C) +
                           store_error_bound(dtype, want_d_x.load(i)));
    }
  }
  expect_within(x_hat, want_x_hat, x_hat_bounds);
  expect_within(rstd, want_rstd, rstd_bounds);
  expect_within(d_x, want_d_x, d_x_bounds);
  normalize_bwd_cuda({gpu(d_x_hat), gpu(x_hat), gpu(rstd), gpu(d_x_hat), shape.T, shape.C}, nullptr);
  normalize_fwd_cuda({gpu(x), gpu(x), gpu(rstd), shape.T, shape.C, kEps}, nullptr);
  gpu.download();
  expect_same_bits(d_x_hat, d_x);
  expect_same_bits(x, x_hat);
}

TEST(NormalizeCuda, AgreesWithTheReference) {
  for (const RowsAndColumns shape : cuda_shapes()) {
    for (const DType dtype : cuda_types()) check_normalize(shape, dtype);
  }
}

TEST(NormCudaSmall, Normalize) {
  for (const DType dtype : cuda_types()) {
    check_normalize({33, 17}, dtype);
    check_normalize({9, 1024}, dtype);
  }
}

TEST(NormalizeCuda, DeclinesRowsThatDoNotFitItsRegisters) {
  GuardedBuffer x("wide/x", DType::kF32, kMaxNormCudaColumns + 1), rstd("wide/rstd", DType::kF32, 1);
  x.fill(0.0);
  EXPECT_THROW(normalize_fwd_cuda({x.view(), x.view(), rstd.view(), 1, x.count(), kEps}, nullptr), Error);
}

// With a residual, the result must have the same bits as if the residual were added, the sum stored, and the stored sum normalized in
// separate steps. The gradient of the stored sum must be added in the backward pass.
TEST(RmsNormCuda, AddsAResidualAndTheGradientOfTheSum) {
  std::vector<RmsNormDims> all = norm_dims();
  all.push_back({.T = 9, .N = 8192, .C = 8192});
  for (const RmsNormDims& dims : all) {
    if (dims.C != dims.N) continue;
    for (const DType dtype : cuda_types()) {
      RmsCase test(dims, dtype, DType::kF32);
      SCOPED_TRACE(test.name);
      const int64_t size = dims.T * dims.N;
      GuardedBuffer residual("residual", dtype, size), sum("sum", dtype, size),
          want_sum("want sum", dtype, size), y("y", dtype, size), want_y("want y", dtype, size),
          rstd("rstd", DType::kF32, dims.T), want_rstd("want rstd", DType::kF32, dims.T),
          d_x("d_x", dtype, size), d_gain("d_gain", DType::kF32, dims.C),
          scratch = scratch_of(rms_norm_bwd_cuda_scratch_bytes(dims));
      residual.fill_normal(0.1, 3.0);
      Twins gpu;
      add_fwd_cuda({gpu(test.x), gpu(residual), gpu(want_sum), size}, nullptr);
      rms_norm_fwd_cuda({dims, gpu(want_sum), gpu(test.gain), {}, gpu(want_y), gpu(want_rstd), kRmsEps},
                        nullptr);
      const RmsNormFwdArgs forward{dims,      gpu(test.x), gpu(test.gain), {},      gpu(y),
                                   gpu(rstd), kRmsEps,     gpu(residual),  gpu(sum)};
      RmsNormBwdArgs backward{dims,     gpu(test.d_y), gpu(test.x), gpu(test.gain), {}, gpu(test.rstd),
                              gpu(d_x), gpu(d_gain),   {},          gpu(scratch)};
      backward.d_sum_term = gpu(residual);
      run_twice(gpu, {&y, &rstd, &sum, &d_x, &d_gain}, [&] {
        rms_norm_fwd_cuda(forward, nullptr);
        rms_norm_bwd_cuda(backward, nullptr, nullptr);
      });
      expect_same_bits(sum, want_sum);
      expect_same_bits(y, want_y);
      expect_same_bits(rstd, want_rstd);
      const std::vector<double> bounds = test.d_x_bounds();
      for (int64_t i = 0; i < size; ++i) {
        const double want = test.want_d_x.load(i) + residual.load(i);
        ASSERT_NEAR(d_x.load(i), want,
                    bounds[static_cast<size_t>(i)] + 1.01 * kRoundoffF32 * std::abs(want) +
                        store_error_bound(dtype, want))
            << i;
      }
    }
  }
}

TEST(RmsNormCuda, IsWithinItsBoundsOfTheReference) {
  std::vector<RmsNormDims> all = norm_dims();
  all.push_back({.T = 40, .N = 4096, .C = 4096});
  all.push_back({.T = 9, .N = 8192, .C = 8192});
  all.push_back({.T = 3000, .N = 72, .C = 24, .H = 1, .G = 2});
  for (const RmsNormDims& dims : all) {
    for (const DType dtype : cuda_types()) {
      for (const DType gains : {DType::kF32, dtype}) {
        RmsCase test(dims, dtype, gains);
        SCOPED_TRACE(test.name);
        GuardedBuffer y("y", dtype, dims.T * dims.N), rstd("rstd", DType::kF32, test.vectors);
        GuardedBuffer d_x("d_x", dtype, dims.T * dims.N), d_gain("d_gain", DType::kF32, dims.C);
        GuardedBuffer d_second("d_second", DType::kF32, dims.C);
        GuardedBuffer scratch = scratch_of(rms_norm_bwd_cuda_scratch_bytes(dims));
        d_second.fill(0.0);
        Twins gpu;
        RmsNormFwdArgs forward{dims, gpu(test.x), gpu(test.gain), {}, gpu(y), gpu(rstd), kRmsEps};
        RmsNormBwdArgs backward{dims,     gpu(test.d_y), gpu(test.x), gpu(test.gain), {}, gpu(test.rstd),
                                gpu(d_x), gpu(d_gain),   {},          gpu(scratch)};
        if (dims.G > 0) {
          forward.second_gain = backward.second_gain = gpu(test.second_gain);
          backward.d_second_gain = gpu(d_second);
        }
        run_twice(gpu, {&y, &rstd, &d_x, &d_gain, &d_second}, [&] {
          rms_norm_fwd_cuda(forward, nullptr);
          rms_norm_bwd_cuda(backward, nullptr, nullptr);
        });
        expect_within(y, test.want_y, test.y_bounds());
        expect_within(rstd, test.want_rstd, test.rstd_bounds());
        // Without rstd, few whole rows are normalized by another kernel (norm_few_rows.h).
        GuardedBuffer alone("y without rstd", dtype, dims.T * dims.N);
        forward.y = gpu(alone);
        forward.rstd = {};
        run_twice(gpu, {&alone}, [&] { rms_norm_fwd_cuda(forward, nullptr); });
        expect_within(alone, test.want_y, test.y_bounds());
        expect_within(d_x, test.want_d_x, test.d_x_bounds());
        const double depth = rms_norm_gain_cuda_depth(dims);
        expect_within(d_gain, test.want_gain, test.gain_bounds(test.gain, depth));
        if (dims.G > 0) expect_within(d_second, test.want_second, test.gain_bounds(test.second_gain, depth));
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::test
