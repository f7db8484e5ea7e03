// log_softmax(x): y_BK = x - max - log(sum exp(x - max)) over classes.
//
// log_softmax_bwd(y, d_y): d_x = d_y - exp(y) sum(d_y).
#include <array>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class LogSoftmax final : public OpSchema, private LogSoftmaxOp {
 public:
  std::string_view name() const override { return "log_softmax"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kNormalization; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kX).rank() == 2, op, "x[B,K]");
    return {op.input(kX).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 12.0 * static_cast<double>(op.out_shape(kY).elements(bucket));
  }
  void gradient(GradientContext& context) const override {
    const ValueId d_y = context.d_output(kY);
    if (d_y == kNoValue || !context.wants(kX)) return;
    context.set(kX,
                emit(context.graph(), log_softmax_bwd_op(), {context.op().outputs[kY], d_y}, {}, "d_logits"));
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kX, "x")};
  static constexpr std::array kOutputs{OutputOperand::required(kY, "y")};
};

class LogSoftmaxBwd final : public OpSchema, private LogSoftmaxBwdOp {
 public:
  std::string_view name() const override { return "log_softmax_bwd"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kNormalization; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kY) == op.in_shape(kDY), op, "y[B,K], d_y[B,K]");
    return {op.input(kDY).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 12.0 * static_cast<double>(op.out_shape(kDX).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    return {op.out_shape(kDX).has_token_rows() ? inputs[kDY] : Tail::kNone};
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kY, "y"), InputOperand::required(kDY, "d_y")};
  static constexpr std::array kOutputs{OutputOperand::required(kDX, "d_x")};
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
