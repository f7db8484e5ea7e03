// send(x, room) {to, axis, zero_tail?}: sends x to the stage {to} of a pipeline, where an op `receive` returns it. y = x, in the persistent
// buffer `room`, whose bytes must not change until x has arrived, which may be several runs later. The op waits until the value that was
// sent before to the same stage has arrived, copies x into `room`, and starts to send. {zero_tail} states that the rows after the last
// token are zero, as they must be in a gradient.
//
// It runs on Queue::kCommunication. Autodiff does not differentiate this op: a receive op gets the gradient of x from the other stage.
#include <fmt/format.h>

#include <array>

#include "graph/ops/ops.h"
#include "graph/ops/slice.h"

namespace plimsoll {
namespace {

class Send final : public OpSchema, private SendOp {
 public:
  std::string_view name() const override { return "send"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kCommunication; }
  OpWork work() const override { return OpWork::kCollective; }
  Queue queue(const OpView&) const override { return Queue::kCommunication; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.input(kX).type == op.input(kRoom).type, op,
                    "x, and a buffer of the same type from which x is sent");
    return {op.input(kX).type};
  }
  int writes_into(const OpView&, int) const override { return kRoom; }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    if (op.attributes().integer_or("zero_tail", 0) != 0 && op.in_shape(kX).has_token_rows())
      expect_zero_tail(inputs[kX], op, "x");
    return {inputs[kX]};
  }
  double flops(const OpView&, const Bucket&) const override { return 0; }
  double transferred_bytes(const OpView& op, const Bucket& bucket) const override {
    return static_cast<double>(op.input(kX).bytes(bucket));
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kX, "x"), InputOperand::required(kRoom, "room")};
  static constexpr std::array kOutputs{OutputOperand::required(kMessage, "y")};
};

}  // namespace

const OpSchema& send_op() {
  static const Send op;
  return op;
}

void emit_send(Graph& graph, ValueId x, int64_t to, std::string_view name, bool zero_tail) {
  const ValueType type = graph.value(x).type;
  const ValueId room = graph.add_value(fmt::format("{}{}", kMessagePrefix, name), type, Storage::kMessage);
  Attributes attributes{{"to", to}};
  set_mesh_axis(attributes, MeshAxis::kPipeline);
  if (zero_tail) attributes.set("zero_tail", int64_t{1});
  const ValueId sent = emit(graph, send_op(), {x, room}, std::move(attributes),
                            fmt::format("{}{}.sent", kMessagePrefix, name));
  graph.value(sent).storage = Storage::kMessage;
}

}  // namespace plimsoll
