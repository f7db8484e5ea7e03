// log_softmax(x): y_BK = x - max - log(sum exp(x - max)) over classes. log_softmax_bwd(y, d_y): d_x = d_y -
// exp(y) sum(d_y).
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class LogSoftmax final : public OpSchema {
 public:
  std::string_view name() const override { return "log_softmax"; }
  OpGroup group() const override { return OpGroup::kNormalization; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 1 && op.in_shape(0).rank() == 2, op, "x[B,K]");
    return {op.input(0).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 12.0 * static_cast<double>(op.out_shape(0).elements(bucket));
  }
  void gradient(GradientContext& context) const override {
    const ValueId d_y = context.d_output(0);
    if (d_y == kNoValue || !context.wants(0)) return;
    context.set(0,
                emit(context.graph(), log_softmax_bwd_op(), {context.op().outputs[0], d_y}, {}, "d_logits"));
  }
};

class LogSoftmaxBwd final : public OpSchema {
 public:
  std::string_view name() const override { return "log_softmax_bwd"; }
  OpGroup group() const override { return OpGroup::kNormalization; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 2 && op.in_shape(0) == op.in_shape(1), op, "y[B,K], d_y[B,K]");
    return {op.input(1).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 12.0 * static_cast<double>(op.out_shape(0).elements(bucket));
  }
};

}  // namespace

const OpSchema& log_softmax_op() {
  static const LogSoftmax op;
  return op;
}
const OpSchema& log_softmax_bwd_op() {
  static const LogSoftmaxBwd op;
  return op;
}

}  // namespace plimsoll
