#include "exec/ops/family_ops.h"

#include "exec/ops/call.h"
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

std::span<std::byte> scratch_of(const BindContext& context) {
  return {static_cast<std::byte*>(context.scratch().data), static_cast<size_t>(context.scratch_bytes())};
}

// linear_gelu uses matmul_args() too, because its operands have the same positions as those of a matmul with a bias.
static_assert(int{LinearGeluOp::kX} == MatmulOp::kA && int{LinearGeluOp::kW} == MatmulOp::kB &&
              int{LinearGeluOp::kBias} == MatmulOp::kBias && int{LinearGeluOp::kY} == MatmulOp::kC);

}  // namespace

PlannedMatmul planned_matmul(const BindContext& context) {
  return planned_matmul(context.view(), context.bucket(), context.target(), context.kernel());
}

LinearProblem linear_problem(const BindContext& context) {
  return linear_layer(planned_matmul(context).problem, context.target().sm);
}

MatmulArgs matmul_args(const BindContext& context) {
  return {.a = context.input(MatmulOp::kA),
          .b = context.input(MatmulOp::kB),
          .bias = context.input(MatmulOp::kBias),
          .c = context.output(MatmulOp::kC),
          .scratch = scratch_of(context)};
}
MatmulArgs linear_add_args(const BindContext& context) {
  return {.a = context.input(LinearAddOp::kX),
          .b = context.input(LinearAddOp::kW),
          .bias = {},
          .c = context.output(LinearAddOp::kY),
          .addend = context.input(LinearAddOp::kResidual),
          .scratch = scratch_of(context)};
}
MatmulArgs scaled_matmul_args(const BindContext& context) {
  MatmulArgs args = matmul_args(context);
  args.a_scale = context.input(ScaledMatmulOp::kAScale);
  args.b_scale = context.input(ScaledMatmulOp::kBScale);
  return args;
}
LinearNormArgs linear_norm_args(const BindContext& context) {
  return {.x = context.input(LinearNormOp::kX),
          .w = context.input(LinearNormOp::kW),
          .bias = context.input(LinearNormOp::kBias),
          .residual = context.input(LinearNormOp::kResidual),
          .gain = context.input(LinearNormOp::kGain),
          .beta = context.input(LinearNormOp::kBeta),
          .y = context.output(LinearNormOp::kY),
          .eps = context.attributes().number("eps"),
          .scratch = scratch_of(context)};
}

NormLinearProblem norm_linear_problem(const BindContext& context) {
  return norm_linear_problem(context.view(), context.bucket(), context.target());
}
NormLinearArgs norm_linear_args(const BindContext& context) {
  const bool has_sum = context.has_input(NormLinearOp::kResidual);
  return {.x = context.input(NormLinearOp::kX),
          .residual = context.input(NormLinearOp::kResidual),
          .norm_bias = context.input(NormLinearOp::kNormBias),
          .gain = context.input(NormLinearOp::kGain),
          .beta = context.input(NormLinearOp::kBeta),
          .w = context.input(NormLinearOp::kW),
          .bias = context.input(NormLinearOp::kBias),
          .y = context.output(NormLinearOp::kY),
          .sum = has_sum ? context.output(NormLinearOp::kSum) : View{},
          .eps = context.attributes().number("eps"),
          .scratch = scratch_of(context)};
}

std::function<void()> bind_matmul_cpu(const BindContext& context) {
  const MatmulProblem problem = planned_matmul(context).problem;
  MatmulArgs args = matmul_args(context);
  const AccumulateFlag flag(context);
  if (context.is_reference()) {
    return [problem, args, flag]() mutable {
      flag.read(args);
      matmul_ref(problem, args);
    };
  }
  PLIMSOLL_CHECK(matmul_scratch_bytes(problem) <= context.scratch_bytes(),
                 "matmul needs {} bytes of scratch memory for a batch of {} tokens, but the plan reserves {}",
                 matmul_scratch_bytes(problem), context.bucket().tokens, context.scratch_bytes());
  std::shared_ptr<PreparedMatmul> prepared = prepare_matmul_cpu(problem);
  return [prepared, args, flag]() mutable {
    flag.read(args);
    prepared->run(args);
  };
}

// Returns a function that computes a product of fp8 codes, for which a CPU has only the reference implementation.
std::function<void()> bind_scaled_matmul_cpu(const BindContext& context) {
  return [problem = planned_matmul(context).problem, args = scaled_matmul_args(context),
          flag = AccumulateFlag(context)]() mutable {
    flag.read(args);
    matmul_ref(problem, args);
  };
}
// The functions below return a function that runs a fused op of a whole layer (matrix product, bias and GELU or norm), for which a CPU has
// only reference implementations.
std::function<void()> bind_linear_gelu_cpu(const BindContext& context) {
  return [problem = linear_problem(context), args = matmul_args(context)] { linear_gelu_ref(problem, args); };
}
std::function<void()> bind_linear_norm_cpu(const BindContext& context) {
  return [problem = linear_problem(context), args = linear_norm_args(context)] {
    linear_norm_ref(problem, args);
  };
}
std::function<void()> bind_norm_linear_cpu(const BindContext& context) {
  return [problem = norm_linear_problem(context), args = norm_linear_args(context)] {
    norm_linear_ref(problem, args);
  };
}
std::function<void()> bind_linear_add_cpu(const BindContext& context) {
  return [problem = planned_matmul(context).problem, args = linear_add_args(context)] {
    matmul_ref(problem, args);
  };
}

}  // namespace plimsoll
