#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/element_wise/rounding.h"
#include "kernels/element_wise/testing/cuda_cases.h"
#include "kernels/loss/bce_with_logits.h"
#include "kernels/loss/count_correct.h"
#include "kernels/loss/mse.h"
#include "kernels/loss/nll.h"
#include "kernels/loss/softmax.h"
#include "kernels/loss/softmax_cross_entropy.h"
#include "kernels/loss/top_logits.h"

namespace plimsoll::test {
namespace {

const std::vector<RowsAndColumns> kShapes = {{1, 1},     {8, 2},    {3, 5},     {16, 17},
                                             {5, 64},    {2, 1025}, {3, 4096},  {2, 30522},
                                             {3, 30528}, {900, 33}, {70, 1024}, {5, 1032}};

GuardedBuffer scalar(DType dtype, double value) {
  GuardedBuffer buffer("scalar", dtype, 1);
  buffer.fill(value);
  return buffer;
}

// Returns one error bound per element: `bound` plus the rounding of the element to type `stored`.
std::vector<double> bounds_of(const GuardedBuffer& want, DType stored, double bound) {
  std::vector<double> bounds;
  for (int64_t i = 0; i < want.count(); ++i)
    bounds.push_back(bound + store_error_bound(stored, want.load(i)));
  return bounds;
}

// Logits and labels. Every third row has an ignored label, but never the first row. The logits of ignored rows are NaN, because no kernel
// may read them.
struct Classified {
  RowsAndColumns shape;
  GuardedBuffer logits, labels, denominator{"denominator", DType::kF32, 1}, d_loss{"d_loss", DType::kF64, 1};

