#include "kernels/loss/linear_cross_entropy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "device/cpu/cpu_features.h"
#include "device/cpu/parallel.h"
#include "kernels/element_wise/add.h"
#include "kernels/matmul/matmul.h"
#include "plimsoll/error.h"
#include "tests/support/compare.h"
#include "tests/support/finite_difference.h"

namespace plimsoll {
namespace {

using test::compare;
using test::GuardedBuffer;

std::span<std::byte> bytes_of(GuardedBuffer& buffer) {
  return {static_cast<std::byte*>(buffer.view().data), static_cast<size_t>(buffer.size_bytes())};
}

// Returns the sizes of a layer and its loss. The tests use chunks of a single row, a last chunk with fewer rows, chunks so large that the
// matrix library copies the weight into its own layout, and one chunk of all rows.
LinearCrossEntropyProblem problem_of(int64_t rows, int64_t hidden, int64_t classes, int64_t chunk) {
  return {.rows = rows,
          .chunk_rows = chunk,
          .hidden = hidden,
          .classes = classes,
          .bias = MatmulBias::kRow,
          .num_threads = num_threads(),
          .isa = cpu_isa()};
}
const std::vector<LinearCrossEntropyProblem>& problems() {
  static const std::vector<LinearCrossEntropyProblem> all{
      problem_of(1, 8, 2, 1),      problem_of(5, 8, 3, 2),     problem_of(7, 16, 33, 7),
      problem_of(64, 32, 100, 16), problem_of(9, 40, 30, 100), problem_of(150, 24, 513, 64)};
  return all;
}

// The operands of a problem and the computed results, in the problem's types, and the expected results in double.
struct Case {
  Case(const LinearCrossEntropyProblem& p, const std::string& test)
      : problem(p),
        name(fmt::format("{}/{}x{}x{} by {} {} {}", test, p.rows, p.hidden, p.classes, p.chunk_rows,
                         dtype_name(p.x), dtype_name(p.w))),
        x(name + "/x", p.x, p.rows * p.hidden),
        w(name + "/w", p.w, p.classes * p.hidden),
        bias(name + "/bias", p.bias_dtype, p.classes),
        labels(name + "/labels", DType::kI32, p.rows) {
    x.fill_normal();
    w.fill_normal(0.0, 0.3);
    bias.fill_normal(0.0, 0.3);
    labels.fill_indices(p.classes);
    for (int64_t b = 2; b < p.rows; b += 3) labels.view().as<int32_t>()[b] = b % 2 == 0 ? -100 : -1;
    const int64_t ignored = p.rows / 3;
    denominator = static_cast<double>(p.rows - ignored);
  }
  template <typename Args>
  Args operands(GuardedBuffer& scratch) {
    Args args;
    args.x_BH = x.view();
    args.w_KH = w.view();
    if (problem.bias == MatmulBias::kRow) args.bias_K = bias.view();
    args.labels_B = labels.view();
    args.denominator = {&denominator, DType::kF64};
    args.scratch = bytes_of(scratch);
    return args;
  }
  LinearCrossEntropyProblem problem;
  std::string name;
  GuardedBuffer x, w, bias, labels;
  double denominator = 1.0;
  double d_loss = 1.5;
};

struct Results {
  Results(const Case& c, const std::string& which, bool doubles)
      : loss(c.name + which + "/loss", doubles ? DType::kF64 : DType::kF32, 1),
        z_loss(c.name + which + "/z_loss", doubles ? DType::kF64 : DType::kF32, 1),
        d_x(c.name + which + "/d_x", doubles ? DType::kF64 : c.problem.x, c.x.count()),
        d_w(c.name + which + "/d_w", doubles ? DType::kF64 : c.problem.d_w, c.w.count()),
        d_bias(c.name + which + "/d_bias", doubles ? DType::kF64 : DType::kF32, c.bias.count()) {}
  GuardedBuffer loss, z_loss, d_x, d_w, d_bias;
};

// The kernels with which a test computes the results: a separate kernel for the loss, for d_x, and for the gradients of the parameters, or
// one kernel that computes all of them together.
enum class Way { kRef, kCpu, kRefTogether, kCpuTogether };
constexpr Way kWays[] = {Way::kRef, Way::kCpu, Way::kRefTogether, Way::kCpuTogether};
constexpr bool is_reference(Way way) {
  return way == Way::kRef || way == Way::kRefTogether;
}
constexpr bool is_together(Way way) {
  return way == Way::kRefTogether || way == Way::kCpuTogether;
}

enum class Wants { kAll, kWeight, kBias };

// Runs forward and backward of a problem; with Accumulate::kAdd the gradients of parameters are added to
// their old values.
void run(Case& c, Way way, Results& results, Accumulate accumulate, Wants wants = Wants::kAll) {
  const LinearCrossEntropyProblem& problem = c.problem;
  const auto scratch_of = [&](LossPart part) {
    const int64_t bytes = is_reference(way) ? linear_cross_entropy_ref_scratch(problem).bytes
                                            : linear_cross_entropy_cpu_scratch(problem, part).bytes;
    return GuardedBuffer(c.name + "/scratch", DType::kU8, bytes);
  };
  if (is_together(way)) {
    GuardedBuffer scratch = scratch_of(LossPart::kEverything);
    auto args = c.operands<LinearCrossEntropyWithGradientsArgs>(scratch);
    args.d_loss = {&c.d_loss, DType::kF64};
    args.loss = results.loss.view();
    args.z_loss = results.z_loss.view();
    args.d_x_BH = results.d_x.view();
    if (wants != Wants::kBias) args.d_w_KH = results.d_w.view();
    if (wants != Wants::kWeight && problem.bias == MatmulBias::kRow) args.d_bias_K = results.d_bias.view();
    args.accumulate = accumulate;
    if (way == Way::kRefTogether) {
      linear_cross_entropy_with_gradients_ref(problem, args);
    } else {
      prepare_linear_cross_entropy_with_gradients_cpu(problem)->run(args);
    }
    EXPECT_EQ(scratch.broken_guard(), GuardedBuffer::kIntact) << c.name;
    return;
  }
  GuardedBuffer scratches[] = {scratch_of(LossPart::kLoss), scratch_of(LossPart::kInput),
                               scratch_of(LossPart::kParameters)};
  auto fwd = c.operands<LinearCrossEntropyFwdArgs>(scratches[0]);
  fwd.loss = results.loss.view();
  fwd.z_loss = results.z_loss.view();
  auto bwd = c.operands<LinearCrossEntropyBwdArgs>(scratches[1]);
  bwd.d_loss = {&c.d_loss, DType::kF64};
  bwd.d_x_BH = results.d_x.view();
  auto grad = c.operands<LinearCrossEntropyGradArgs>(scratches[2]);
  grad.d_loss = {&c.d_loss, DType::kF64};
  if (wants != Wants::kBias) grad.d_w_KH = results.d_w.view();
  if (wants != Wants::kWeight && problem.bias == MatmulBias::kRow) grad.d_bias_K = results.d_bias.view();
  grad.accumulate = accumulate;
  if (way == Way::kRef) {
    linear_cross_entropy_fwd_ref(problem, fwd);
    linear_cross_entropy_bwd_ref(problem, bwd);
    linear_cross_entropy_grad_ref(problem, grad);
  } else {
    prepare_linear_cross_entropy_fwd_cpu(problem)->run(fwd);
    prepare_linear_cross_entropy_bwd_cpu(problem)->run(bwd);
    prepare_linear_cross_entropy_grad_cpu(problem)->run(grad);
  }
  for (const GuardedBuffer& scratch : scratches)
    EXPECT_EQ(scratch.broken_guard(), GuardedBuffer::kIntact) << c.name;
}

// The number of ranks among which the tests divide the classes. The first rank has half of the classes and one more. The second rank has
// the other classes, if there are any, and padding.
constexpr int64_t kRanks = 2;

// Runs the forward and the backward pass with classes that are divided between ranks. The results must be those of undivided classes.
void run_divided(Case& c, Way way, Results& results) {
  const LinearCrossEntropyProblem& p = c.problem;
  LinearCrossEntropyProblem part = p;
  const int64_t H = p.hidden, K = p.classes / kRanks + 1;
  part.classes = K;
  part.columns = {.ranks = kRanks, .smooths = p.label_smoothing > 0.0};
  const int64_t num_sums = p.rows * part.columns.size();
  const auto scratch_of = [&](LossPart which) {
    return GuardedBuffer(c.name + "/scratch", DType::kU8,
                         is_reference(way) ? linear_cross_entropy_ref_scratch(part).bytes
                                           : linear_cross_entropy_cpu_scratch(part, which).bytes);
  };
  // The weight of a rank ends with rows of zeros as padding. The bias of the padding is 50, which must have no effect.
  std::vector<GuardedBuffer> weights, biases;
  for (int64_t r = 0; r < kRanks; ++r) {
    GuardedBuffer& w = weights.emplace_back(c.name + "/w of a rank", p.w, K * H);
    GuardedBuffer& bias = biases.emplace_back(c.name + "/bias of a rank", p.bias_dtype, K);
    w.fill(0.0);
    bias.fill(50.0);
    for (int64_t k = 0; k < class_share(r, K, p.classes).count; ++k) {
      bias.view().store(k, c.bias.load(r * K + k));
      for (int64_t h = 0; h < H; ++h) w.view().store(k * H + h, c.w.load((r * K + k) * H + h));
    }
  }
  const auto set_operands = [&](auto& args, int64_t r, GuardedBuffer& scratch) {
    const auto rank = static_cast<size_t>(r);
    args = c.operands<std::remove_reference_t<decltype(args)>>(scratch);
    args.denominator = {};
    args.w_KH = weights[rank].view();
    if (args.bias_K) args.bias_K = biases[rank].view();
    args.share = class_share(r, K, p.classes);
  };
  GuardedBuffer sums(c.name + "/sums", DType::kF32, num_sums),
      d_sums(c.name + "/d_sums", DType::kF32, num_sums);
  sums.fill(0.0);
  for (int64_t r = 0; r < kRanks; ++r) {
    GuardedBuffer own(c.name + "/sums of a rank", DType::kF32, num_sums),
        scratch = scratch_of(LossPart::kLoss);
    LinearCrossEntropyFwdArgs fwd;
    set_operands(fwd, r, scratch);
    fwd.sums_BS = own.view();
    if (is_reference(way)) {
      linear_cross_entropy_fwd_ref(part, fwd);
    } else {
      prepare_linear_cross_entropy_fwd_cpu(part)->run(fwd);
    }
    EXPECT_EQ(scratch.broken_guard(), GuardedBuffer::kIntact) << c.name;
    for (int64_t i = 0; i < num_sums; ++i) sums.view().store(i, sums.load(i) + own.load(i));
  }
  class_sums_loss_ref({.sums_BS = sums.view(),
                       .labels_B = c.labels.view(),
                       .denominator = {&c.denominator, DType::kF64},
                       .loss = results.loss.view(),
                       .z_loss = results.z_loss.view(),
                       .num_rows = p.rows,
                       .num_classes = p.classes,
                       .rank_classes = K,
                       .label_smoothing = p.label_smoothing,
                       .z_coefficient = p.z_coefficient,
                       .columns = part.columns});
  class_sums_loss_bwd_ref({.sums_BS = sums.view(),
                           .labels_B = c.labels.view(),
                           .denominator = {&c.denominator, DType::kF64},
                           .d_loss = {&c.d_loss, DType::kF64},
                           .d_sums_BS = d_sums.view(),
                           .num_rows = p.rows,
                           .num_classes = p.classes,
                           .label_smoothing = p.label_smoothing,
                           .z_coefficient = p.z_coefficient,
                           .columns = part.columns});
  std::vector<double> d_x(static_cast<size_t>(c.x.count()), 0.0);
  for (int64_t r = 0; r < kRanks; ++r) {
    GuardedBuffer own_d_x(c.name + "/d_x of a rank", p.x, c.x.count()),
        d_w(c.name + "/d_w of a rank", p.d_w, K * H), d_bias(c.name + "/d_bias of a rank", DType::kF32, K),
        everything = scratch_of(LossPart::kEverything), input = scratch_of(LossPart::kInput),
        parameters = scratch_of(LossPart::kParameters);
    const auto set_gradients = [&](auto& args, GuardedBuffer& scratch) {
      set_operands(args, r, scratch);
      args.d_sums_BS = d_sums.view();
      args.d_w_KH = d_w.view();
      if (p.bias == MatmulBias::kRow) args.d_bias_K = d_bias.view();
    };
    if (is_together(way)) {
      LinearCrossEntropyWithGradientsArgs args;
      set_gradients(args, everything);
      args.d_x_BH = own_d_x.view();
      if (is_reference(way)) {
        linear_cross_entropy_with_gradients_ref(part, args);
      } else {
        prepare_linear_cross_entropy_with_gradients_cpu(part)->run(args);
      }
    } else {
      LinearCrossEntropyBwdArgs bwd;
      set_operands(bwd, r, input);
      bwd.d_sums_BS = d_sums.view();
      bwd.d_x_BH = own_d_x.view();
      LinearCrossEntropyGradArgs grad;
      set_gradients(grad, parameters);
      if (is_reference(way)) {
        linear_cross_entropy_bwd_ref(part, bwd);
        linear_cross_entropy_grad_ref(part, grad);
      } else {
        prepare_linear_cross_entropy_bwd_cpu(part)->run(bwd);
        prepare_linear_cross_entropy_grad_cpu(part)->run(grad);
      }
    }
    for (const GuardedBuffer* scratch : {&everything, &input, &parameters})
      EXPECT_EQ(scratch->broken_guard(), GuardedBuffer::kIntact) << c.name;
    for (size_t i = 0; i < d_x.size(); ++i) d_x[i] += own_d_x.load(static_cast<int64_t>(i));
    const int64_t count = class_share(r, K, p.classes).count;
    for (int64_t k = 0; k < K; ++k) {
      const bool is_class = k < count;
      if (p.bias == MatmulBias::kRow) {
        if (is_class) results.d_bias.view().store(r * K + k, d_bias.load(k));
        EXPECT_TRUE(is_class || d_bias.load(k) == 0.0) << "padding";
      }
      for (int64_t h = 0; h < H; ++h) {
        if (is_class) results.d_w.view().store((r * K + k) * H + h, d_w.load(k * H + h));
        EXPECT_TRUE(is_class || d_w.load(k * H + h) == 0.0) << "padding";
      }
    }
  }
  results.d_x.assign(d_x);
}

// The exact results, which the references compute in double without chunks, and the error bounds of the tested results.
struct Exact {
  // `ranks` is the number of ranks among which the classes are divided.
  Exact(Case& c, int64_t ranks) : results(c, " exact", true) {
    const LinearCrossEntropyProblem& p = c.problem;
    const int64_t B = p.rows, H = p.hidden, K = p.classes;
    std::vector<double> w = c.w.to_doubles();
    if (p.x == DType::kBF16) {
      for (double& value : w)
        value = static_cast<double>(bf16_to_f32(f32_to_bf16(static_cast<float>(value))));
    }
    const ConstView w_view{w.data(), DType::kF64};
    std::vector<double> z(static_cast<size_t>(B * K)), d_z(z.size());
    const MatmulProblem product{.m = B,
                                .n = K,
                                .k = H,
                                .trans_b = Transpose::kYes,
                                .a = p.x,
                                .b = DType::kF64,
                                .c = DType::kF64,
                                .bias_dtype = p.bias_dtype,
                                .bias = p.bias};
    MatmulArgs args{.a = c.x.view(), .b = w_view, .bias = {}, .c = {z.data(), DType::kF64}};
    if (p.bias == MatmulBias::kRow) args.bias = c.bias.view();
    matmul_ref(product, args);
    softmax_cross_entropy_fwd_ref({.logits_BK = {z.data(), DType::kF64},
                                   .labels_B = c.labels.view(),
                                   .denominator = {&c.denominator, DType::kF64},
                                   .loss = results.loss.view(),
                                   .num_rows = B,
                                   .num_classes = K,
                                   .label_smoothing = p.label_smoothing,
                                   .z_coefficient = p.z_coefficient,
                                   .z_loss = results.z_loss.view()});
    softmax_cross_entropy_bwd_ref({.logits_BK = {z.data(), DType::kF64},
                                   .labels_B = c.labels.view(),
                                   .denominator = {&c.denominator, DType::kF64},
                                   .d_loss = {&c.d_loss, DType::kF64},
                                   .d_logits_BK = {d_z.data(), DType::kF64},
                                   .num_rows = B,
                                   .num_classes = K,
                                   .label_smoothing = p.label_smoothing,
                                   .z_coefficient = p.z_coefficient});
    const bool narrow = p.x == DType::kBF16;
    // Computes the error bounds of one logit and of one gradient of a logit, each including the rounding when it is stored.
    MatmulProblem stored = product;
    stored.c = p.x;
    double logit_error = 0.0;
    for (int64_t b = 0; b < B; ++b) {
      for (int64_t k = 0; k < K; ++k) {
        double sum = 1.0;
        for (int64_t h = 0; h < H; ++h)
          sum += std::abs(c.x.load(b * H + h) * w[static_cast<size_t>(k * H + h)]);
        logit_error =
            std::max(logit_error, matmul_error_bound(stored, sum, z[static_cast<size_t>(b * K + k)]));
      }
    }
    double largest_logit = 0.0;
    for (const double logit : z) largest_logit = std::max(largest_logit, std::abs(logit));
    const ZLossBound of_z{p.z_coefficient, largest_logit + std::log(static_cast<double>(K))};
    const double scale = c.d_loss / c.denominator;
    // With several ranks, more values are rounded to fp32: for each rank the logarithm of its sum of exponentials, the sum of all logits
    // (which the loss of a row contains divided by K), and d_sums, the gradients of the class sums.
    const double sums_error = ranks > 1 ? 0x1p-24 * (2.0 * of_z.largest_log_z + 4.0) : 0.0;
    const double d_error = linear_cross_entropy_d_logit_error(K, logit_error, scale, of_z) +
                           (narrow ? 0x1p-8 * of_z.gradient_factor() * scale : 0.0) +
                           (of_z.gradient_factor() + 2.0 * of_z.coefficient) * sums_error * scale;
    const double row_error = linear_cross_entropy_row_error(K, logit_error) + sums_error;
    loss_limit = static_cast<double>(B) / c.denominator * (row_error + z_loss_row_error(of_z, row_error)) +
                 0x1p-23 * results.loss.load(0);
    const double u = 0x1p-24;
    const double chunks = std::ceil(static_cast<double>(B) / static_cast<double>(p.chunk_rows));
    const double terms = static_cast<double>(B) + 2.0 * chunks + 4.0;
    for (int64_t k = 0; k < K; ++k) {
      double d_sum = 0.0, d_magnitude = 0.0;
      for (int64_t b = 0; b < B; ++b) {
        d_sum += d_z[static_cast<size_t>(b * K + k)];
        d_magnitude += std::abs(d_z[static_cast<size_t>(b * K + k)]);
      }
      results.d_bias.view().store(k, d_sum);
      bias_limits.push_back(static_cast<double>(B) * d_error + 2.0 * terms * u * (d_magnitude + 1.0));
      for (int64_t h = 0; h < H; ++h) {
        double sum = 0.0, magnitude = 0.0, x_sum = 0.0;
        for (int64_t b = 0; b < B; ++b) {
          const double d = d_z[static_cast<size_t>(b * K + k)], x = c.x.load(b * H + h);
          sum += d * x;
          magnitude += std::abs(d * x);
          x_sum += std::abs(x);
        }
        results.d_w.view().store(k * H + h, sum);
        const double store = p.d_w == DType::kBF16 ? 0x1p-8 * chunks * (magnitude + d_error * x_sum) : 0.0;
        w_limits.push_back(d_error * x_sum + 2.0 * terms * u * (magnitude + 1.0) + store);
      }
    }
    for (int64_t b = 0; b < B; ++b) {
      for (int64_t h = 0; h < H; ++h) {
        double sum = 0.0, magnitude = 0.0, w_sum = 0.0;
        for (int64_t k = 0; k < K; ++k) {
          const double d = d_z[static_cast<size_t>(b * K + k)], v = w[static_cast<size_t>(k * H + h)];
          sum += d * v;
          magnitude += std::abs(d * v);
          w_sum += std::abs(v);
        }
        results.d_x.view().store(b * H + h, sum);
        // Each rank rounds its term of d_x when it stores it. The term is at most the sum of the magnitudes over the classes of the rank.
        const double stored_terms = ranks > 1 ? magnitude : std::abs(sum);
        const double store = narrow ? 0x1p-8 * (stored_terms + d_error * w_sum) : 0.0;
        x_limits.push_back(d_error * w_sum + (static_cast<double>(K) + 2.0) * u * magnitude + store);
      }
    }
  }
  Results results;
  double loss_limit = 0.0;
  std::vector<double> x_limits, w_limits, bias_limits;
};

void expect_near(const Case& c, const Results& got, const Exact& want) {
  const auto result = compare(got.loss, want.results.loss, {.absolute = want.loss_limit});
  EXPECT_TRUE(result.ok()) << result;
  const auto z_loss = compare(got.z_loss, want.results.z_loss,
                              {.absolute = want.loss_limit, .zeros = test::Zeros::kExpected});
  EXPECT_TRUE(z_loss.ok()) << z_loss;
  const LinearCrossEntropyProblem& p = c.problem;
  const auto d_x =
      compare(got.d_x, want.results.d_x, {.per_element = want.x_limits, .shape = {p.rows, p.hidden}});
  EXPECT_TRUE(d_x.ok()) << d_x;
  const auto d_w =
      compare(got.d_w, want.results.d_w, {.per_element = want.w_limits, .shape = {p.classes, p.hidden}});
  EXPECT_TRUE(d_w.ok()) << d_w;
  if (p.bias == MatmulBias::kNone) return;
  const auto d_bias = compare(got.d_bias, want.results.d_bias, {.per_element = want.bias_limits});
  EXPECT_TRUE(d_bias.ok()) << d_bias;
}

void check(LinearCrossEntropyProblem problem, const std::string& test) {
  for (const auto& [smoothing, z_coefficient] : {std::pair{0.0, 0.0}, {0.1, 0.0}, {0.0, 1e-3}, {0.1, 0.1}}) {
    problem.label_smoothing = smoothing;
    problem.z_coefficient = z_coefficient;
    for (const MatmulBias bias : {MatmulBias::kRow, MatmulBias::kNone}) {
      problem.bias = bias;
      Case c(problem, test);
      SCOPED_TRACE(c.name);
      const Exact exact(c, 1), divided(c, kRanks);
      for (const Way way : kWays) {
        Results results(c, is_reference(way) ? " ref" : " cpu", false);
        run(c, way, results, Accumulate::kOverwrite);
        expect_near(c, results, exact);
        SCOPED_TRACE("divided among ranks");
        Results of_ranks(c, is_reference(way) ? " ref of ranks" : " cpu of ranks", false);
        run_divided(c, way, of_ranks);
        expect_near(c, of_ranks, divided);
      }
    }
  }
}

TEST(LinearCrossEntropy, Fp32MatchesTheUnchunkedProductAndLoss) {
  for (const LinearCrossEntropyProblem& problem : problems()) check(problem, "linear_ce");
}

TEST(LinearCrossEntropy, Bf16MatchesTheUnchunkedProductAndLoss) {
  if (cpu_isa() < CpuIsa::kAvx512) GTEST_SKIP() << "oneDNN has no bf16 products below AVX-512";
  for (LinearCrossEntropyProblem problem : problems()) {
    problem.x = DType::kBF16;
    check(problem, "linear_ce_mixed");
    problem.w = problem.d_w = problem.bias_dtype = DType::kBF16;
    check(problem, "linear_ce_bf16");
  }
}

TEST(LinearCrossEntropy, CopiesTheWeightIfChunksAreTooSmallToPackIt) {
  LinearCrossEntropyProblem problem = problem_of(256, 32, 1000, 32);
  EXPECT_FALSE(linear_cross_entropy_copies_weight(problem));
  problem.x = DType::kBF16;
  EXPECT_TRUE(linear_cross_entropy_copies_weight(problem));
  problem.chunk_rows = 64;
  EXPECT_FALSE(linear_cross_entropy_copies_weight(problem));
}

// The gradients of a second micro-batch must be added to the gradients of the parameters, while the gradient of x must be overwritten.
TEST(LinearCrossEntropy, AddsToGradientsOfParameters) {
  for (const LinearCrossEntropyProblem& problem : problems()) {
    Case c(problem, "linear_ce_add");
    SCOPED_TRACE(c.name);
    Exact exact(c, 1);
    for (GuardedBuffer* sum : {&exact.results.d_w, &exact.results.d_bias}) {
      for (int64_t i = 0; i < sum->count(); ++i) sum->view().store(i, 2.0 * sum->load(i));
    }
    for (std::vector<double>* limits : {&exact.w_limits, &exact.bias_limits}) {
      for (double& limit : *limits) limit *= 3.0;
    }
    for (const Way way : kWays) {
      Results results(c, is_reference(way) ? " ref" : " cpu", false);
      run(c, way, results, Accumulate::kOverwrite);
      run(c, way, results, Accumulate::kAdd);
      expect_near(c, results, exact);
    }
  }
}

// The earlier contents of the scratch memory must not affect the results.
TEST(LinearCrossEntropy, SameBitsInEveryRun) {
  for (const LinearCrossEntropyProblem& problem : problems()) {
    Case c(problem, "linear_ce_bits");
    Results first(c, " first", false), second(c, " second", false);
    run(c, Way::kCpu, first, Accumulate::kOverwrite);
    run(c, Way::kCpu, second, Accumulate::kOverwrite);
    for (auto part : {&Results::loss, &Results::z_loss, &Results::d_x, &Results::d_w, &Results::d_bias}) {
      const auto result = test::compare_bits(first.*part, second.*part);
      EXPECT_TRUE(result.ok()) << c.name << " " << result;
    }
  }
}

TEST(LinearCrossEntropy, TheLossWithItsGradientsHasTheBitsOfTheParts) {
  std::vector<LinearCrossEntropyProblem> all = problems();
  for (LinearCrossEntropyProblem problem : problems()) {
    problem.z_coefficient = 1e-3;
    all.push_back(problem);
    problem.x = DType::kBF16;
    if (cpu_isa() >= CpuIsa::kAvx512) all.push_back(problem);
  }
  for (const LinearCrossEntropyProblem& problem : all) {
    for (const auto& [apart, together] :
         {std::pair{Way::kRef, Way::kRefTogether}, {Way::kCpu, Way::kCpuTogether}}) {
      Case c(problem, "linear_ce_together");
      Results first(c, " apart", false), second(c, " together", false);
      run(c, apart, first, Accumulate::kOverwrite);
      run(c, together, second, Accumulate::kOverwrite);
      for (auto part : {&Results::loss, &Results::z_loss, &Results::d_x, &Results::d_w, &Results::d_bias}) {
        const auto result = test::compare_bits(first.*part, second.*part);
        EXPECT_TRUE(result.ok()) << c.name << " " << result;
      }
    }
  }
}

TEST(LinearCrossEntropy, GradientsAreFiniteDifferences) {
  for (const auto& [smoothing, z_coefficient] : {std::pair{0.0, 0.0}, {0.2, 0.0}, {0.0, 0.05}, {0.2, 0.05}}) {
    LinearCrossEntropyProblem problem = problem_of(7, 6, 5, 3);
    problem.label_smoothing = smoothing;
    problem.z_coefficient = z_coefficient;
    problem.x = problem.w = problem.d_w = problem.bias_dtype = DType::kF64;
    Case c(problem, "linear_ce_difference");
    Results results(c, " gradient", true);
    run(c, Way::kRef, results, Accumulate::kOverwrite);
    GuardedBuffer scratch(c.name + "/scratch", DType::kU8, linear_cross_entropy_ref_scratch(problem).bytes);
    double loss = 0.0;
    auto args = c.operands<LinearCrossEntropyFwdArgs>(scratch);
    args.loss = {&loss, DType::kF64};
    const auto evaluate = [&] {
      linear_cross_entropy_fwd_ref(problem, args);
      return c.d_loss * loss;
    };
    int checked = 0;
    for (auto [operand, gradient] :
         {std::pair{&c.x, &results.d_x}, {&c.w, &results.d_w}, {&c.bias, &results.d_bias}}) {
      for (int64_t i = 0; i < operand->count(); ++i, ++checked) {
        EXPECT_NEAR(gradient->load(i), test::finite_difference(*operand, i, evaluate),
                    test::kFiniteDifferenceLimit)
            << gradient->name() << " " << i;
      }
    }
    EXPECT_EQ(checked, 7 * 6 + 5 * 6 + 5);
  }
}

// If the view of a result is null, the result must not be computed, and the other matrix products must not write outside their
// destinations.
TEST(LinearCrossEntropy, ComputesOnlyRequestedGradients) {
  for (const Way way : kWays) {
    Case c(problem_of(10, 16, 24, 4), "linear_ce_optional");
    Results all(c, " all", false);
    run(c, way, all, Accumulate::kOverwrite);
    for (const Wants wants : {Wants::kWeight, Wants::kBias}) {
      Results some(c, " some", false);
      run(c, way, some, Accumulate::kOverwrite, wants);
      const auto part = wants == Wants::kWeight ? &Results::d_w : &Results::d_bias;
      const auto result = test::compare_bits(some.*part, all.*part);
      EXPECT_TRUE(result.ok()) << result;
    }
  }
}

TEST(LinearCrossEntropy, ATooSmallScratchIsAnInternalError) {
  Case c(problem_of(5, 8, 3, 2), "linear_ce_scratch");
  GuardedBuffer scratch(c.name + "/scratch", DType::kU8, 64);
  float loss = 0.0f;
  auto args = c.operands<LinearCrossEntropyFwdArgs>(scratch);
  args.loss = {&loss, DType::kF32};
  EXPECT_THROW(linear_cross_entropy_fwd_ref(c.problem, args), Error);
  EXPECT_THROW(prepare_linear_cross_entropy_fwd_cpu(c.problem)->run(args), Error);
}

// On a GPU, every chunk must begin at an address with the alignment that cuBLASLt assumes for matrices.
TEST(LinearCrossEntropy, GpuChunksBeginAtMultiplesOf256Bytes) {
  for (const int64_t hidden : {16, 60, 768, 1001}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      LinearCrossEntropyProblem problem = problem_of(1000, hidden, 10, 3);
      problem.x = dtype;
      const int64_t rows = linear_cross_entropy_cuda_chunk_rows(problem);
      EXPECT_GE(rows, 3);
      EXPECT_LT(rows, 3 + 256);
      EXPECT_EQ(rows * hidden * dtype_bytes(dtype) % 256, 0) << hidden;
    }
  }
  EXPECT_EQ(linear_cross_entropy_cuda_chunk_rows(problem_of(1000, 768, 10, 32)), 32);
}

}  // namespace
}  // namespace plimsoll
