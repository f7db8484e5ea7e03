// matmul(a, b, bias?, into?, flag?) {ta, tb}: c_mn = op(a)_mk op(b)_kn (+ bias_n) (+ into_mn if the flag is 1). With {tensor_ranks}, each
// rank of a tensor-parallel group has some of the columns of op(b), and d_a is then a sum over the ranks, which is the operator f of
// Shoeybi et al., "Megatron-LM", arXiv 1909.08053, section 3. Gradient: d_a = d_c b^T and d_b = a^T d_c, with the transposes that the
// layouts of the operands require; d_bias = column sums of d_c. Sums are kept in fp32 (fp64 for f64 operands). Tail rows (rows after the
// last token): an output whose rows are tokens is zero in its tail rows if a is zero in them and there is no bias. A product that sums over
// tokens requires that one of its factors is zero in the tail rows.
#include <array>

#include "graph/ops/ops.h"
#include "graph/ops/slice.h"

namespace plimsoll {
namespace {

struct Sizes {
  Dim m, n, k_a, k_b;
};

class Matmul final : public OpSchema, private MatmulOp {
 public:
  std::string_view name() const override { return "matmul"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kContraction; }

  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kA).rank() == 2 && op.in_shape(kB).rank() == 2, op,
                    "a[m,k], b[k,n], bias, into, flag");
    const Sizes s = sizes(op);
    expect_operands(s.k_a == s.k_b, op, "an equal inner dimension k of a and b");
    expect_operands(!op.has_input(kBias) || (op.in_shape(kBias).rank() == 1 && op.in_shape(kBias)[0] == s.n),
                    op, "bias[n]");
    ValueType type{stated_dtype(op, op.input(kA).type.dtype), Shape{s.m, s.n}};
    if (op.has_input(kInto)) {
      expect_operands(op.in_shape(kInto) == type.shape && op.has_input(kFlag), op, "into[m,n] and a flag");
      type.dtype = op.input(kInto).type.dtype;
    }
    return {type};
  }

  double flops(const OpView& op, const Bucket& bucket) const override {
    const Sizes s = sizes(op);
    return 2.0 * static_cast<double>(s.m.at(bucket)) * static_cast<double>(s.n.at(bucket)) *
           static_cast<double>(s.k_a.at(bucket));
  }

  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    const Sizes s = sizes(op);
    if (s.k_a.symbol == Symbol::kTokens) {
      PLIMSOLL_CHECK(inputs[kA] == Tail::kZero || inputs[kB] == Tail::kZero,
                     "matmul '{}' sums over tokens, so one of its operands must be zero in the rows after "
                     "the last token, but neither is",
                     op.output(kC).name);
      return {Tail::kNone};
    }
    if (s.m.symbol != Symbol::kTokens) return {Tail::kNone};
    return {inputs[kA] == Tail::kZero && !op.has_input(kBias) ? Tail::kZero : Tail::kFinite};
  }

  bool works_row_by_row(const OpView& op) const override {
    return op.attributes().integer("ta") == 0 && !op.in_shape(kB).depends_on_bucket() && !op.has_input(kInto);
  }

  void gradient(GradientContext& context) const override {
    Graph& graph = context.graph();
    const Op& op = context.op();
    const ValueId d_c = context.d_output(kC);
    if (d_c == kNoValue) return;
    const bool ta = op.attributes.integer("ta") != 0;
    const bool tb = op.attributes.integer("tb") != 0;
    const ValueId a = op.inputs[kA];
    const ValueId b = op.inputs[kB];
    const auto flag = [](bool yes) { return yes ? MatmulTranspose::kYes : MatmulTranspose::kNo; };
    // d_b is emitted before d_a, because d_b is computed from `a`, a saved activation that no later op reads. d_a can then reuse the memory
    // of `a`. d_b has the type of b, which is fp32 if only activations are in 16 bits.
    DType b_dtype = graph.value(b).type.dtype;
    if (op.attributes.has("gradient_dtype")) b_dtype = *parse_dtype(op.attributes.word("gradient_dtype"));
    const std::string b_name = "d_" + graph.value(b).name;
    if (context.wants(kB)) {
      context.set(kB, tb ? emit_matmul(graph, d_c, MatmulTranspose::kYes, a, flag(ta), b_name, b_dtype)
                         : emit_matmul(graph, a, flag(!ta), d_c, MatmulTranspose::kNo, b_name, b_dtype));
    }
    if (context.wants(kBias)) {
      const Value& bias = graph.value(op.inputs[kBias]);
      // The gradient of a bias is a sum over rows. It is computed in fp32 even if the product reads a 16-bit copy of
      // the bias.
      const DType dtype = bias.type.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
      const Attributes attributes{{"dtype", std::string(dtype_name(dtype))}};
      const std::string name = "d_" + bias.name;
      context.set(kBias, emit(graph, bias_grad_op(), {d_c, kNoValue, kNoValue}, attributes, name));
    }
    if (context.wants(kA)) {
      const std::string a_name = "d_" + graph.value(a).name;
      const ValueId d_a = ta ? emit_matmul(graph, b, flag(tb), d_c, MatmulTranspose::kYes, a_name)
                             : emit_matmul(graph, d_c, MatmulTranspose::kNo, b, flag(!tb), a_name);
      const int64_t tensor_ranks = op.attributes.integer_or(kTensorRanks, 1);
      context.set(kA, tensor_ranks > 1 ? emit_tensor_sum(graph, d_a, tensor_ranks) : d_a);
    }
  }

  std::vector<ValueId> decompose(Graph& graph, const Op& op) const override {
    if (op.inputs[kBias] == kNoValue) return {};
    Attributes attributes = op.attributes;
    const ValueId product =
        emit(graph, *this, {op.inputs[kA], op.inputs[kB], kNoValue, op.inputs[kInto], op.inputs[kFlag]},
             std::move(attributes));
    return {emit(graph, bias_add_op(), {product, op.inputs[kBias]})};
  }

 private:
  static constexpr std::array kInputs{
      InputOperand::required(kA, "a"), InputOperand::required(kB, "b"), InputOperand::optional(kBias, "bias"),
      InputOperand::into(kInto, "into", kC), InputOperand::accumulate_flag(kFlag)};
  static constexpr std::array kOutputs{OutputOperand::required(kC, "c")};

  static Sizes sizes(const OpView& op) {
    const bool ta = op.attributes().integer("ta") != 0;
    const bool tb = op.attributes().integer("tb") != 0;
    const Shape& a = op.in_shape(kA);
    const Shape& b = op.in_shape(kB);
    return {.m = a[ta ? 1 : 0], .n = b[tb ? 0 : 1], .k_a = a[ta ? 0 : 1], .k_b = b[tb ? 1 : 0]};
  }
};

}  // namespace

const OpSchema& matmul_op() {
  static const Matmul op;
  return op;
}

ValueId emit_matmul(Graph& graph, ValueId a, MatmulTranspose trans_a, ValueId b, MatmulTranspose trans_b,
                    std::string_view name, std::optional<DType> dtype) {
  Attributes attributes{{"ta", int64_t{trans_a == MatmulTranspose::kYes}},
                        {"tb", int64_t{trans_b == MatmulTranspose::kYes}}};
  if (dtype && *dtype != graph.value(a).type.dtype) attributes.set("dtype", std::string(dtype_name(*dtype)));
  return emit(graph, matmul_op(), {a, b, kNoValue, kNoValue, kNoValue}, std::move(attributes), name);
}

}  // namespace plimsoll
