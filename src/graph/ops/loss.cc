#include "graph/ops/loss.h"

#include <utility>

#include "graph/ops/ops.h"
#include "graph/ops/sum_type.h"

namespace plimsoll {

ValueType loss_type(const OpView& op) {
  return {sum_dtype(op.input(ClassLossOp::kLogits).type.dtype), Shape{1}};
}

void set_loss_gradient(GradientContext& context, const OpSchema& backward) {
  const Op op = context.op();
  const ValueId d_loss = context.d_output(ClassLossOp::kLoss);
  if (d_loss == kNoValue || !context.wants(ClassLossOp::kLogits)) return;
  ValueIds inputs = op.inputs;
  inputs.push_back(d_loss);
  context.set(ClassLossOp::kLogits,
              emit(context.graph(), backward, std::move(inputs), op.attributes, "d_logits"));
}

std::vector<ValueType> LossBwd::output_types(const OpView& op) const {
  return {op.input(ClassLossBwdOp::kLogits).type};
}

double LossBwd::flops(const OpView& op, const Bucket& bucket) const {
  return figures_.flops * static_cast<double>(op.in_shape(ClassLossBwdOp::kLogits).elements(bucket));
}

}  // namespace plimsoll
