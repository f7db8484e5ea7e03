// matmul(a, b, bias?, into?, flag?) {ta, tb}: c_mn = op(a)_mk op(b)_kn (+ bias_n) (+ into_mn when the flag is
// 1). Gradient: d_a = d_c b^T, d_b = a^T d_c with the transposes that the operands' layouts ask for; d_bias =
// column sums. Sums are kept in fp32 (fp64 for f64 operands). Tail rows: an output whose rows are tokens is
// zero where a is zero and there is no bias; a sum over tokens needs one zero factor.
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

struct Sizes {
  Dim m, n, k_a, k_b;
};

class Matmul final : public OpSchema {
 public:
  std::string_view name() const override { return "matmul"; }
  OpGroup group() const override { return OpGroup::kContraction; }

  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 5 && op.in_shape(0).rank() == 2 && op.in_shape(1).rank() == 2, op,
                    "a[m,k], b[k,n], bias, into, flag");
    const Sizes s = sizes(op);
    expect_operands(s.k_a == s.k_b, op, "equal inner sizes");
    expect_operands(!op.has_input(2) || (op.in_shape(2).rank() == 1 && op.in_shape(2)[0] == s.n), op,
                    "bias[n]");
    ValueType type{stated_dtype(op, op.input(0).type.dtype), Shape{s.m, s.n}};
    if (op.has_input(3)) {
      expect_operands(op.in_shape(3) == type.shape && op.has_input(4), op, "into[m,n] and a flag");
      type.dtype = op.input(3).type.dtype;
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
      PLIMSOLL_CHECK(inputs[0] == Tail::kZero || inputs[1] == Tail::kZero,
                     "matmul '{}' sums over tokens, but neither operand is zero on tail rows",
                     op.output(0).name);
      return {Tail::kNone};
    }
    if (s.m.symbol != Symbol::kTokens) return {Tail::kNone};
    return {inputs[0] == Tail::kZero && !op.has_input(2) ? Tail::kZero : Tail::kFinite};
  }

  bool works_row_by_row(const OpView& op) const override {
    return op.attributes().integer("ta") == 0 && !op.in_shape(1).depends_on_bucket() && !op.has_input(3);
  }
  int into_input(const OpView&, int) const override { return 3; }
  int accumulate_flag_input() const override { return 4; }

  void gradient(GradientContext& context) const override {
    Graph& graph = context.graph();
    const Op& op = context.op();
    const ValueId d_c = context.d_output(0);
    if (d_c == kNoValue) return;
    const bool ta = op.attributes.integer("ta") != 0;
    const bool tb = op.attributes.integer("tb") != 0;
    const ValueId a = op.inputs[0];
    const ValueId b = op.inputs[1];
    const auto flag = [](bool yes) { return yes ? MatmulTranspose::kYes : MatmulTranspose::kNo; };
    // d_b stands first: it is the last reader of a saved activation, which dies before d_a is born. It has
    // the type of b, which stays in fp32 where activations are in 16 bits.
    DType b_dtype = graph.value(b).type.dtype;
    if (op.attributes.has("gradient_dtype")) b_dtype = *parse_dtype(op.attributes.word("gradient_dtype"));
    const std::string b_name = "d_" + graph.value(b).name;
    if (context.wants(1)) {
      context.set(1, tb ? emit_matmul(graph, d_c, MatmulTranspose::kYes, a, flag(ta), b_name, b_dtype)
                        : emit_matmul(graph, a, flag(!ta), d_c, MatmulTranspose::kNo, b_name, b_dtype));
    }
    if (context.wants(2)) {
      const Value& bias = graph.value(op.inputs[2]);
      // Sums over columns stay in fp32 where the bias is a 16-bit copy.
      const DType dtype = bias.type.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
      const Attributes attributes{{"dtype", std::string(dtype_name(dtype))}};
      const std::string name = "d_" + bias.name;
      context.set(2, emit(graph, bias_grad_op(), {d_c, kNoValue, kNoValue}, attributes, name));
    }
    if (context.wants(0)) {
      context.set(
          0, ta ? emit_matmul(graph, b, flag(tb), d_c, MatmulTranspose::kYes, "d_" + graph.value(a).name)
                : emit_matmul(graph, d_c, MatmulTranspose::kNo, b, flag(!tb), "d_" + graph.value(a).name));
    }
  }

  std::vector<ValueId> decompose(Graph& graph, const Op& op) const override {
    if (op.inputs[2] == kNoValue) return {};
    Attributes attributes = op.attributes;
    const ValueId product =
        emit(graph, *this, {op.inputs[0], op.inputs[1], kNoValue, op.inputs[3], op.inputs[4]},
             std::move(attributes));
    return {emit(graph, bias_add_op(), {product, op.inputs[2]})};
  }

 private:
  static Sizes sizes(const OpView& op) {
    const bool ta = op.attributes().integer("ta") != 0;
    const bool tb = op.attributes().integer("tb") != 0;
    const Shape& a = op.in_shape(0);
    const Shape& b = op.in_shape(1);
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
