// rope_table(positions_T, cu_seqlens) {dim, rope}: table_T(dim), the cosines and sines of each token's position, from the
// parameters in {rope} (rope_text() of base/rope_parameters.h). The layers of a model share it. It has no gradient.
//
// rope(x, table) {heads, transposed?}: rotates the first {heads} heads of each row of x_TN by the table (Su et al., arXiv
// 2104.09864), and leaves the rest of the row as it is; with {transposed} = 1 it applies the transposed rotation, which computes the
// gradient of the rotation.
#include <array>

#include "base/rope_parameters.h"
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class RopeTable final : public OpSchema, private RopeTableOp {
 public:
  std::string_view name() const override { return "rope_table"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    const int64_t dim = op.attributes().integer("dim");
    const Dim& rows = op.in_shape(kPositions)[0];
    expect_operands(op.input(kPositions).type == ValueType{DType::kI32, Shape{rows}} &&
                        rows.whole() == kDimT && dim > 0 && dim % 2 == 0 && dim <= kMaxRopeDim,
                    op, "positions i32[T], cu_seqlens[B+1], an even dim");
    return {{stated_dtype(op, DType::kF32), Shape{rows, dim}}};
  }
  // A sine and a cosine in double take about 50 operations.
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 25.0 * static_cast<double>(op.out_shape(kTable).elements(bucket));
  }
  void gradient(GradientContext&) const override {}

 private:
  static constexpr std::array kInputs{InputOperand::required(kPositions, "positions"),
                                      InputOperand::sequence_offsets(kCuSeqlens)};
  static constexpr std::array kOutputs{OutputOperand::required(kTable, "table")};
};

class Rope final : public OpSchema, private RopeOp {
 public:
  std::string_view name() const override { return "rope"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    const Shape& x = op.in_shape(kX);
    const Shape& table = op.in_shape(kTable);
    expect_operands(x.rank() == 2 && table.rank() == 2 && x[0] == table[0] &&
                        x[1].offset % table[1].offset == 0 &&
                        op.attributes().integer("heads") * table[1].offset <= x[1].offset,
                    op, "x[T,N] and table[T,D], with at most N / D heads of D elements per row");
    return {op.input(kX).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 3.0 * static_cast<double>(op.attributes().integer("heads")) *
           static_cast<double>(op.in_shape(kTable).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    // Rows after the last token (tail rows) that are zero stay zero, because a rotation of zeros is zero.
    return {op.out_shape(kY).has_token_rows() ? inputs[kX] : Tail::kNone};
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {kX}; }
  std::optional<Recipe> recipe(const OpView& op, int output) const override { return same_op(op, output); }
  void gradient(GradientContext& context) const override {
    const ValueId d_y = context.d_output(kY);
    if (d_y == kNoValue || !context.wants(kX)) return;
    const Op& op = context.op();
    Attributes attributes = op.attributes;
    attributes.set("transposed", 1 - op.attributes.integer_or("transposed", 0));
    context.set(kX, emit(context.graph(), rope_op(), {d_y, op.inputs[kTable]}, attributes));
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kX, "x"),
                                      InputOperand::required(kTable, "table")};
  static constexpr std::array kOutputs{OutputOperand::required(kY, "y")};
};

}  // namespace

const OpSchema& rope_table_op() {
  static const RopeTable op;
  return op;
}
const OpSchema& rope_op() {
  static const Rope op;
  return op;
}

}  // namespace plimsoll
