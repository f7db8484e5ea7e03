// Element-wise functions f with f(0) = 0 and their gradients, as ops. Their FLOPs are counted alike for all
// functions of one op. Stateless; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/activation.h"
#include "graph/ops/ops.h"

namespace plimsoll {

// The ops gelu, gelu_bwd, bias_gelu and bias_gelu_bwd compute any Activation: the attribute "activation" has its
// name, and is absent for GELU.
inline Activation activation_of(const Attributes& attributes) {
  if (!attributes.has("activation")) return Activation::kGelu;
  const std::optional<Activation> activation = find_activation(attributes.word("activation"));
  PLIMSOLL_CHECK(activation, "no activation has the name '{}'", attributes.word("activation"));
  return *activation;
}
inline Attributes activation_attributes(Activation activation) {
  if (activation == Activation::kGelu) return {};
  return {{"activation", std::string(activation_name(activation))}};
}

// The value of the forward op from which the gradient is computed.
enum class ActivationGradientReads : uint8_t { kInput, kOutput };

// y = f(x), of x's type.
class ActivationOp final : public OpSchema {
 public:
  ActivationOp(std::string_view name, double flops_per_element, ActivationGradientReads reads,
               const OpSchema& (*backward)())
      : name_(name), flops_per_element_(flops_per_element), reads_(reads), backward_(backward) {}

  std::string_view name() const override { return name_; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  bool works_row_by_row(const OpView&) const override { return true; }
  std::vector<ValueType> output_types(const OpView& op) const override { return {op.input(0).type}; }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return flops_per_element_ * static_cast<double>(op.out_shape(0).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    return {op.out_shape(0).has_token_rows() ? inputs[0] : Tail::kNone};  // f(0) = 0
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {0}; }
  std::optional<Recipe> recipe(const OpView& op, int output) const override { return same_op(op, output); }
  void gradient(GradientContext& context) const override {
    const ValueId d_y = context.d_output(0);
    if (d_y == kNoValue || !context.wants(0)) return;
    const ValueId read =
        reads_ == ActivationGradientReads::kInput ? context.op().inputs[0] : context.op().outputs[0];
    context.set(0, emit(context.graph(), backward_(), {read, d_y}, context.op().attributes));
  }

 private:
  std::string_view name_;
  double flops_per_element_;
  ActivationGradientReads reads_;
  const OpSchema& (*backward_)();
  static constexpr std::array kInputs{InputOperand::required(PointwiseOp::kX, "x")};
  static constexpr std::array kOutputs{OutputOperand::required(PointwiseOp::kY, "y")};
};

// d_x of the value that it reads, and of d_y, in d_y's type.
class ActivationBwdOp final : public OpSchema {
 public:
  ActivationBwdOp(std::string_view name, double flops_per_element)
      : name_(name), flops_per_element_(flops_per_element) {}

  std::string_view name() const override { return name_; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(0) == op.in_shape(1), op, "two operands of one shape");
    return {op.input(1).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return flops_per_element_ * static_cast<double>(op.out_shape(0).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    return {op.out_shape(0).has_token_rows() ? inputs[1] : Tail::kNone};
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {0, 1}; }

 private:
  std::string_view name_;
  double flops_per_element_;
  static constexpr std::array kInputs{InputOperand::required(PointwiseBwdOp::kSaved, "saved"),
                                      InputOperand::required(PointwiseBwdOp::kDY, "d_y")};
  static constexpr std::array kOutputs{OutputOperand::required(PointwiseBwdOp::kDX, "d_x")};
};

}  // namespace plimsoll
