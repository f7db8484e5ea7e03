// copy(x_0 .. x_n-1, into_0 .. into_n-1?, after...) {to, count, into}: copies the x_i unchanged to another memory space, "host", "disk" or
// "device". With {into} the outputs are newer versions of the values `into`. A copy starts when the ops before it are done, and runs at the
// same time as later ops until the first op that must wait for the copy: see find_queued_ops() in graph/analysis/analysis.h. The values
// `after` are not read, but must have been written before this copy starts. With {ended}, the copy also waits until the first {ended}
// copies to the host in its segment (forward pass, backward pass or update) have ended. With the attributes of a slice (slice.h) only this
// slice is copied: the values on the host or disk are whole, and those on the device consist of the slice.

#include <algorithm>
#include <array>

#include "graph/ops/ops.h"
#include "graph/ops/slice.h"

namespace plimsoll {

namespace {

class Copy final : public OpSchema, private CopyOp {
 public:
  std::string_view name() const override { return "copy"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kDataMovement; }
  OpWork work() const override { return OpWork::kCopy; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    const int n = count(op);
    const bool into = writes_older(op);
    const std::string& to = op.attributes().word("to");
    const bool is_space = to == "host" || to == "disk" || to == "device";
    expect_operands(n >= 1 && op.num_inputs() >= (into ? 2 : 1) * n && is_space, op,
                    "as many inputs as the attribute 'count' says, twice as many if the attribute 'into' is "
                    "set, and 'host', 'disk' or 'device' as the attribute 'to'");
    std::vector<ValueType> types;
    for (int i = 0; i < n; ++i) {
      const ValueType& from = op.input(i).type;
      types.push_back(into ? op.input(n + i).type : from);
      if (const auto slice = slice_of(op.attributes())) {
        expect_operands(into || to == "device", op,
                        "either a copy to the device or the attribute 'into', because the op copies a slice");
        if (!into) types.back().shape = shape_of(*slice, from.shape);
        const ValueType& whole = to == "device" ? from : types.back();
        const ValueType& part = to == "device" ? types.back() : from;
        expect_operands(part == ValueType{whole.dtype, shape_of(*slice, whole.shape)}, op,
                        "a value with the shape of the slice on the device, and one with the whole shape on "
                        "the host or disk");
      } else {
        expect_operands(types.back() == from, op, "source and destination of one type");
      }
    }
    return types;
  }
  double flops(const OpView&, const Bucket&) const override { return 0; }
  double bytes(const OpView& op, const Bucket& bucket) const override {
    double sum = 0;
    for (int i = 0; i < count(op); ++i) {
      sum += 2.0 * static_cast<double>(std::min(op.input(i).bytes(bucket), op.output(i).bytes(bucket)));
    }
    return sum;
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    return {inputs.begin(), inputs.begin() + count(op)};
  }
  int writes_into(const OpView& op, int output) const override {
    return writes_older(op) ? count(op) + output : -1;
  }
  Space output_space(const OpView& op, int) const override {
    const std::string& to = op.attributes().word("to");
    return to == "host" ? Space::kHost : to == "disk" ? Space::kDisk : Space::kDevice;
  }
  bool crosses_spaces() const override { return true; }
  Queue queue(const OpView& op) const override {
    return output_space(op, 0) == Space::kDevice ? Queue::kToDevice : Queue::kToHost;
  }
  int repeated_inputs(const OpView&) const override { return 1; }
  int input_row(const OpView& op, int input) const override {
    if (input < count(op)) return kFrom;
    return writes_older(op) && input < 2 * count(op) ? kInto : kAfter;
  }

 private:
  // The inputs are three lists, one after another: `from`, `into` and `after`. {count} and {into} determine the lengths of the first two.
  static constexpr std::array kInputs{InputOperand::repeated(kFrom, "from"),
                                      InputOperand::repeated(kInto, "into"),
                                      InputOperand::repeated(kAfter, "after")};
  static constexpr std::array kOutputs{OutputOperand::repeated(kTo, "to")};

  static int count(const OpView& op) { return static_cast<int>(op.attributes().integer("count")); }
  static bool writes_older(const OpView& op) { return op.attributes().integer_or("into", 0) != 0; }
};

}  // namespace

std::span<const ValueId> copied_values(const Op& copy) {
  return std::span(copy.inputs).first(static_cast<size_t>(copy.attributes.integer("count")));
}

const OpSchema& copy_op() {
  static const Copy op;
  return op;
}

// fill(like) {value}: a value of the type of `like` whose elements are all `value`. The backward pass starts from such a value, the
// gradient of the loss.

namespace {

class Fill final : public OpSchema, private FillOp {
 public:
  std::string_view name() const override { return "fill"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kDataMovement; }
  std::vector<ValueType> output_types(const OpView& op) const override { return {op.input(kLike).type}; }
  double flops(const OpView&, const Bucket&) const override { return 0; }

 private:
  static constexpr std::array kInputs{InputOperand::required(kLike, "like")};
  static constexpr std::array kOutputs{OutputOperand::required(kY, "y")};
};

}  // namespace

const OpSchema& fill_op() {
  static const Fill op;
  return op;
}

}  // namespace plimsoll
