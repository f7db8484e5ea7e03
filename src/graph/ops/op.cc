#include "graph/ops/op.h"

namespace plimsoll {

std::string_view op_group_name(OpGroup group) {
  switch (group) {
    case OpGroup::kContraction:
      return "tensor contractions";
    case OpGroup::kNormalization:
      return "statistical normalizations";
    case OpGroup::kElementWise:
      return "element-wise operators";
    case OpGroup::kDataMovement:
      return "data movement";
    case OpGroup::kCommunication:
      return "communication";
  }
  return "?";
}

double OpSchema::bytes(const OpView& op, const Bucket& bucket) const {
  double sum = 0;
  for (ValueId id : op.op.inputs) {
    if (id != kNoValue) sum += static_cast<double>(op.graph.value(id).bytes(bucket));
  }
  for (ValueId id : op.op.outputs) sum += static_cast<double>(op.graph.value(id).bytes(bucket));
  return sum;
}

void OpSchema::gradient(GradientContext& context) const {
  PLIMSOLL_CHECK(false, "op '{}' in graph '{}' has no gradient", name(), context.graph().name());
}

std::vector<Tail> OpSchema::tail(const OpView& op, std::span<const Tail> inputs) const {
  static_cast<void>(inputs);
  std::vector<Tail> states;
  states.reserve(static_cast<size_t>(op.num_outputs()));
  for (int i = 0; i < op.num_outputs(); ++i) {
    states.push_back(op.out_shape(i).has_token_rows() ? Tail::kFinite : Tail::kNone);
  }
  return states;
}

int OpSchema::writes_into(const OpView& op, int output) const {
  const int input = into_input(op, output);
  return input >= 0 && op.has_input(input) ? input : -1;
}

void expect_operands(bool condition, const OpView& op, std::string_view rule) {
  if (condition) [[likely]]
    return;
  std::string operands;
  for (ValueId id : op.op.inputs) {
    operands += operands.empty() ? "" : ", ";
    operands += id == kNoValue ? "_" : op.graph.value(id).name + " " + type_text(op.graph.value(id).type);
  }
  PLIMSOLL_CHECK(condition, "{}({}) needs: {}", op.op.def->name(), operands, rule);
}

DType stated_dtype(const OpView& op, DType fallback) {
  if (!op.attributes().has("dtype")) return fallback;
  const auto dtype = parse_dtype(op.attributes().word("dtype"));
  PLIMSOLL_CHECK(dtype.has_value(), "{} states the type '{}'", op.op.def->name(),
                 op.attributes().word("dtype"));
  return *dtype;
}

Recipe same_op(const OpView& op, int output) {
  return {op.op.def, op.op.inputs, op.op.attributes, output};
}

void expect_zero_tail(Tail state, const OpView& op, std::string_view operand) {
  PLIMSOLL_CHECK(state == Tail::kZero, "{} sums over rows, but the tail rows of its {} are not zero",
                 op.op.def->name(), operand);
}

}  // namespace plimsoll
