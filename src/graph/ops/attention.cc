// attention(qkv, cu_seqlens, rng?) {heads, scale, causal, p, site, lse}: per sequence and head
// o = dropout(softmax(scale q k^T)) v over rows laid end to end; qkv_T(3HD) holds q, k, v of all heads side
// by side. lse_TH is the log-sum-exp of each row, kept for the backward pass (absent when lse is 0). No S x S
// value exists. Source: Dao et al., FlashAttention (arXiv 2205.14135). Outputs on tail rows are zero.
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

// Multiply-adds of scores and values over pairs of rows of one sequence; the bucket bounds the pairs by full
// sequences.
double pairs(const Bucket& bucket) {
  const double longest = static_cast<double>(bucket.longest);
  const double tokens = static_cast<double>(bucket.tokens);
  return bucket.longest > 0 ? tokens * longest : tokens * tokens;
}

class Attention final : public OpSchema {
 public:
  std::string_view name() const override { return "attention"; }
  OpGroup group() const override { return OpGroup::kContraction; }

  std::vector<ValueType> infer(const OpView& op) const override {
    const int64_t heads = op.attributes().integer("heads");
    expect_operands(op.num_inputs() == 3 && op.in_shape(0).rank() == 2 && op.in_shape(0).has_token_rows() &&
                        op.in_shape(0)[1].offset % (3 * heads) == 0,
                    op, "qkv[T,3*H*D], cu_seqlens[B+1], rng");
    expect_operands(op.attributes().number("p") == 0.0 || op.has_input(2), op, "rng where p > 0");
    const DType dtype = op.input(0).type.dtype;
    std::vector<ValueType> types{{dtype, Shape{kDimT, op.in_shape(0)[1].offset / 3}}};
    if (op.attributes().integer("lse") != 0) {
      types.push_back({DType::kF32, Shape{kDimT, heads}});
    }
    return types;
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 4.0 * pairs(bucket) * static_cast<double>(op.out_shape(0)[1].offset);
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail>) const override {
    return std::vector<Tail>(static_cast<size_t>(op.num_outputs()), Tail::kZero);
  }

  void gradient(GradientContext& context) const override {
    const Op& op = context.op();
    const ValueId d_o = context.d_output(0);
    if (d_o == kNoValue || !context.wants(0)) return;
    PLIMSOLL_CHECK(op.outputs.size() == 2, "attention without lse has no gradient");
    context.set(0, emit(context.graph(), attention_bwd_op(),
                        {op.inputs[0], op.inputs[1], op.inputs[2], op.outputs[0], op.outputs[1], d_o},
                        op.attributes));
  }
};

class AttentionBwd final : public OpSchema {
 public:
  std::string_view name() const override { return "attention_bwd"; }
  OpGroup group() const override { return OpGroup::kContraction; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 6 && op.in_shape(3) == op.in_shape(5), op,
                    "qkv, cu_seqlens, rng, o[T,HD], lse, d_o[T,HD]");
    return {op.input(0).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 10.0 * pairs(bucket) * static_cast<double>(op.in_shape(3)[1].offset);
  }
  std::vector<Tail> tail(const OpView&, std::span<const Tail>) const override { return {Tail::kZero}; }
};

}  // namespace

const OpSchema& attention_op() {
  static const Attention op;
  return op;
}
const OpSchema& attention_bwd_op() {
  static const AttentionBwd op;
  return op;
}

}  // namespace plimsoll
