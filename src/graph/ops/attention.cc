// attention(qkv, cu_seqlens, rng?) {heads, kv_heads?, window?, scale, causal, p, site, lse, tensor_ranks?}: o = dropout(softmax(scale q
// k^T)) v for each sequence and head; the rows of all sequences follow one another. qkv_T((H+2G)D) contains q of H heads, then k and then v
// of G heads; G is {kv_heads}, or H without it. With {window}, a row attends only to rows less than {window} rows away. With {causal}, it
// attends only to itself and to earlier rows. lse_TH is the log-sum-exp of each row, which the backward pass reads; it does not exist if
// {lse} is 0. The scores of a sequence of S tokens, an S x S matrix, are never stored as a whole. Source: Dao et al., FlashAttention (arXiv
// 2205.14135). Outputs are zero in tail rows (rows after the last token).
//
// With {tensor_ranks}, the op computes the heads of one rank of a tensor-parallel group of this size. Every rank has the same number of
// heads, in the order of the ranks. Dropout draws the same random numbers for a head as on a single rank that has all heads.
#include <array>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

// Returns an upper bound for the number of (query row, key row) pairs, summed over sequences. It assumes that all sequences have the
// largest length that the bucket (the sizes of a batch) permits. With {causal} a row attends only to itself and to the rows before it.
double pairs(const OpView& op, const Bucket& bucket) {
  const double tokens = static_cast<double>(bucket.tokens);
  const double longest = bucket.longest > 0 ? static_cast<double>(bucket.longest) : tokens;
  const double causal = tokens * (longest + 1.0) / 2.0;
  const double window = static_cast<double>(op.attributes().integer_or("window", 0));
  const bool is_causal = op.attributes().integer("causal") != 0;
  if (window == 0.0 || window >= longest) return is_causal ? causal : tokens * longest;
  // Number of pairs of a row and itself or an earlier row: {window} per row, minus the pairs that the first rows of a
  // sequence lack, because fewer than {window} - 1 rows come before them.
  const double before = tokens * window - tokens / longest * window * (window - 1.0) / 2.0;
  return is_causal ? before : 2.0 * before - tokens;
}

class Attention final : public OpSchema, private AttentionOp {
 public:
  std::string_view name() const override { return "attention"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kContraction; }
  OpWork work() const override { return OpWork::kAttention; }

  std::vector<ValueType> output_types(const OpView& op) const override {
    const int64_t heads = op.attributes().integer("heads");
    const int64_t kv_heads = op.attributes().integer_or("kv_heads", heads);
    const int64_t all_heads = heads + 2 * kv_heads;
    expect_operands(kv_heads > 0 && heads % kv_heads == 0, op,
                    "a number of heads that is a multiple of kv_heads");
    expect_operands(op.in_shape(kQkv).rank() == 2 && op.in_shape(kQkv).has_token_rows() &&
                        op.in_shape(kQkv)[1].offset % all_heads == 0,
                    op, "qkv[T,(H+2G)*D], cu_seqlens[B+1], rng");
    expect_operands(op.attributes().number("p") == 0.0 || op.has_input(kRng), op,
                    "an rng, because the dropout probability p is above 0");
    const DType dtype = op.input(kQkv).type.dtype;
    std::vector<ValueType> types{{dtype, Shape{kDimT, op.in_shape(kQkv)[1].offset / all_heads * heads}}};
    if (op.attributes().integer("lse") != 0) {
      types.push_back({DType::kF32, Shape{kDimT, heads}});
    }
    return types;
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 4.0 * pairs(op, bucket) * static_cast<double>(op.out_shape(kO)[1].offset);
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail>) const override {
    return std::vector<Tail>(static_cast<size_t>(op.num_outputs()), Tail::kZero);
  }

  void gradient(GradientContext& context) const override {
    const Op& op = context.op();
    const ValueId d_o = context.d_output(kO);
    if (d_o == kNoValue || !context.wants(kQkv)) return;
    PLIMSOLL_CHECK(
        op.outputs.size() == 2,
        "cannot differentiate attention that has no output lse (log-sum-exp of each row of scores)");
    context.set(kQkv, emit(context.graph(), attention_bwd_op(),
                           {op.inputs[kQkv], op.inputs[kCuSeqlens], op.inputs[kRng], op.outputs[kO],
                            op.outputs[kLse], d_o},
                           op.attributes));
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kQkv, "qkv"),
                                      InputOperand::sequence_offsets(kCuSeqlens),
                                      InputOperand::random_state(kRng, Presence::kOptional)};
  static constexpr std::array kOutputs{OutputOperand::required(kO, "o"),
                                       OutputOperand::conditional(kLse, "lse")};
};

class AttentionBwd final : public OpSchema, private AttentionBwdOp {
 public:
  std::string_view name() const override { return "attention_bwd"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kContraction; }
  OpWork work() const override { return OpWork::kAttentionBackward; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kO) == op.in_shape(kDO), op, "qkv, cu_seqlens, rng, o[T,HD], lse, d_o[T,HD]");
    return {op.input(kQkv).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 10.0 * pairs(op, bucket) * static_cast<double>(op.in_shape(kO)[1].offset);
  }
  std::vector<Tail> tail(const OpView&, std::span<const Tail>) const override { return {Tail::kZero}; }

 private:
  static constexpr std::array kInputs{InputOperand::required(kQkv, "qkv"),
                                      InputOperand::sequence_offsets(kCuSeqlens),
                                      InputOperand::random_state(kRng, Presence::kOptional),
                                      InputOperand::required(kO, "o"),
                                      InputOperand::required(kLse, "lse"),
                                      InputOperand::required(kDO, "d_o")};
  static constexpr std::array kOutputs{OutputOperand::required(kDQkv, "d_qkv")};
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