  Classified(RowsAndColumns s, DType dtype)
      : shape(s),
        logits(tensor_name("logits", s, dtype), dtype, s.size()),
        labels(tensor_name("labels", s, dtype), DType::kI32, s.T) {
    logits.fill_normal(0.0, 3.0);
    labels.fill_indices(s.C);
    double rows = 0.0;
    for (int64_t b = 0; b < s.T; ++b) {
      if (b % 3 == 2) labels.view().store(b, b % 2 == 0 ? -100.0 : -1.0);
      rows += labels.load(b) >= 0.0 ? 1.0 : 0.0;
    }
    for (int64_t i = 0; i < s.size(); ++i) {
      if (labels.load(i / s.C) < 0.0) logits.view().store(i, std::numeric_limits<double>::quiet_NaN());
    }
    denominator.fill(rows);
    d_loss.fill(1.5);
  }
};

// Returns the coefficient of the z-loss and a bound on |log Z| of the rows, from which error bounds are computed.
ZLossBound z_bound_of(const GuardedBuffer& logits, int64_t num_classes, double coefficient) {
  double largest = 0.0;
  for (int64_t i = 0; i < logits.count(); ++i) {
    if (std::isfinite(logits.load(i))) largest = std::max(largest, std::abs(logits.load(i)));
  }
  return {coefficient, largest + std::log(static_cast<double>(num_classes))};
}

void check_cross_entropy(RowsAndColumns shape, DType dtype, double smoothing, double z_coefficient) {
  Classified problem(shape, dtype);
  GuardedBuffer want_z("want z_loss", DType::kF64, 1), z_loss("z_loss", DType::kF32, 1),
      z_scratch = scratch_of(row_loss_cuda_scratch_bytes(shape.T));
  GuardedBuffer want_loss("want loss", DType::kF64, 1), want_rows("want rows", DType::kF64, shape.T),
      want_d("want d_logits", DType::kF64, shape.size());
  const auto fwd = [&](const auto& at, View loss, View rows, View z, View scratch, View z_rows) {
    return SoftmaxCrossEntropyFwdArgs{.logits_BK = at(problem.logits),
                                      .labels_B = at(problem.labels),
                                      .denominator = at(problem.denominator),
                                      .loss = loss,
                                      .row_loss_B = rows,
                                      .num_rows = shape.T,
                                      .num_classes = shape.C,
                                      .label_smoothing = smoothing,
                                      .z_coefficient = z_coefficient,
                                      .z_loss = z,
                                      .scratch = scratch,
                                      .z_scratch = z_rows};
  };
  const auto bwd = [&](const auto& at, View d_logits) {
    return SoftmaxCrossEntropyBwdArgs{.logits_BK = at(problem.logits),
                                      .labels_B = at(problem.labels),
                                      .denominator = at(problem.denominator),
                                      .d_loss = at(problem.d_loss),
                                      .d_logits_BK = d_logits,
                                      .num_rows = shape.T,
                                      .num_classes = shape.C,
                                      .label_smoothing = smoothing,
                                      .z_coefficient = z_coefficient};
  };
  const auto on_host = [](GuardedBuffer& buffer) { return buffer.view(); };
  softmax_cross_entropy_fwd_ref(fwd(on_host, want_loss.view(), want_rows.view(), want_z.view(), {}, {}));
  softmax_cross_entropy_bwd_ref(bwd(on_host, want_d.view()));
  GuardedBuffer loss("loss", DType::kF32, 1), rows("rows", DType::kF32, shape.T), d("d", dtype, shape.size()),
      scratch = scratch_of(row_loss_cuda_scratch_bytes(shape.T));
  Twins gpu;
  const auto on_gpu = [&](GuardedBuffer& buffer) { return gpu(buffer); };
  run_twice(gpu, {&loss, &rows, &z_loss, &d}, [&] {
    softmax_cross_entropy_fwd_cuda(
        fwd(on_gpu, gpu(loss), gpu(rows), gpu(z_loss), gpu(scratch), gpu(z_scratch)), nullptr);
    softmax_cross_entropy_bwd_cuda(bwd(on_gpu, gpu(d)), nullptr);
  });
  const ZLossBound z = z_bound_of(problem.logits, shape.C, z_coefficient);
  const double row_error = softmax_cross_entropy_row_error(shape.C) +
                           z_loss_row_error(z, softmax_cross_entropy_row_error(shape.C));
  const Limit limit{.absolute = row_error, .relative = 0x1p-24, .zeros = Zeros::kExpected};
  EXPECT_TRUE(compare(loss, want_loss, limit).ok()) << compare(loss, want_loss, limit);
  EXPECT_TRUE(compare(z_loss, want_z, limit).ok()) << compare(z_loss, want_z, limit);
  EXPECT_TRUE(compare(rows, want_rows, limit).ok()) << compare(rows, want_rows, limit);
  const double scale = problem.d_loss.load(0) / problem.denominator.load(0);
  expect_within(d, want_d, bounds_of(want_d, dtype, softmax_cross_entropy_bwd_error(shape.C, scale, z)));
  softmax_cross_entropy_bwd_cuda(bwd(on_gpu, gpu(problem.logits)),
                                 nullptr);  // computes the gradients in place: d_logits overwrites the logits
  gpu.download();
  expect_same_bits(problem.logits, d);
}

TEST(SoftmaxCrossEntropyCuda, MatchesTheReference) {
  for (const RowsAndColumns shape : kShapes) {
    for (const DType dtype : cuda_types()) {
      for (const auto& [smoothing, z_coefficient] :
           {std::pair{0.0, 0.0}, {0.1, 0.0}, {0.0, 1e-3}, {0.1, 0.1}})
        check_cross_entropy(shape, dtype, smoothing, z_coefficient);
    }
  }
}

// Tests rows that begin at multiples of 16 bytes although the number of classes is not a multiple of the number of elements in 16 bytes.
// The padding between rows must not be read, and the gradients, the losses and the count must be those of the reference.
void check_padded_rows(RowsAndColumns shape, int64_t stride, DType dtype, double z_coefficient) {
  Classified problem(shape, dtype);
  GuardedBuffer padded(tensor_name("padded", shape, dtype), dtype, shape.T * stride);
  padded.fill(std::numeric_limits<double>::quiet_NaN());
  for (int64_t i = 0; i < shape.size(); ++i)
    padded.view().store(i / shape.C * stride + i % shape.C, problem.logits.load(i));
  GuardedBuffer want_loss("want loss", DType::kF64, 1), want_rows("want rows", DType::kF64, shape.T),
      want_d("want d_logits", DType::kF64, shape.size()), want_count("want count", DType::kI32, 1);
  SoftmaxCrossEntropyFwdArgs fwd{.logits_BK = problem.logits.view(),
                                 .labels_B = problem.labels.view(),
                                 .denominator = problem.denominator.view(),
                                 .loss = want_loss.view(),
                                 .row_loss_B = want_rows.view(),
                                 .num_rows = shape.T,
                                 .num_classes = shape.C,
                                 .z_coefficient = z_coefficient};
  SoftmaxCrossEntropyBwdArgs bwd{.logits_BK = problem.logits.view(),
                                 .labels_B = problem.labels.view(),
                                 .denominator = problem.denominator.view(),
                                 .d_loss = problem.d_loss.view(),
                                 .d_logits_BK = want_d.view(),
                                 .num_rows = shape.T,
                                 .num_classes = shape.C,
                                 .z_coefficient = z_coefficient};
  CountCorrectArgs count{.logits_BK = problem.logits.view(),
                         .labels_B = problem.labels.view(),
                         .count = want_count.view(),
                         .num_rows = shape.T,
                         .num_classes = shape.C};
  softmax_cross_entropy_fwd_ref(fwd);
  softmax_cross_entropy_bwd_ref(bwd);
  count_correct_ref(count);
  GuardedBuffer loss("loss", DType::kF32, 1), rows("rows", DType::kF32, shape.T),
      got_count("count", DType::kI32, 1), losses = scratch_of(row_loss_cuda_scratch_bytes(shape.T)),
                                          together("losses of bwd", DType::kF64, shape.T);
  Twins gpu;
  fwd.logits_BK = bwd.logits_BK = count.logits_BK = gpu(padded);
  fwd.labels_B = bwd.labels_B = count.labels_B = gpu(problem.labels);
  fwd.denominator = bwd.denominator = gpu(problem.denominator);
  fwd.row_stride = bwd.row_stride = count.row_stride = stride;
  fwd.loss = gpu(loss), fwd.row_loss_B = gpu(rows), fwd.scratch = gpu(losses);
  count.count = gpu(got_count);
  bwd.d_loss = gpu(problem.d_loss), bwd.d_logits_BK = gpu(padded), bwd.row_losses = gpu(together);
  softmax_cross_entropy_fwd_cuda(fwd, nullptr);
  count_correct_cuda(count, nullptr);
  // Computes the gradients in place: d_logits overwrites the logits.
  softmax_cross_entropy_bwd_cuda(bwd, nullptr);
  gpu.download();
  const ZLossBound z = z_bound_of(problem.logits, shape.C, z_coefficient);
  const double row_error = softmax_cross_entropy_row_error(shape.C) +
                           z_loss_row_error(z, softmax_cross_entropy_row_error(shape.C));
  const Limit limit{.absolute = row_error, .relative = 0x1p-24, .zeros = Zeros::kExpected};
  EXPECT_TRUE(compare(loss, want_loss, limit).ok()) << compare(loss, want_loss, limit);
  EXPECT_TRUE(compare(rows, want_rows, limit).ok()) << compare(rows, want_rows, limit);
  EXPECT_TRUE(compare(together, want_rows, limit).ok()) << compare(together, want_rows, limit);
  EXPECT_EQ(got_count.load(0), want_count.load(0));
  GuardedBuffer d("d", dtype, shape.size());
  for (int64_t i = 0; i < shape.size(); ++i)
    d.view().store(i, padded.load(i / shape.C * stride + i % shape.C));
  const double scale = problem.d_loss.load(0) / problem.denominator.load(0);
  expect_within(d, want_d, bounds_of(want_d, dtype, softmax_cross_entropy_bwd_error(shape.C, scale, z)));
}

TEST(SoftmaxCrossEntropyCuda, DoesNotReadThePaddingBetweenRows) {
  for (const auto& [shape, stride] : {std::pair{RowsAndColumns{7, 5}, 8},
                                      {RowsAndColumns{33, 1001}, 1024},
                                      {RowsAndColumns{5, 1025}, 1032},
                                      {RowsAndColumns{9, 30522}, 30528},
                                      {RowsAndColumns{4, 50257}, 50304}}) {
    for (const DType dtype : cuda_types()) {
      for (const double z_coefficient : {0.0, 1e-3}) check_padded_rows(shape, stride, dtype, z_coefficient);
    }
  }
}

// The logits are small integers, so that many of them are equal. In the longest rows, one thread reads more of the largest logits than it
// can keep, so that it must read its elements again.
TEST(TopLogitsCuda, EqualsTheReference) {
  for (const auto& [shape, k] : {std::pair{RowsAndColumns{3, 1}, 1},
                                 {RowsAndColumns{5, 7}, 7},
                                 {RowsAndColumns{4, 1000}, 8},
                                 {RowsAndColumns{2, 50257}, 17},
                                 {RowsAndColumns{3, 128256}, 64},
                                 {RowsAndColumns{8, 30528}, 1},
                                 {RowsAndColumns{20, 8192}, 9},
                                 {RowsAndColumns{32, 4099}, 8},
                                 {RowsAndColumns{40, 2051}, 64},
                                 {RowsAndColumns{130, 4100}, 3}}) {
    for (const DType dtype : cuda_types()) {
      for (const bool has_ties : {false, true}) {
        GuardedBuffer logits(tensor_name("logits", shape, dtype), dtype, shape.size()),
            values("values", DType::kF32, shape.T * k), ids("ids", DType::kI32, shape.T * k),
            log_sums("log_sums", DType::kF64, shape.T), want_values("want values", DType::kF32, shape.T * k),
            want_ids("want ids", DType::kI32, shape.T * k), want_sums("want log_sums", DType::kF64, shape.T);
        has_ties ? logits.fill_small_integers() : logits.fill_normal(0.0, 3.0);
        if (has_ties && k > 8) {  // few threads read most of the largest logits
          for (int64_t i = 0; i < shape.C; i += 8192) logits.view().store(i, 9.0);
        }
        TopLogitsArgs args{.logits_BV = logits.view(),
                           .values_BK = want_values.view(),
                           .ids_BK = want_ids.view(),
                           .log_sum_B = want_sums.view(),
                           .num_rows = shape.T,
                           .num_classes = shape.C,
                           .k = k};
        top_logits_ref(args);
        Twins gpu;
        args.logits_BV = gpu(logits);
        args.values_BK = gpu(values);
        args.ids_BK = gpu(ids);
        args.log_sum_B = gpu(log_sums);
        run_twice(gpu, {&values, &ids, &log_sums}, [&] { top_logits_cuda(args, nullptr); });
        expect_same_bits(ids, want_ids);
        expect_same_bits(values, want_values);
        const Limit limit{.absolute = softmax_sum_error(shape.C), .relative = 0x1p-50};
        EXPECT_TRUE(compare(log_sums, want_sums, limit).ok()) << compare(log_sums, want_sums, limit);
      }
    }
  }
}

// Rows in which all logits are equal, so that more logits than fit into the list of a thread block are as large as the k-th one, and rows
// with NaN, infinities or fewer than k finite logits.
TEST(TopLogitsCuda, EqualAndNonFiniteLogits) {
  constexpr int64_t kRows = 6;
  for (const auto& [classes, k] :
       {std::pair<int64_t, int64_t>{6, 5}, {3000, 5}, {30001, 5}, {7, 1}, {30001, 1}}) {
    for (const DType dtype : cuda_types()) {
      GuardedBuffer logits(tensor_name("logits", {kRows, classes}, dtype), dtype, kRows * classes),
          values("values", DType::kF32, kRows * k), ids("ids", DType::kI32, kRows * k),
          log_sums("log_sums", DType::kF64, kRows), want_values("want values", DType::kF32, kRows * k),
          want_ids("want ids", DType::kI32, kRows * k), want_sums("want log_sums", DType::kF64, kRows);
      logits.fill(1.5);
      const View all = logits.view();
      for (int64_t i = 0; i < classes; ++i) {
        all.store(classes + i, i % 2 == 0 ? 0.0 : -0.0);
        all.store(2 * classes + i, -HUGE_VAL);
        all.store(3 * classes + i, i % 3 == 0 ? std::nan("") : -2.0);
        all.store(4 * classes + i, i == classes - 1 ? HUGE_VAL : -1.0);
      }
      for (const int64_t i : {classes - 1, classes / 2, int64_t{1}}) all.store(2 * classes + i, -3.0);
      TopLogitsArgs args{.logits_BV = logits.view(),
                         .values_BK = want_values.view(),
                         .ids_BK = want_ids.view(),
                         .log_sum_B = want_sums.view(),
                         .num_rows = kRows,
                         .num_classes = classes,
                         .k = k};
      top_logits_ref(args);
      Twins gpu;
      args.logits_BV = gpu(logits);
      args.values_BK = gpu(values);
      args.ids_BK = gpu(ids);
      args.log_sum_B = gpu(log_sums);
      run_twice(gpu, {&values, &ids, &log_sums}, [&] { top_logits_cuda(args, nullptr); });
      expect_same_bits(ids, want_ids);
      EXPECT_EQ(values.to_doubles(), want_values.to_doubles());  // the value of -0 is 0
      for (int64_t row = 0; row < kRows; ++row) {
        EXPECT_EQ(std::isnan(log_sums.load(row)), row == 3 || row == 4);
        if (row == 3 || row == 4) continue;
        EXPECT_NEAR(log_sums.load(row), want_sums.load(row), softmax_sum_error(classes));
      }
    }
  }
}

TEST(SoftmaxCrossEntropyCuda, NonFiniteInputsStayVisible) {
  for (const double bad : {std::nan(""), HUGE_VAL}) {
    Classified problem({4, 9}, DType::kF32);
    problem.logits.view().store(5, bad);
    GuardedBuffer loss("loss", DType::kF32, 1), scratch = scratch_of(row_loss_cuda_scratch_bytes(4));
    Twins gpu;
    softmax_cross_entropy_fwd_cuda({.logits_BK = gpu(problem.logits),
                                    .labels_B = gpu(problem.labels),
                                    .denominator = gpu(problem.denominator),
                                    .loss = gpu(loss),
                                    .num_rows = 4,
                                    .num_classes = 9,
                                    .scratch = gpu(scratch)},
                                   nullptr);
    gpu.download();
    EXPECT_TRUE(std::isnan(loss.load(0)));
  }
}

void check_log_softmax(RowsAndColumns shape, DType dtype) {
  GuardedBuffer x(tensor_name("x", shape, dtype), dtype, shape.size()),
      d_y(tensor_name("d_y", shape, dtype), dtype, shape.size()), y("y", dtype, shape.size()),
      d_x("d_x", dtype, shape.size()), want_y("want y", DType::kF64, shape.size()),
      want_d_x("want d_x", DType::kF64, shape.size());
  x.fill_normal(0.0, 3.0);
  d_y.fill_normal();
  log_softmax_fwd_ref({x.view(), want_y.view(), shape.T, shape.C});
  Twins gpu;
  run_twice(gpu, {&y}, [&] { log_softmax_fwd_cuda({gpu(x), gpu(y), shape.T, shape.C}, nullptr); });
  run_twice(gpu, {&d_x}, [&] {
    log_softmax_bwd_cuda({gpu(y), gpu(d_y), gpu(d_x), shape.T, shape.C}, nullptr);
  });
  log_softmax_bwd_ref({y.view(), d_y.view(), want_d_x.view(), shape.T, shape.C});
  std::vector<double> y_bounds, d_x_bounds;
  for (int64_t b = 0; b < shape.T; ++b) {
    double sum_abs_d_y = 0.0;
    for (int64_t i = b * shape.C; i < (b + 1) * shape.C; ++i) sum_abs_d_y += std::abs(d_y.load(i));
    for (int64_t i = b * shape.C; i < (b + 1) * shape.C; ++i) {
      y_bounds.push_back(log_softmax_fwd_error(shape.C, std::abs(want_y.load(i))) +
                         store_error_bound(dtype, want_y.load(i)));
      d_x_bounds.push_back(log_softmax_bwd_error(shape.C, sum_abs_d_y) +
                           store_error_bound(dtype, want_d_x.load(i)));
    }
  }
  expect_within(y, want_y, y_bounds);
  expect_within(d_x, want_d_x, d_x_bounds);
  log_softmax_fwd_cuda({gpu(x), gpu(x), shape.T, shape.C}, nullptr);
  log_softmax_bwd_cuda({gpu(y), gpu(d_y), gpu(d_y), shape.T, shape.C}, nullptr);
  gpu.download();
  expect_same_bits(x, y);
  expect_same_bits(d_y, d_x);
}

TEST(LogSoftmaxCuda, MatchesTheReference) {
  for (const RowsAndColumns shape : kShapes) {
    for (const DType dtype : cuda_types()) check_log_softmax(shape, dtype);
  }
}

void check_nll(RowsAndColumns shape, DType dtype, double smoothing) {
  Classified problem(shape, dtype);
  GuardedBuffer want_loss("want loss", DType::kF64, 1), want_d("want d", DType::kF64, shape.size()),
      loss("loss", DType::kF32, 1), d("d", dtype, shape.size()),
      scratch = scratch_of(row_loss_cuda_scratch_bytes(shape.T));
  NllFwdArgs fwd{.y_BK = problem.logits.view(),
                 .labels_B = problem.labels.view(),
                 .denominator = problem.denominator.view(),
                 .loss = want_loss.view(),
                 .num_rows = shape.T,
                 .num_classes = shape.C,
                 .label_smoothing = smoothing,
                 .accumulate = Accumulate::kAdd};
  NllBwdArgs bwd{.labels_B = problem.labels.view(),
                 .denominator = problem.denominator.view(),
                 .d_loss = problem.d_loss.view(),
                 .d_y_BK = want_d.view(),
                 .num_rows = shape.T,
                 .num_classes = shape.C,
                 .label_smoothing = smoothing};
  want_loss.fill(0.5);
  loss.fill(0.5);
  nll_fwd_ref(fwd);
  nll_bwd_ref(bwd);
  Twins gpu;
  fwd.y_BK = gpu(problem.logits);
  fwd.labels_B = bwd.labels_B = gpu(problem.labels);
  fwd.denominator = bwd.denominator = gpu(problem.denominator);
  bwd.d_loss = gpu(problem.d_loss);
  fwd.loss = gpu(loss);
  fwd.scratch = gpu(scratch);
  bwd.d_y_BK = gpu(d);
  run_twice(gpu, {&loss, &d}, [&] {
    nll_fwd_cuda(fwd, nullptr);
    nll_bwd_cuda(bwd, nullptr);
  });
  const Limit limit{.absolute = 1e-12,
                    .relative = 0x1p-24 + 0x1p-50 * static_cast<double>(shape.T),
                    .zeros = Zeros::kExpected};
  EXPECT_TRUE(compare(loss, want_loss, limit).ok()) << compare(loss, want_loss, limit);
  // The error of an element is at most one rounding in fp32 and one rounding when it is stored.
  std::vector<double> bounds;
  for (int64_t i = 0; i < shape.size(); ++i) {
    bounds.push_back(0x1p-24 * std::abs(want_d.load(i)) + store_error_bound(dtype, want_d.load(i)));
  }
  expect_within(d, want_d, bounds);
}

TEST(NllCuda, MatchesTheReference) {
  for (const RowsAndColumns shape : kShapes) {
    for (const DType dtype : cuda_types()) {
      for (const double smoothing : {0.0, 0.25}) check_nll(shape, dtype, smoothing);
    }
  }
}

// The tensors of a loss over samples and labels. The last three rows, if there are enough rows, are unused and contain NaN, because no
// kernel may read them.
struct Regressed {
  RowsAndColumns shape;
  int64_t real;
  GuardedBuffer x, labels, denominator, d_loss{"d_loss", DType::kF32, 1}, num_real;

