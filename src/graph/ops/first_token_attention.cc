// first_token_attention(x_TC, w_(3HD)C, bias_3HD, cu_seqlens) {heads, scale}: projects q, k and v from x by w and
// returns the attention output of the first row of each sequence only: o_B(HD). Forward only.
// kernels/attention/first_token_attention.h has the formula. Zero for an empty sequence.
#include <array>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class FirstTokenAttention final : public OpSchema, private FirstTokenAttentionOp {
 public:
  std::string_view name() const override { return "first_token_attention"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kContraction; }

  std::vector<ValueType> output_types(const OpView& op) const override {
    const int64_t heads = op.attributes().integer("heads");
    const bool ranks =
        op.in_shape(kX).rank() == 2 && op.in_shape(kW).rank() == 2 && op.in_shape(kBias).rank() == 1;
    expect_operands(ranks && op.in_shape(kX).has_token_rows() && !op.in_shape(kW).depends_on_bucket() &&
                        op.in_shape(kX)[1] == op.in_shape(kW)[1] &&
                        op.in_shape(kW)[0] == op.in_shape(kBias)[0] &&
                        op.in_shape(kW)[0].offset % (3 * heads) == 0,
                    op, "x[T,C], w[3*H*D,C], bias[3*H*D], cu_seqlens[B+1]");
    return {{op.input(kX).type.dtype, Shape{kDimB, op.in_shape(kW)[0].offset / 3}}};
  }

  // The kernel does not compute keys and values for all rows. Each head computes two products of x with a vector of the width of x. In
  // addition, each sequence needs three projections of a single row: for the query, the key and the value. The projections for the key and
  // the value are applied to one vector per head instead of to all rows of x.
  double flops(const OpView& op, const Bucket& bucket) const override {
    const auto columns = static_cast<double>(op.in_shape(kX)[1].offset);
    const auto heads = static_cast<double>(op.attributes().integer("heads"));
    const auto outputs = static_cast<double>(op.out_shape(kO).elements(bucket));
    return columns * (4.0 * static_cast<double>(bucket.tokens) * heads + 6.0 * outputs);
  }

  std::vector<ValueId> decompose(Graph& graph, const Op& op) const override {
    const ValueId qkv =
        emit(graph, matmul_op(), {op.inputs[kX], op.inputs[kW], op.inputs[kBias], kNoValue, kNoValue},
             {{"ta", int64_t{0}}, {"tb", int64_t{1}}});
    const Attributes attributes{{"heads", op.attributes.integer("heads")},
                                {"scale", op.attributes.number("scale")},
                                {"causal", int64_t{0}},
                                {"p", 0.0},
                                {"site", int64_t{0}},
                                {"lse", int64_t{0}}};
    const ValueId all = emit(graph, attention_op(), {qkv, op.inputs[kCuSeqlens], kNoValue}, attributes);
    return {emit(graph, first_token_op(), {all, op.inputs[kCuSeqlens]})};
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kX, "x"), InputOperand::required(kW, "w"),
                                      InputOperand::required(kBias, "bias"),
                                      InputOperand::sequence_offsets(kCuSeqlens)};
  static constexpr std::array kOutputs{OutputOperand::required(kO, "o")};
};

}  // namespace

const OpSchema& first_token_attention_op() {
  static const FirstTokenAttention op;
  return op;
}

}  // namespace plimsoll
