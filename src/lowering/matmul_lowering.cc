#include "lowering/lowering.h"

#include "graph/ops/activation_op.h"
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

// matmul_problem() reads the two factors of every op with a matrix product at the positions that MatmulOp defines. The factors of the
// following ops must therefore have the same positions.
static_assert(int{NormLinearOp::kX} == MatmulOp::kA && int{NormLinearOp::kW} == MatmulOp::kB);
static_assert(int{LinearAddOp::kX} == MatmulOp::kA && int{LinearAddOp::kW} == MatmulOp::kB &&
              int{LinearGeluOp::kX} == MatmulOp::kA && int{LinearGeluOp::kW} == MatmulOp::kB &&
              int{LinearNormOp::kX} == MatmulOp::kA && int{LinearNormOp::kW} == MatmulOp::kB);
// matmul_problem() also reads all operands of scaled_matmul at the positions that MatmulOp defines.
static_assert(int{ScaledMatmulOp::kA} == MatmulOp::kA && int{ScaledMatmulOp::kB} == MatmulOp::kB &&
              int{ScaledMatmulOp::kBias} == MatmulOp::kBias &&
              int{ScaledMatmulOp::kInto} == MatmulOp::kInto &&
              int{ScaledMatmulOp::kFlag} == MatmulOp::kFlag && int{ScaledMatmulOp::kC} == MatmulOp::kC);

// Returns the fields of a matrix product that are determined in the same way for all ops: everything except the depth k and the
// transposes.
MatmulProblem product_of(const OpView& op, const Bucket& bucket, const KernelTarget& target) {
  return {.m = op.out_shape(MatmulOp::kC)[0].at(bucket),
          .n = op.out_shape(MatmulOp::kC)[1].at(bucket),
          .a = op.input(MatmulOp::kA).type.dtype,
          .b = op.input(MatmulOp::kB).type.dtype,
          .c = op.output(MatmulOp::kC).type.dtype,
          .num_threads = target.num_threads,
          .isa = target.isa,
          .workspace_bytes = target.matmul_workspace_bytes};
}

// Returns the matrix product of an op that begins with a linear layer, x[T, K] w[N, K]^T, for T tokens, K inputs and N outputs.
MatmulProblem layer_of(const OpView& op, const Bucket& bucket, const KernelTarget& target) {
  MatmulProblem product = product_of(op, bucket, target);
  product.k = op.in_shape(MatmulOp::kA)[1].at(bucket);
  product.trans_b = Transpose::kYes;
  if (op.op.def == &linear_add_op()) product.writes = MatmulWrites::kAddend;
  return product;
}

// Adds the operands that both matmul and scaled_matmul have.
void add_bias_and_into(const OpView& op, MatmulProblem& product) {
  if (op.has_input(MatmulOp::kBias)) {
    product.bias = MatmulBias::kRow;
    product.bias_dtype = op.input(MatmulOp::kBias).type.dtype;
  }
  if (op.has_input(MatmulOp::kInto)) product.writes = MatmulWrites::kOverwriteOrAdd;
}

LoweredOp describe_norm_linear(const OpView& op, const Bucket& bucket, const KernelTarget& target) {
  return {.dtype = op.input(NormLinearOp::kX).type.dtype, .family = norm_linear_problem(op, bucket, target)};
}

// Describes a matrix product of fp8 operands. The kernel is chosen by the element type of the result, because the operands are
// 8-bit codes.
LoweredOp describe_scaled_matmul(const OpView& op, const Bucket& bucket, const KernelTarget& target) {
  return {.dtype = op.output(ScaledMatmulOp::kC).type.dtype, .family = matmul_problem(op, bucket, target)};
}

LoweredOp describe_matmul(const OpView& op, const Bucket& bucket, const KernelTarget& target) {
  return {.dtype = op.input(MatmulOp::kA).type.dtype, .family = matmul_problem(op, bucket, target)};
}

}  // namespace

MatmulProblem matmul_problem(const OpView& op, const Bucket& bucket, const KernelTarget& target) {
  if (op.op.def == &scaled_matmul_op()) {
    MatmulProblem product = layer_of(op, bucket, target);
    add_bias_and_into(op, product);
    return product;
  }
  if (op.op.def == &norm_linear_op()) return norm_linear_problem(op, bucket, target).product;
  if (op.op.def != &matmul_op()) return layer_of(op, bucket, target);
  const bool trans_a = op.attributes().integer("ta") != 0;
  const bool trans_b = op.attributes().integer("tb") != 0;
  MatmulProblem product = product_of(op, bucket, target);
  product.k = op.in_shape(MatmulOp::kA)[trans_a ? 0 : 1].at(bucket);
  product.trans_a = trans_a ? Transpose::kYes : Transpose::kNo;
  product.trans_b = trans_b ? Transpose::kYes : Transpose::kNo;
  add_bias_and_into(op, product);
  return product;
}

NormLinearProblem norm_linear_problem(const OpView& op, const Bucket& bucket, const KernelTarget& target) {
  MatmulProblem product = layer_of(op, bucket, target);
  product.n = op.in_shape(NormLinearOp::kW)[0].at(bucket);
  if (op.has_input(NormLinearOp::kBias)) {
    product.bias = MatmulBias::kRow;
    product.bias_dtype = op.input(NormLinearOp::kBias).type.dtype;
  }
  return {.product = product,
          .norm = NormLinearOp::norm(op.attributes()),
          .end = NormLinearOp::end(op.attributes()),
          .activation = activation_of(op.attributes())};
}

PlannedMatmul planned_matmul(const OpView& op, const Bucket& bucket, const KernelTarget& target,
                             std::string_view implementation) {
  PlannedMatmul planned{.problem = matmul_problem(op, bucket, target)};
  if (op.op.def == &matmul_op()) planned.fp32 = target.fp32_products;
  if (planned.fp32 == Fp32Products::kTf32x3 && implementation != "matmul_cuda_tf32x3")
    planned.fp32 = Fp32Products::kF32;
  if (implementation == "matmul_cpu_amx") planned.problem.cpu_products = CpuProducts::kAmxParts;
  return planned;
}

bool is_single_matmul(const Op& op) {
  return op.def == &matmul_op() || op.def == &linear_add_op() || op.def == &scaled_matmul_op();
}

bool is_custom_matmul(std::string_view implementation) {
  return implementation == "matmul_cuda_wgmma" || implementation == "linear_add_cuda_wgmma";
}

std::vector<Lowering> matmul_lowerings() {
  return {{&matmul_op(), "matmul", describe_matmul},
          {&scaled_matmul_op(), "scaled_matmul", describe_scaled_matmul},
          {&linear_gelu_op(), "linear_gelu", describe_matmul},
          {&linear_norm_op(), "linear_norm", describe_matmul},
          {&linear_add_op(), "linear_add", describe_matmul},
          {&norm_linear_op(), "norm_linear", describe_norm_linear}};
}

}  // namespace plimsoll
