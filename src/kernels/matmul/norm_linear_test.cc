#include "kernels/matmul/norm_linear.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/catalog/catalog.h"
#include "kernels/element_wise/glu.h"
#include "kernels/layer_norm/bias_dropout_residual_norm.h"
#include "kernels/layer_norm/rms_norm.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/testing/norm_linear_case.h"

namespace plimsoll {
namespace {

using test::GuardedBuffer;
using test::NormLinearCase;

NormLinearProblem problem_of(NormKind norm, LayerEnd end, DType dtype = DType::kF64) {
  return {
      .product = {.m = 5, .n = 14, .k = 33, .trans_b = Transpose::kYes, .a = dtype, .b = dtype, .c = dtype},
      .norm = norm,
      .end = end,
      .activation = end == LayerEnd::kGlu ? Activation::kSilu : Activation::kGeluTanh};
}

// In fp64 nothing is rounded to fewer bits. The reference must therefore equal the references of the norm, the product and the activation,
// run one after the other, except for the order of sums.
TEST(NormLinear, EqualsItsPartsInFp64) {
  for (const NormKind norm : {NormKind::kLayer, NormKind::kRms}) {
    for (const LayerEnd end : {LayerEnd::kProduct, LayerEnd::kActivation, LayerEnd::kGlu}) {
      for (const bool full : {false, true}) {
        const NormLinearProblem problem = problem_of(norm, end);
        const bool is_layer = norm == NormKind::kLayer;
        SCOPED_TRACE(std::string(norm_kind_name(norm)) + " " + std::string(layer_end_name(end)));
        const NormLinearCase layer(
            problem, DType::kF64,
            {.residual = full, .norm_bias = full && is_layer, .beta = full && is_layer, .bias = full},
            "norm_linear");
        const int64_t rows = problem.product.m, terms = problem.product.k, columns = problem.product.n;
        GuardedBuffer y("y", DType::kF64, rows * problem.outputs()), sum("sum", DType::kF64, rows * terms);
        const NormLinearArgs args = layer.host_args(y.view(), sum.view());
        norm_linear_ref(problem, args);

        GuardedBuffer h("h", DType::kF64, rows * terms), s("s", DType::kF64, rows * terms);
        const View s_view = full ? s.view() : View{};
        if (is_layer) {
          bias_dropout_residual_norm_fwd_ref({.x = args.x,
                                              .bias = args.norm_bias,
                                              .residual = args.residual,
                                              .gain = args.gain,
                                              .beta = args.beta,
                                              .y = h.view(),
                                              .x_hat = {},
                                              .rstd = {},
                                              .sum = s_view,
                                              .T = rows,
                                              .C = terms,
                                              .eps = args.eps,
                                              .p = 0.0,
                                              .where = {}});
        } else {
          rms_norm_fwd_ref({.dims = {.T = rows, .N = terms, .C = terms},
                            .x = args.x,
                            .gain = args.gain,
                            .second_gain = {},
                            .y = h.view(),
                            .rstd = {},
                            .eps = args.eps,
                            .residual = args.residual,
                            .sum = s_view});
        }
        GuardedBuffer z("z", DType::kF64, rows * columns), want("want", DType::kF64, y.count());
        MatmulProblem product = problem.product;
        if (full) product.bias = MatmulBias::kRow;
        product.bias_dtype = DType::kF64;
        matmul_ref(product, {.a = h.view(), .b = args.w, .bias = args.bias, .c = z.view()});
        if (end == LayerEnd::kGlu) {
          glu_fwd_ref({.x = z.view(),
                       .y = want.view(),
                       .T = rows,
                       .F = problem.outputs(),
                       .activation = problem.activation});
        } else if (end == LayerEnd::kActivation) {
          gelu_fwd_ref({.x = z.view(), .y = want.view(), .n = z.count(), .activation = problem.activation});
        }
        const GuardedBuffer& expected = end == LayerEnd::kProduct ? z : want;
        for (int64_t i = 0; i < y.count(); ++i)
          ASSERT_NEAR(y.load(i), expected.load(i), 1e-12 * (1.0 + std::abs(expected.load(i)))) << i;
        for (int64_t i = 0; full && i < sum.count(); ++i) ASSERT_EQ(sum.load(i), s.load(i)) << i;
      }
    }
  }
}

// With 16-bit operands, the reference must round s and h to the type of x.
TEST(NormLinear, RoundsTheNormalizedRows) {
  NormLinearProblem problem = problem_of(NormKind::kRms, LayerEnd::kProduct, DType::kBF16);
  problem.product.n = problem.product.k;
  NormLinearCase layer(problem, DType::kF32, {}, "norm_linear/rounds");
  for (int64_t n = 0; n < problem.product.n; ++n) {
    for (int64_t k = 0; k < problem.product.k; ++k)
      layer.w.view().store(n * problem.product.k + k, n == k ? 1.0 : 0.0);
  }
  GuardedBuffer y("y", DType::kBF16, problem.product.m * problem.product.n),
      exact("exact", DType::kF64, y.count());
  norm_linear_ref(problem, layer.host_args(y.view(), {}));
  norm_linear_ref(problem, layer.host_args(exact.view(), {}));
  for (int64_t i = 0; i < y.count(); ++i) ASSERT_EQ(y.load(i), exact.load(i)) << i;
}

TEST(NormLinear, CatalogAcceptsSizesOfHopper) {
  KernelTarget target{.device = KernelDevice::kCuda, .sm = 90};
  const auto choose = [&](int64_t k, LayerEnd end, int64_t n, int sm) {
    NormLinearProblem problem = problem_of(NormKind::kRms, end, DType::kBF16);
    problem.product.k = k;
    problem.product.n = n;
    target.sm = sm;
    for (const KernelRow* row : kernel_rows_of("norm_linear")) {
      if (row->backend == Backend::kCuda)
        return row
            ->support({.kernel = "norm_linear", .dtype = DType::kBF16, .target = target, .family = problem})
            .ok;
    }
    return false;
  };
  EXPECT_TRUE(choose(2048, LayerEnd::kGlu, 16384, 90));
  EXPECT_FALSE(choose(2048, LayerEnd::kGlu, 16384, 80));
  EXPECT_FALSE(choose(2040, LayerEnd::kProduct, 64, 90));
  EXPECT_FALSE(choose(2048, LayerEnd::kGlu, 28, 90));
  EXPECT_TRUE(choose(2048, LayerEnd::kProduct, 28, 90));
}

}  // namespace
}  // namespace plimsoll