  Regressed(RowsAndColumns s, DType dtype, DType counts, bool zero_or_one)
      : shape(s),
        real(std::max<int64_t>(s.T - 3, 1)),
        x(tensor_name("x", s, dtype), dtype, s.size()),
        labels(tensor_name("labels", s, dtype), DType::kF32, s.size()),
        denominator(scalar(DType::kF32, static_cast<double>(real))),
        num_real(integers(counts, {real})) {
    x.fill_normal(0.0, 3.0);
    if (zero_or_one) {
      for (int64_t i = 0; i < s.size(); ++i) labels.view().store(i, static_cast<double>(i % 3 == 0));
    } else {
      labels.fill_normal();
    }
    for (int64_t i = real * s.C; i < s.size(); ++i) {
      x.view().store(i, std::nan(""));
      labels.view().store(i, std::nan(""));
    }
    d_loss.fill(1.5);
  }
  template <class Args, class At>
  Args fwd(const At& at, View loss, View scratch) {
    return {.x_BK = at(x),
            .labels_BK = at(labels),
            .denominator = at(denominator),
            .loss = loss,
            .num_rows = shape.T,
            .num_real_rows = real,
            .num_classes = shape.C,
            .scratch = scratch};
  }
  template <class Args, class At>
  Args bwd(const At& at, View d_x) {
    return {.x_BK = at(x),
            .labels_BK = at(labels),
            .denominator = at(denominator),
            .d_loss = at(d_loss),
            .d_x_BK = d_x,
            .num_rows = shape.T,
            .num_real_rows = real,
            .num_classes = shape.C};
  }
};

const auto kOnHost = [](GuardedBuffer& buffer) { return buffer.view(); };

void check_bce(RowsAndColumns shape, DType dtype) {
  Regressed problem(shape, dtype, DType::kI32, true);
  GuardedBuffer want_loss("want loss", DType::kF64, 1), want_d("want d", DType::kF64, shape.size()),
      loss("loss", DType::kF32, 1), d("d", dtype, shape.size()),
      scratch = scratch_of(row_loss_cuda_scratch_bytes(shape.T));
  bce_with_logits_fwd_ref(problem.fwd<BceWithLogitsFwdArgs>(kOnHost, want_loss.view(), {}));
  bce_with_logits_bwd_ref(problem.bwd<BceWithLogitsBwdArgs>(kOnHost, want_d.view()));
  Twins gpu;
  const auto on_gpu = [&](GuardedBuffer& buffer) { return gpu(buffer); };
  run_twice(gpu, {&loss, &d}, [&] {
    auto fwd = problem.fwd<BceWithLogitsFwdArgs>(on_gpu, gpu(loss), gpu(scratch));
    auto bwd = problem.bwd<BceWithLogitsBwdArgs>(on_gpu, gpu(d));
    // The kernels must read the number of real rows from device memory, so that these numbers on the host have no effect.
    fwd.num_real_rows = bwd.num_real_rows = 0;
    bce_with_logits_fwd_cuda(fwd, gpu(problem.num_real), nullptr);
    bce_with_logits_bwd_cuda(bwd, gpu(problem.num_real), nullptr);
  });
  double magnitude = 0.0;
  for (int64_t i = 0; i < problem.real * shape.C; ++i) {
    magnitude += std::abs(problem.x.load(i)) * (1.0 + std::abs(problem.labels.load(i))) + 1.0;
  }
  magnitude /= static_cast<double>(problem.real * shape.C);
  EXPECT_NEAR(loss.load(0), want_loss.load(0),
              bce_with_logits_fwd_error(magnitude) + 0x1p-24 * want_loss.load(0));
  const double scale = 1.5 / static_cast<double>(problem.real * shape.C);
  expect_within(d, want_d, bounds_of(want_d, dtype, bce_with_logits_bwd_error(1.0, scale)));
  bce_with_logits_bwd_cuda(problem.bwd<BceWithLogitsBwdArgs>(on_gpu, gpu(problem.x)), {}, nullptr);
  gpu.download();
  expect_same_bits(problem.x, d);
}

TEST(BceWithLogitsCuda, MatchesTheReference) {
  for (const RowsAndColumns shape : kShapes) {
    for (const DType dtype : cuda_types()) check_bce(shape, dtype);
  }
}

void check_mse(RowsAndColumns shape, DType dtype) {
  Regressed problem(shape, dtype, DType::kI64, false);
  GuardedBuffer want_loss("want loss", DType::kF64, 1), want_d("want d", DType::kF64, shape.size()),
      loss("loss", DType::kF32, 1), d("d", dtype, shape.size()),
      scratch = scratch_of(row_loss_cuda_scratch_bytes(shape.T));
  mse_fwd_ref(problem.fwd<MseFwdArgs>(kOnHost, want_loss.view(), {}));
  mse_bwd_ref(problem.bwd<MseBwdArgs>(kOnHost, want_d.view()));
  Twins gpu;
  const auto on_gpu = [&](GuardedBuffer& buffer) { return gpu(buffer); };
  run_twice(gpu, {&loss, &d}, [&] {
    mse_fwd_cuda(problem.fwd<MseFwdArgs>(on_gpu, gpu(loss), gpu(scratch)), gpu(problem.num_real), nullptr);
    mse_bwd_cuda(problem.bwd<MseBwdArgs>(on_gpu, gpu(d)), gpu(problem.num_real), nullptr);
  });
  EXPECT_NEAR(loss.load(0), want_loss.load(0),
              (0x1p-24 + 0x1p-53 * static_cast<double>(shape.size())) * want_loss.load(0));
  // An element has three rounding errors, those of the difference, of the factor and of the product, each relative to the element's
  // magnitude.
  std::vector<double> bounds;
  for (int64_t i = 0; i < shape.size(); ++i) {
    bounds.push_back(3.01 * 0x1p-24 * std::abs(want_d.load(i)) + store_error_bound(dtype, want_d.load(i)));
  }
  expect_within(d, want_d, bounds);
}

TEST(MseCuda, MatchesTheReference) {
  for (const RowsAndColumns shape : kShapes) {
    for (const DType dtype : cuda_types()) check_mse(shape, dtype);
  }
}

}  // namespace
}  // namespace plimsoll::test
