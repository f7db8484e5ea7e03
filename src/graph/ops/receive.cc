// receive() {from, dtype, shape, axis, zero_tail?}: y = the value that the stage {from} of a pipeline sends next. {shape} is the text of the
// dimensions, separated by "x": "Tx384". With {zero_tail} the rows after the last token are zero.
//
// It runs on Queue::kCommunication (op.h).
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"

namespace plimsoll {
namespace {

constexpr char kBetweenDims = 'x';

Shape parse_message_shape(const std::string& text) {
  std::vector<Dim> dims;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(kBetweenDims, begin), text.size());
    const std::optional<Dim> dim = parse_dim(std::string_view(text).substr(begin, end - begin));
    PLIMSOLL_CHECK(dim.has_value(),
                   "the attribute 'shape' of the op receive is '{}', which cannot be read as a shape", text);
    dims.push_back(*dim);
    begin = end + 1;
  }
  return Shape(dims);
}

class Receive final : public OpSchema, private ReceiveOp {
 public:
  std::string_view name() const override { return "receive"; }
  std::span<const InputOperand> inputs() const override { return {}; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kCommunication; }
  OpWork work() const override { return OpWork::kCollective; }
  Queue queue(const OpView&) const override { return Queue::kCommunication; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    return {{stated_dtype(op, DType::kF32), parse_message_shape(op.attributes().word("shape"))}};
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail>) const override {
    if (!op.out_shape(kY).has_token_rows()) return {Tail::kNone};
    return {op.attributes().integer_or("zero_tail", 0) != 0 ? Tail::kZero : Tail::kFinite};
  }
  double flops(const OpView&, const Bucket&) const override { return 0; }
  double transferred_bytes(const OpView& op, const Bucket& bucket) const override {
    return static_cast<double>(op.output(kY).bytes(bucket));
  }

 private:
  static constexpr std::array kOutputs{OutputOperand::required(kY, "y")};
};

}  // namespace

const OpSchema& receive_op() {
  static const Receive op;
  return op;
}

ValueId emit_receive(Graph& graph, const ValueType& type, int64_t from, std::string_view name,
                     bool zero_tail) {
  PLIMSOLL_CHECK(
      type.shape.rank() > 0,
      "cannot receive '{}': a tensor that pipeline stages exchange must have at least one dimension", name);
  std::string shape;
  for (const Dim& dim : type.shape.dims()) {
    if (!shape.empty()) shape += kBetweenDims;
    shape += format_dim(dim);
  }
  Attributes attributes{
      {"from", from}, {"dtype", std::string(dtype_name(type.dtype))}, {"shape", std::move(shape)}};
  set_mesh_axis(attributes, MeshAxis::kPipeline);
  if (zero_tail) attributes.set("zero_tail", int64_t{1});
  return emit(graph, receive_op(), {}, std::move(attributes), name);
}

}  // namespace plimsoll
