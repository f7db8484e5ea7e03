// Element-wise functions f with f(0) = 0 and their gradients, as ops. The op gelu, which can compute any Activation, counts the same number
// of FLOPs per element for each of them. Stateless; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/activation_names.h"
#include "graph/ops/ops.h"

namespace plimsoll {

// The ops gelu, gelu_bwd, bias_gelu and bias_gelu_bwd compute any Activation: the attribute "activation" has its
// name, and is absent for GELU.
inline Activation activation_of(const Attributes& attributes) {
  if (!attributes.has("activation")) return Activation::kGelu;
  const std::optional<Activation> activation = find_activation(attributes.word("activation"));
  PLIMSOLL_CHECK(activation,
                 "the attribute 'activation' is '{}', which is not the name of an activation function",
                 attributes.word("activation"));
  return *activation;
}
inline Attributes activation_attributes(Activation activation) {
  if (activation == Activation::kGelu) return {};
  return {{"activation", std::string(activation_name(activation))}};
}

// States from which operand of the forward op the gradient is computed: from its input x, or from its output y.
enum class ActivationGradientReads : uint8_t { kInput, kOutput };

// The forward op of an activation function: y = f(x), of the type of x.
class ActivationOp final : public OpSchema, private PointwiseOp {
 public:
  ActivationOp(std::string_view name, double flops_per_element, ActivationGradientReads reads,
               const OpSchema& (*backward)())
      : name_(name), flops_per_element_(flops_per_element), reads_(reads), backward_(backward) {}

  std::string_view name() const override { return name_; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  bool works_row_by_row(const OpView&) const override { return true; }
  std::vector<ValueType> output_types(const OpView& op) const override { return {op.input(kX).type}; }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return flops_per_element_ * static_cast<double>(op.out_shape(kY).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    // Rows after the last token stay zero if they are zero, because f(0) = 0.
    return {op.out_shape(kY).has_token_rows() ? inputs[kX] : Tail::kNone};
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {kX}; }
  std::optional<Recipe> recipe(const OpView& op, int output) const override { return same_op(op, output); }
  void gradient(GradientContext& context) const override {
    const ValueId d_y = context.d_output(kY);
    if (d_y == kNoValue || !context.wants(kX)) return;
    const ValueId read =
        reads_ == ActivationGradientReads::kInput ? context.op().inputs[kX] : context.op().outputs[kY];
    context.set(kX, emit(context.graph(), backward_(), {read, d_y}, context.op().attributes));
  }

 private:
  std::string_view name_;
  double flops_per_element_;
  ActivationGradientReads reads_;
  const OpSchema& (*backward_)();
  static constexpr std::array kInputs{InputOperand::required(kX, "x")};
  static constexpr std::array kOutputs{OutputOperand::required(kY, "y")};
};

// The backward op of an activation function: computes d_x from d_y and from `saved`, which is x or y of the forward op. d_x has the type of
// d_y.
class ActivationBwdOp final : public OpSchema, private PointwiseBwdOp {
 public:
  ActivationBwdOp(std::string_view name, double flops_per_element)
      : name_(name), flops_per_element_(flops_per_element) {}

  std::string_view name() const override { return name_; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kSaved) == op.in_shape(kDY), op, "two operands of one shape");
    return {op.input(kDY).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return flops_per_element_ * static_cast<double>(op.out_shape(kDX).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    return {op.out_shape(kDX).has_token_rows() ? inputs[kDY] : Tail::kNone};
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {kSaved, kDY}; }

 private:
  std::string_view name_;
  double flops_per_element_;
  static constexpr std::array kInputs{InputOperand::required(kSaved, "saved"),
                                      InputOperand::required(kDY, "d_y")};
  static constexpr std::array kOutputs{OutputOperand::required(kDX, "d_x")};
};

}  // namespace plimsoll
