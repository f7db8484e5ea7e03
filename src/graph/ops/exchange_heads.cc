// exchange_heads(x) {ranks, axis="tensor", first, others, to, peers?}: exchanges data in a group of n ranks. With {to="heads"}, x_(T/n)C
// has all heads for the rows of this rank, and y_T(C/n) has all rows for the heads of this rank. {to="rows"} is the inverse op. The C
// columns are {first} columns, such as those of the queries or of the attention results, and twice {others} columns, for the keys and the
// values; {others} may be 0. Each of these parts consists of n equal shares, in the order of the ranks. Like all_reduce, the op runs on the
// queue of communication. Source: Jacobs et al., "DeepSpeed Ulysses", arXiv 2309.14509, section 3.
//
// Gradient: the ranks exchange d_y in the other direction.
#include <array>
#include <string>

#include "graph/ops/collective_op.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"

namespace plimsoll {
namespace {

class ExchangeHeads final : public CollectiveOp, private ExchangeHeadsOp {
 public:
  std::string_view name() const override { return "exchange_heads"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    const ValueType& x = op.input(kX).type;
    const int64_t ranks = op.attributes().integer("ranks");
    const int64_t first = op.attributes().integer("first"), others = op.attributes().integer("others");
    const bool has_heads = is_to_heads(op.attributes());
    const int64_t columns = (first + 2 * others) / (has_heads ? 1 : ranks);
    expect_operands(
        x.shape.rank() == 2 && x.shape.has_token_rows() && first % ranks == 0 && others % ranks == 0 &&
            x.shape[1] == Dim(columns) && x.shape.row_ranks() == (has_heads ? ranks : 1),
        op, "x[T/ranks,C] (to rows: x[T,C/ranks]), whose parts have multiples of 'ranks' columns");
    if (has_heads) return {{x.dtype, Shape{x.shape[0].whole(), columns / ranks}}};
    return {{x.dtype, Shape{x.shape[0].divided(ranks), columns * ranks}}};
  }
  int writes_into(const OpView&, int) const override { return -1; }
  double flops(const OpView&, const Bucket&) const override { return 0; }
  double transferred_bytes(const OpView& op, const Bucket& bucket) const override {
    const auto ranks = static_cast<double>(op.attributes().integer("ranks"));
    return (ranks - 1) / ranks * static_cast<double>(op.output(kY).bytes(bucket));
  }
  void gradient(GradientContext& context) const override {
    const ValueId d_y = context.d_output(kY);
    if (d_y == kNoValue || !context.wants(kX)) return;
    Attributes attributes = context.op().attributes;
    attributes.set("to", std::string(is_to_heads(attributes) ? "rows" : "heads"));
    context.set(kX, emit(context.graph(), exchange_heads_op(), {d_y}, std::move(attributes)));
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kX, "x")};
  static constexpr std::array kOutputs{OutputOperand::required(kY, "y")};
};

}  // namespace

const OpSchema& exchange_heads_op() {
  static const ExchangeHeads op;
  return op;
}

Attributes exchange_heads_attributes(int64_t ranks, int64_t first, int64_t others, bool to_heads) {
  Attributes attributes{{"ranks", ranks},
                        {"first", first},
                        {"others", others},
                        {"to", std::string(to_heads ? "heads" : "rows")}};
  set_mesh_axis(attributes, MeshAxis::kTensor);
  return attributes;
}

}  // namespace plimsoll
