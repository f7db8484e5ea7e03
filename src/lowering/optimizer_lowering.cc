// Lowers optimizer updates and related ops, that is, describes them as problems for their kernels.
#include "graph/ops/ops.h"
#include "graph/ops/update.h"
#include "lowering/lowering.h"

namespace plimsoll {
namespace {

// Returns the type in which the update computes: the parameter's type, or fp32 if the parameter is stored in bf16, either alone or together
// with the remaining bits of its fp32 value.
DType update_dtype(const OpView& op) {
  const bool computes_in_f32 =
      op.attributes().integer_or("split", 0) != 0 || op.attributes().has("noise_site");
  return computes_in_f32 ? DType::kF32 : op.input(UpdateOp::kParameter).type.dtype;
}

LoweredOp describe_update(const OpView& op, const Bucket&, const KernelTarget&) {
  return {.dtype = update_dtype(op)};
}

LoweredOp describe_adafactor(const OpView& op, const Bucket&, const KernelTarget&) {
  const bool factored = op.attributes().integer("factored") != 0;
  const std::vector<std::vector<int64_t>> rows = part_rows_of(op.attributes());
  const int stride = schema_of(op.op).repeated_inputs(op);
  AdafactorProblem problem;
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t columns =
        elements_per_row(op.in_shape(UpdateOp::kParameter + static_cast<int>(i) * stride));
    for (const int64_t part : rows[i]) {
      problem.scratch_bytes +=
          adafactor_scratch(factored ? part : 1, factored ? columns : part, factored).bytes;
    }
  }
  return {.dtype = update_dtype(op), .family = problem};
}

}  // namespace

std::vector<Lowering> optimizer_lowerings() {
  std::vector<Lowering> lowerings{
      {&global_norm_op(), "global_norm", describe_type<GlobalNormOp::kGradient>},
      {&clip_coefficient_op(), "clip_coefficient", describe_type<ClipCoefficientOp::kNorm>},
      {&adjust_loss_scale_op(), "adjust_loss_scale", describe_type<AdjustLossScaleOp::kNorm>},
      {&fill_op(), "fill", describe_type<FillOp::kLike>}};
  for (const OptimizerRow& row : optimizer_rows()) {
    const bool is_factored = row.frame == UpdateFrame::kFactored;
    lowerings.push_back({&update_op(row.kind), row.name, is_factored ? describe_adafactor : describe_update});
  }
  return lowerings;
}

}  // namespace plimsoll
