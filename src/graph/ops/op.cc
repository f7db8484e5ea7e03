#include "graph/ops/op.h"

#include <algorithm>

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

OpWork OpSchema::work() const {
  return group() == OpGroup::kContraction ? OpWork::kProduct : OpWork::kElements;
}

bool OpSchema::is_update() const {
  return work() == OpWork::kUpdate || work() == OpWork::kUpdateOfCodes || work() == OpWork::kFactoredUpdate;
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
  PLIMSOLL_CHECK(false, "cannot differentiate the op '{}' of graph '{}': it defines no gradient", name(),
                 context.graph().name());
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

namespace {

// A group of operands that an op may have several times, such as the pair `ids` and `table` of embedding_sum. The rows of the op's operand
// table that describe the group are adjacent: `first` is the index of the first of them, and `rows` is their number (two for this pair).
struct Repeated {
  int first = 0;
  int rows = 0;
};
template <typename Operand>
Repeated repeated_rows(std::span<const Operand> table) {
  Repeated found;
  for (const Operand& row : table) {
    if (row.presence != Presence::kRepeated) continue;
    if (found.rows == 0) found.first = row.index;
    ++found.rows;
  }
  return found;
}

template <typename Operand>
int row_of(std::span<const Operand> table, int operand) {
  const Repeated repeated = repeated_rows(table);
  if (repeated.rows == 0 || operand < repeated.first) return operand;
  return repeated.first + (operand - repeated.first) % repeated.rows;
}

template <typename Operand>
std::string operand_name(std::span<const Operand> table, int row, int operand) {
  if (row < 0 || row >= static_cast<int>(table.size())) return std::to_string(operand);
  const Operand& found = table[static_cast<size_t>(row)];
  if (found.presence != Presence::kRepeated) return std::string(found.name);
  return std::string(found.name) + "[" + std::to_string(operand) + "]";
}

// Checks that the number of inputs agrees with the operand table and that only optional inputs are absent. Error messages are built only
// after a failure, because this check runs whenever an op is built or verified.
void check_presence(const OpSchema& schema, const OpView& op) {
  const std::span<const InputOperand> table = schema.inputs();
  const bool repeats = repeated_rows(table).rows > 0;
  int least = repeats ? schema.repeated_inputs(op) : 0;
  for (const InputOperand& row : table)
    least += row.presence == Presence::kRequired || row.presence == Presence::kOptional ? 1 : 0;
  const bool is_divisible = !repeats || table.back().presence != Presence::kRepeated ||
                            (op.num_inputs() - least) % schema.repeated_inputs(op) == 0;
  const bool is_too_long = !repeats && op.num_inputs() > static_cast<int>(table.size());
  if (op.num_inputs() < least || is_too_long || !is_divisible)
    expect_operands(false, op, format_signature(schema));
  for (int i = 0; i < op.num_inputs(); ++i) {
    if (op.has_input(i)) continue;
    const InputOperand& row = table[static_cast<size_t>(schema.input_row(op, i))];
    expect_operands(row.presence == Presence::kOptional, op, row.name);
  }
  const int flag = schema.accumulate_flag_input();
  if (flag < 0 || op.has_input(flag)) return;
  for (int i = 0; i < op.num_inputs(); ++i) {
    expect_operands(!op.has_input(i) || table[static_cast<size_t>(i)].role != InputRole::kInto, op,
                    "an accumulation flag, because an 'into' operand is given");
  }
}

}  // namespace

int OpSchema::input_row(const OpView& op, int input) const {
  static_cast<void>(op);
  return row_of(inputs(), input);
}

int OpSchema::output_row(const OpView& op, int output) const {
  static_cast<void>(op);
  return row_of(outputs(), output);
}

int OpSchema::repeated_inputs(const OpView& op) const {
  static_cast<void>(op);
  return repeated_rows(inputs()).rows;
}

int OpSchema::input_with(InputRole role) const {
  const auto rows = inputs();
  const auto found = std::ranges::find(rows, role, &InputOperand::role);
  return found == rows.end() ? -1 : found->index;
}

int OpSchema::into_input(const OpView& op, int output) const {
  const int row = output_row(op, output);
  for (const InputOperand& input : inputs()) {
    if (input.role == InputRole::kInto && input.output == row) return input.index;
  }
  return -1;
}

bool OpSchema::has_optional_memory(const OpView& op, int output) const {
  return outputs()[static_cast<size_t>(output_row(op, output))].memory == OutputMemory::kOptional;
}

int OpSchema::writes_into(const OpView& op, int output) const {
  const int row = output_row(op, output);
  for (const InputOperand& input : inputs()) {
    if (input.output == row && op.has_input(input.index)) return input.index;
  }
  return -1;
}

std::string OpSchema::input_name(const OpView& op, int input) const {
  return operand_name(inputs(), input_row(op, input), input);
}

std::string OpSchema::output_name(const OpView& op, int output) const {
  return operand_name(outputs(), output_row(op, output), output);
}

std::vector<ValueType> OpSchema::infer(const OpView& op) const {
  check_presence(*this, op);
  return output_types(op);
}

std::string format_signature(const OpSchema& schema) {
  std::string text;
  for (const InputOperand& row : schema.inputs()) {
    if (!text.empty()) text += ", ";
    text += row.name;
    if (row.presence == Presence::kOptional || row.presence == Presence::kTrailing) text += "?";
    if (row.presence == Presence::kRepeated) text += "...";
  }
  return std::string(schema.name()) + "(" + text + ")";
}

void expect_operands(bool condition, const OpView& op, std::string_view rule) {
  if (condition) [[likely]]
    return;
  std::string operands;
  for (int i = 0; i < op.num_inputs(); ++i) {
    if (i > 0) operands += ", ";
    const std::string name = op.op.def->input_name(op, i);
    if (!name.empty()) operands += name + " = ";
    operands += op.has_input(i) ? op.input(i).name + " " + format_type(op.input(i).type) : "_";
  }
  PLIMSOLL_CHECK(condition, "the operands of {}({}) are invalid; required: {}", op.op.def->name(), operands,
                 rule);
}

DType stated_dtype(const OpView& op, DType fallback) {
  if (!op.attributes().has("dtype")) return fallback;
  const auto dtype = parse_dtype(op.attributes().word("dtype"));
  PLIMSOLL_CHECK(dtype.has_value(),
                 "{}: the attribute dtype is '{}', which is not the name of an element type",
                 op.op.def->name(), op.attributes().word("dtype"));
  return *dtype;
}

Recipe same_op(const OpView& op, int output) {
  return {op.op.def, op.op.inputs, op.op.attributes, output};
}

void expect_zero_tail(Tail state, const OpView& op, std::string_view operand) {
  PLIMSOLL_CHECK(
      state == Tail::kZero,
      "{} sums over all rows of its operand {}, whose rows after the last token must be zero, but are not",
      op.op.def->name(), operand);
}

}  // namespace plimsoll
