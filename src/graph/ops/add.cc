// add(a, b): c = a + b for each element; a and b have one type. The rows of c after the last token are zero if those of a and b are.

#include <array>

#include "graph/ops/ops.h"
#include "graph/ops/slice.h"

namespace plimsoll {

namespace {

class Add final : public OpSchema, private AddOp {
 public:
  std::string_view name() const override { return "add"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  bool works_row_by_row(const OpView&) const override { return true; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.input(kA).type == op.input(kB).type, op, "two operands of one type");
    return {op.input(kA).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return static_cast<double>(op.out_shape(kC).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    if (!op.out_shape(kC).has_token_rows()) return {Tail::kNone};
    return {inputs[kA] == Tail::kZero && inputs[kB] == Tail::kZero ? Tail::kZero : Tail::kFinite};
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {kA, kB}; }
  void gradient(GradientContext& context) const override {
    const ValueId d_c = context.d_output(kC);
    if (d_c == kNoValue) return;
    if (context.wants(kA)) context.set(kA, d_c);
    if (context.wants(kB)) context.set(kB, d_c);
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kA, "a"), InputOperand::required(kB, "b")};
  static constexpr std::array kOutputs{OutputOperand::required(kC, "c")};
};

}  // namespace

const OpSchema& add_op() {
  static const Add op;
  return op;
}

// accumulate(into?, flag?, d) {ranks?}: sum = flag ? into + d : d, in the bytes of `into`. Used if the op that computes a gradient d cannot
// add it to `into`. Without `into` it copies d. With {ranks} the sum is divided among the ranks, each of which reads its slice of d.

namespace {

class Accumulate final : public OpSchema, private AccumulateOp {
 public:
  std::string_view name() const override { return "accumulate"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.has_input(kInto) == op.has_input(kFlag), op, "both 'into' and 'flag', or neither");
    const std::optional<RankSlices> slices = rank_slices_of(op.attributes());
    expect_operands(!op.has_input(kInto) || op.input(kInto).divided == slices, op,
                    "an 'into' that is divided among the ranks that the op's attributes name, or is whole if "
                    "they name none");
    expect_operands(!op.input(kD).divided, op, "a 'd' that is not divided among ranks");
    if (!op.has_input(kInto)) return {op.input(kD).type};
    expect_operands(op.in_shape(kInto) == op.in_shape(kD), op, "into, flag, d of one shape");
    return {op.input(kInto).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return op.has_input(kInto) ? static_cast<double>(op.output(kSum).elements(bucket)) : 0;
  }
  double bytes(const OpView& op, const Bucket& bucket) const override {
    const double read =
        static_cast<double>(op.output(kSum).elements(bucket) * dtype_bytes(op.input(kD).type.dtype));
    const double written = static_cast<double>(op.output(kSum).bytes(bucket));
    return read + (op.has_input(kInto) ? 2.0 : 1.0) * written;
  }

 private:
  static constexpr std::array kInputs{InputOperand::into(kInto, "into", kSum),
                                      InputOperand::accumulate_flag(kFlag), InputOperand::required(kD, "d")};
  static constexpr std::array kOutputs{OutputOperand::required(kSum, "sum")};
};

}  // namespace

const OpSchema& accumulate_op() {
  static const Accumulate op;
  return op;
}

}  // namespace plimsoll
