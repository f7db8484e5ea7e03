#include "kernels/matmul/norm_linear.h"

#include <cuda_runtime_api.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/matmul/testing/compute_capability.h"
#include "kernels/matmul/testing/norm_linear_case.h"
#include "tests/support/device_buffer.h"

namespace plimsoll {
namespace {

using test::compute_capability;
using test::DeviceBuffer;
using test::GuardedBuffer;
using test::NormLinearCase;

struct Results {
  GuardedBuffer y, sum;
};
Results run(const NormLinearCase& layer, SecondOperand w, NormLinearWay way) {
  const NormLinearProblem& p = layer.problem;
  Results results{{"norm_linear/y", p.product.a, p.product.m * p.outputs()},
                  {"norm_linear/sum", p.product.a, p.product.m * p.product.k}};
  const int64_t scratch_bytes = norm_linear_values_bytes(p) + p.product.workspace_bytes;
  GuardedBuffer scratch("norm_linear/scratch", DType::kU8, scratch_bytes);
  DeviceBuffer y(results.y), sum(results.sum), device_scratch(scratch);
  std::map<const GuardedBuffer*, std::unique_ptr<DeviceBuffer>> on_device;
  for (const GuardedBuffer* operand :
       {&layer.x, &layer.residual, &layer.w, &layer.norm_bias, &layer.gain, &layer.beta, &layer.bias}) {
    on_device[operand] = std::make_unique<DeviceBuffer>(const_cast<GuardedBuffer&>(*operand));
  }
  NormLinearArgs args =
      layer.args([&](const GuardedBuffer& buffer) -> ConstView { return on_device.at(&buffer)->view(); },
                 y.view(), sum.view());
  args.scratch = {static_cast<std::byte*>(device_scratch.view().data), static_cast<size_t>(scratch_bytes)};
  prepare_norm_linear_cuda(p, compute_capability(), w, nullptr, way)->run(args, nullptr);
  y.download();
  sum.download();
  return results;
}

void check(const NormLinearProblem& problem, DType parameters, const NormLinearCase::Operands& operands) {
  const MatmulProblem& product = problem.product;
  const std::string name = fmt::format(
      "{} {} {}x{}x{} {} {} {}{}{}{}", norm_kind_name(problem.norm), layer_end_name(problem.end), product.m,
      product.n, product.k, dtype_name(product.a), dtype_name(parameters), operands.residual ? "r" : "",
      operands.norm_bias ? "n" : "", operands.beta ? "b" : "", operands.bias ? "c" : "");
  SCOPED_TRACE(name);
  const NormLinearCase layer(problem, parameters, operands, name);
  GuardedBuffer want("want", DType::kF64, product.m * problem.outputs()),
      sum("sum", product.a, product.m * product.k);
  norm_linear_ref(problem, layer.host_args(want.view(), sum.view()));
  const std::vector<double> bounds = layer.bounds(), sum_bounds = layer.sum_bounds(sum);
  for (const NormLinearWay way : {NormLinearWay::kAsPrepared, NormLinearWay::kApart}) {
    for (const SecondOperand w : {SecondOperand::kVariable, SecondOperand::kConstant}) {
      const Results got = run(layer, w, way);
      const auto result =
          test::compare(got.y, want, {.per_element = bounds, .shape = {product.m, problem.outputs()}});
      EXPECT_TRUE(result.ok()) << result;
      if (!operands.residual) continue;
      const auto of_sum =
          test::compare(got.sum, sum, {.per_element = sum_bounds, .shape = {product.m, product.k}});
      EXPECT_TRUE(of_sum.ok()) << of_sum;
    }
  }
}

NormLinearProblem problem_of(NormKind norm, LayerEnd end, int64_t rows, int64_t columns, int64_t terms,
                             DType dtype, bool has_bias) {
  return {.product = {.m = rows,
                      .n = columns,
                      .k = terms,
                      .trans_b = Transpose::kYes,
                      .a = dtype,
                      .b = dtype,
                      .c = dtype,
                      .bias_dtype = DType::kF32,
                      .bias = has_bias ? MatmulBias::kRow : MatmulBias::kNone,
                      .workspace_bytes = kCublasLtWorkspaceBytes},
          .norm = norm,
          .end = end,
          .activation = end == LayerEnd::kGlu ? Activation::kSilu : Activation::kGeluTanh};
}

// The cases include one to eight warps per row, numbers of rows and columns that do not fill a tile, several tiles per thread block, and so
// many rows that the separate kernels run.
TEST(NormLinearCuda, AgreesWithTheReference) {
  if (compute_capability() != 90) GTEST_SKIP() << "needs compute capability 9.0";
  for (const NormKind norm : {NormKind::kLayer, NormKind::kRms}) {
    const bool is_layer = norm == NormKind::kLayer;
    for (const LayerEnd end : {LayerEnd::kProduct, LayerEnd::kActivation, LayerEnd::kGlu}) {
      for (const int64_t rows : {1, 2, 3, 5, 8, 13, 32, 40}) {
        for (const auto& [columns, terms] : {std::pair<int64_t, int64_t>{48, 64}, {80, 768}, {4800, 288}}) {
          if (rows > 8 && columns > 1000) continue;
          for (const bool full : {false, true}) {
            check(problem_of(norm, end, rows, columns, terms, full ? DType::kBF16 : DType::kF16, full),
                  DType::kF32,
                  {.residual = full, .norm_bias = full && is_layer, .beta = is_layer, .bias = full});
          }
        }
      }
    }
  }
}

// Tests layers with so many columns that each warp computes whole tiles.
TEST(NormLinearCuda, WarpsComputeWholeTiles) {
  if (compute_capability() != 90) GTEST_SKIP() << "needs compute capability 9.0";
  for (const LayerEnd end : {LayerEnd::kActivation, LayerEnd::kGlu}) {
    for (const int64_t rows : {2, 13})
      check(problem_of(NormKind::kRms, end, rows, 33024, 96, DType::kBF16, true), DType::kF32,
            {.residual = true, .bias = true});
  }
}

// Tests columns that do not fill a tile, norm and bias parameters in 16 bits, and numbers of terms for which a thread processes several
// vectors of a row.
TEST(NormLinearCuda, OtherSizesAndTypes) {
  if (compute_capability() != 90) GTEST_SKIP() << "needs compute capability 9.0";
  check(problem_of(NormKind::kLayer, LayerEnd::kProduct, 7, 33, 96, DType::kBF16, true), DType::kBF16,
        {.residual = true, .norm_bias = true, .beta = true, .bias = true});
  check(problem_of(NormKind::kRms, LayerEnd::kGlu, 2, 64, 8192, DType::kBF16, false), DType::kBF16,
        {.residual = true});
  check(problem_of(NormKind::kRms, LayerEnd::kGlu, 8, 64, 4096, DType::kBF16, false), DType::kBF16,
        {.residual = true});
  check(problem_of(NormKind::kRms, LayerEnd::kGlu, 13, 64, 2080, DType::kBF16, true), DType::kF32,
        {.residual = true, .bias = true});
  check(problem_of(NormKind::kLayer, LayerEnd::kActivation, 32, 40, 4096, DType::kF16, false), DType::kF16,
        {.residual = true, .beta = true});
}

}  // namespace
}  // namespace plimsoll
