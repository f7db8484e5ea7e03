// columns(x_TN) {first, count, scale}: y_TK = scale * x[:, first : first + count]. The gradient of a call that selects all columns is the
// same op applied to d_y; a call that selects fewer has no gradient.
//
// add_columns(x_TN, y_TK) {first}: x with y added to the columns from `first` on. Gradient: d_x = d_z, and d_y is
// those columns of d_z.
#include <array>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class Columns final : public OpSchema, private ColumnsOp {
 public:
  std::string_view name() const override { return "columns"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  bool works_row_by_row(const OpView&) const override { return true; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    const int64_t first = op.attributes().integer("first");
    const int64_t count = op.attributes().integer("count");
    expect_operands(op.in_shape(kX).rank() == 2 && op.in_shape(kX)[1].is_constant() && first >= 0 &&
                        count > 0 && first + count <= op.in_shape(kX)[1].offset,
                    op, "x[T,N] and a range of its columns");
    return {{op.input(kX).type.dtype, Shape{op.in_shape(kX)[0], count}}};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return static_cast<double>(op.out_shape(kY).elements(bucket));
  }
  double bytes(const OpView& op, const Bucket& bucket) const override {
    return 2.0 * static_cast<double>(op.output(kY).bytes(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    return {op.out_shape(kY).has_token_rows() ? inputs[kX] : Tail::kNone};
  }
  std::vector<int> may_overwrite(const OpView& op, int) const override {
    return op.in_shape(kX) == op.out_shape(kY) ? std::vector<int>{kX} : std::vector<int>{};
  }
  std::optional<Recipe> recipe(const OpView& op, int output) const override { return same_op(op, output); }
  void gradient(GradientContext& context) const override {
    const ValueId d_y = context.d_output(kY);
    if (d_y == kNoValue || !context.wants(kX)) return;
    const Op& op = context.op();
    const Value& x = context.graph().value(op.inputs[kX]);
    PLIMSOLL_CHECK(x.type.shape[1].offset == op.attributes.integer("count"),
                   "cannot differentiate the op columns of '{}': only a selection of all columns has a "
                   "gradient, but this op selects fewer",
                   x.name);
    context.set(kX, emit(context.graph(), *this, {d_y}, op.attributes, "d_" + x.name));
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kX, "x")};
  static constexpr std::array kOutputs{OutputOperand::required(kY, "y")};
};

class AddColumns final : public OpSchema, private AddColumnsOp {
 public:
  std::string_view name() const override { return "add_columns"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  bool works_row_by_row(const OpView&) const override { return true; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kX).rank() == 2 && op.in_shape(kY).rank() == 2 &&
                        op.in_shape(kX)[0] == op.in_shape(kY)[0] &&
                        op.input(kX).type.dtype == op.input(kY).type.dtype,
                    op, "x[T,N], y[T,K] of one type");
    const int64_t first = op.attributes().integer("first");
    expect_operands(first >= 0 && first + op.in_shape(kY)[1].offset <= op.in_shape(kX)[1].offset, op,
                    "a range of the columns of x");
    return {op.input(kX).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return static_cast<double>(op.in_shape(kY).elements(bucket));
  }
  // Only y and the changed columns are read or written: if no other op reads x, the pass in_place lets this op overwrite x.
  double bytes(const OpView& op, const Bucket& bucket) const override {
    return 3.0 * static_cast<double>(op.input(kY).bytes(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    if (!op.out_shape(kZ).has_token_rows()) return {Tail::kNone};
    return {inputs[kX] == Tail::kZero && inputs[kY] == Tail::kZero ? Tail::kZero : Tail::kFinite};
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {kX}; }
  void gradient(GradientContext& context) const override {
    const ValueId d_z = context.d_output(kZ);
    if (d_z == kNoValue) return;
    const Op& op = context.op();
    if (context.wants(kY)) {
      const Value& y = context.graph().value(op.inputs[kY]);
      const Attributes attributes{
          {"first", op.attributes.integer("first")}, {"count", y.type.shape[1].offset}, {"scale", 1.0}};
      context.set(kY, emit(context.graph(), columns_op(), {d_z}, attributes, "d_" + y.name));
    }
    if (context.wants(kX)) context.set(kX, d_z);
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kX, "x"), InputOperand::required(kY, "y")};
  static constexpr std::array kOutputs{OutputOperand::required(kZ, "z")};
};

}  // namespace

const OpSchema& columns_op() {
  static const Columns op;
  return op;
}
const OpSchema& add_columns_op() {
  static const AddColumns op;
  return op;
}

}  // namespace plimsoll
