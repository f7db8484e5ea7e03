// linear_class_sums(x_BH, w_KH, bias_K?, labels_B) {the attributes of class_sums, chunk_rows}: the op class_sums (class_sums.cc), applied
// to the logits x w^T + bias of the classes that this rank stores. As in linear_cross_entropy.cc, the logits of only chunk_rows rows exist
// at a time, in scratch memory, and the ops of the backward pass compute them again.
//
// linear_class_sums_bwd(x, w, bias?, labels, d_sums): d_x_BH, this rank's term of the gradient of x.
//
// linear_class_sums_grad(the inputs of linear_class_sums_bwd, into_w?, into_bias?, flag?): d_w_KH and d_bias_K, computed as by
// linear_cross_entropy_grad.
//
// linear_class_sums_gradients(the inputs of linear_class_sums_grad): d_x, d_w and d_bias, from logits that are computed once. The pass
// loss_with_gradients emits it.
#include <array>

#include "graph/ops/linear_loss.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"

namespace plimsoll {
namespace {

// The positions of the inputs of all four ops in this file: an input that several of them have is at the same position in each.
using SumsIn = LinearClassSumsGradOp;

void expect_class_rows(const OpView& op) {
  const Shape& x = op.in_shape(SumsIn::kX);
  const Shape& w = op.in_shape(SumsIn::kW);
  expect_operands(x.rank() == 2 && w.rank() == 2 && x[1] == w[1] &&
                      op.in_shape(SumsIn::kLabels) == Shape{x[0]} &&
                      op.input(SumsIn::kLabels).type.dtype == DType::kI32,
                  op, "x[B,H], w[K,H], bias, labels i32[B]");
  expect_operands(!op.has_input(SumsIn::kBias) || op.in_shape(SumsIn::kBias) == Shape{w[0]}, op, "bias[K]");
}

void expect_sum_gradients(const OpView& op) {
  expect_class_rows(op);
  expect_operands(op.has_input(SumsIn::kDSums) &&
                      op.in_shape(SumsIn::kDSums) ==
                          Shape{op.in_shape(SumsIn::kX)[0], class_columns_of(op.attributes()).size()},
                  op, "the inputs of linear_class_sums, d_sums[B,S], into_w, into_bias, flag");
}

// Returns the attributes that the op class_sums needs, taken from the attributes of an op of this file.
Attributes class_sums_attributes(const Attributes& of_op) {
  Attributes attributes = class_loss_attributes(of_op);
  attributes.set(kTensorRanks, of_op.integer(kTensorRanks));
  attributes.set(kAllClasses, of_op.integer(kAllClasses));
  if (of_op.has("counts_correct")) attributes.set("counts_correct", of_op.integer("counts_correct"));
  return attributes;
}

// Computes the logits again and emits the op that computes their gradients. Casts the gradients to the type of x, which matrix products
// need.
ValueId emit_d_class_logits(Graph& graph, const Op& op) {
  const ValueId d_logits =
      emit(graph, class_sums_bwd_op(),
           {LinearLossOp::emit_logits(graph, op), op.inputs[SumsIn::kLabels], op.inputs[SumsIn::kDSums]},
           class_sums_attributes(op.attributes));
  return LinearLossOp::emit_narrowed(graph, op, d_logits);
}

class LinearClassSums final : public OpSchema, private LinearClassSumsOp {
 public:
  std::string_view name() const override { return "linear_class_sums"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kContraction; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_class_rows(op);
    return {class_sums_type(op.input(kX).type.dtype, op.in_shape(kX)[0], op.attributes())};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return LinearLossOp::product_flops(op, bucket) + 15.0 * LinearLossOp::num_logits(op, bucket);
  }
  // In addition to the operands, each chunk of rows writes its logits to scratch memory once and reads them once.
  double bytes(const OpView& op, const Bucket& bucket) const override {
    return OpSchema::bytes(op, bucket) + LinearLossOp::bytes_of_later_chunks(op, bucket) +
           2.0 * LinearLossOp::logit_bytes(op, bucket);
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail>) const override {
    return {op.out_shape(kSums).has_token_rows() ? Tail::kZero : Tail::kNone};
  }
  void gradient(GradientContext& context) const override {
    const Op op = context.op();
    const ValueId d_sums = context.d_output(kSums);
    if (d_sums == kNoValue) return;
    Graph& graph = context.graph();
    ValueIds inputs = op.inputs;
    inputs.push_back(d_sums);
    if (context.wants(kX)) {
      const ValueId d_x = emit(graph, linear_class_sums_bwd_op(), inputs, op.attributes,
                               "d_" + graph.value(op.inputs[kX]).name);
      context.set(kX, emit_tensor_sum(graph, d_x, op.attributes.integer(kTensorRanks)));
    }
    if (!context.wants(kW) && !context.wants(kBias)) return;
    std::vector<std::string> names{"d_" + graph.value(op.inputs[kW]).name};
    if (op.inputs[kBias] != kNoValue) names.push_back("d_" + graph.value(op.inputs[kBias]).name);
    inputs.insert(inputs.end(), {kNoValue, kNoValue, kNoValue});
    const std::vector<ValueId> out =
        emit_all(graph, linear_class_sums_grad_op(), std::move(inputs), op.attributes, names);
    for (int i = 1; i <= static_cast<int>(out.size()); ++i) {
      if (context.wants(i)) context.set(i, out[static_cast<size_t>(i - 1)]);
    }
  }
  std::vector<ValueId> decompose(Graph& graph, const Op& op) const override {
    return {emit(graph, class_sums_op(), {LinearLossOp::emit_logits(graph, op), op.inputs[kLabels]},
                 class_sums_attributes(op.attributes))};
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kX, "x"), InputOperand::required(kW, "w"),
                                      InputOperand::optional(kBias, "bias"),
                                      InputOperand::required(kLabels, "labels")};
  static constexpr std::array kOutputs{OutputOperand::required(kSums, "sums")};
};

class LinearClassSumsBwd final : public OpSchema, private LinearClassSumsBwdOp {
 public:
  std::string_view name() const override { return "linear_class_sums_bwd"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kContraction; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_sum_gradients(op);
    return {op.input(kX).type};
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail>) const override {
    return {op.out_shape(kDX).has_token_rows() ? Tail::kZero : Tail::kNone};
  }
  // Counts the operations of two matrix products, which compute the logits again and d_x, and the element-wise operations on the logits.
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 2.0 * LinearLossOp::product_flops(op, bucket) + 15.0 * LinearLossOp::num_logits(op, bucket);
  }
  // For each chunk of rows, the op reads the weight twice. It writes the logits, reads them, overwrites them by their gradients, and reads
  // the gradients.
  double bytes(const OpView& op, const Bucket& bucket) const override {
    return OpSchema::bytes(op, bucket) + static_cast<double>(op.input(kW).bytes(bucket)) +
           2.0 * LinearLossOp::bytes_of_later_chunks(op, bucket) +
           4.0 * LinearLossOp::logit_bytes(op, bucket);
  }
  std::vector<ValueId> decompose(Graph& graph, const Op& op) const override {
    return {emit_matmul(graph, emit_d_class_logits(graph, op), MatmulTranspose::kNo, op.inputs[kW],
                        MatmulTranspose::kNo)};
  }

 private:
  static constexpr std::array kInputs{
      InputOperand::required(kX, "x"), InputOperand::required(kW, "w"), InputOperand::optional(kBias, "bias"),
      InputOperand::required(kLabels, "labels"), InputOperand::required(kDSums, "d_sums")};
  static constexpr std::array kOutputs{OutputOperand::required(kDX, "d_x")};
};

// The inputs of the two ops that compute gradients of parameters. `Operands` is the op's struct in ops.h, whose enumerators are the
// positions of its operands.
template <typename Operands>
constexpr auto class_gradient_inputs() {
  return std::array{InputOperand::required(Operands::kX, "x"),
                    InputOperand::required(Operands::kW, "w"),
                    InputOperand::optional(Operands::kBias, "bias"),
                    InputOperand::required(Operands::kLabels, "labels"),
                    InputOperand::required(Operands::kDSums, "d_sums"),
                    InputOperand::into(Operands::kIntoW, "into_w", Operands::kDW),
                    InputOperand::into(Operands::kIntoBias, "into_bias", Operands::kDBias),
                    InputOperand::accumulate_flag(Operands::kFlag)};
}

class LinearClassSumsGrad final : public OpSchema, private LinearClassSumsGradOp {
 public:
  std::string_view name() const override { return "linear_class_sums_grad"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kContraction; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_sum_gradients(op);
    return LinearLossOp::parameter_gradient_types(op, kIntoW);
  }
  // Counts the operations of two matrix products, which compute the logits again and d_w, and the element-wise operations on the logits.
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 2.0 * LinearLossOp::product_flops(op, bucket) + 16.0 * LinearLossOp::num_logits(op, bucket);
  }
  // For each chunk of rows, the op reads the weight; from the second chunk on it also reads and writes the gradient of the weight. It
  // writes the logits, reads them, overwrites them by their gradients, and reads the gradients twice.
  double bytes(const OpView& op, const Bucket& bucket) const override {
    return OpSchema::bytes(op, bucket) + 3.0 * LinearLossOp::bytes_of_later_chunks(op, bucket) +
           5.0 * LinearLossOp::logit_bytes(op, bucket);
  }
  std::vector<ValueId> decompose(Graph& graph, const Op& op) const override {
    return LinearLossOp::emit_parameter_gradients(graph, op, emit_d_class_logits(graph, op), kIntoW, kDW);
  }

 private:
  static constexpr auto kInputs = class_gradient_inputs<LinearClassSumsGradOp>();
  static constexpr std::array kOutputs{OutputOperand::required(kDW, "d_w").without_memory(),
                                       OutputOperand::conditional(kDBias, "d_bias").without_memory()};
};

class LinearClassSumsGradients final : public OpSchema, private LinearClassSumsGradientsOp {
 public:
  std::string_view name() const override { return "linear_class_sums_gradients"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kContraction; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_sum_gradients(op);
    std::vector<ValueType> types = LinearLossOp::parameter_gradient_types(op, kIntoW);
    types.insert(types.begin(), op.input(kX).type);
    return types;
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail>) const override {
    std::vector<Tail> tails(static_cast<size_t>(op.num_outputs()), Tail::kNone);
    if (op.out_shape(kDX).has_token_rows()) tails[kDX] = Tail::kZero;
    return tails;
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 3.0 * LinearLossOp::product_flops(op, bucket) + 16.0 * LinearLossOp::num_logits(op, bucket);
  }
  // For each chunk of rows, the op writes the logits, reads them twice, overwrites them by their gradients, and reads the gradients once
  // per result. It reads the weight for the logits and for d_x; from the second chunk on it also reads and writes d_w.
  double bytes(const OpView& op, const Bucket& bucket) const override {
    return OpSchema::bytes(op, bucket) + static_cast<double>(op.input(kW).bytes(bucket)) +
           4.0 * LinearLossOp::bytes_of_later_chunks(op, bucket) +
           6.0 * LinearLossOp::logit_bytes(op, bucket);
  }
  std::vector<ValueId> decompose(Graph& graph, const Op& op) const override {
    const ValueId d_logits = emit_d_class_logits(graph, op);
    std::vector<ValueId> out = LinearLossOp::emit_parameter_gradients(graph, op, d_logits, kIntoW, kDW);
    out.insert(out.begin(),
               emit_matmul(graph, d_logits, MatmulTranspose::kNo, op.inputs[kW], MatmulTranspose::kNo));
    return out;
  }

 private:
  static constexpr auto kInputs = class_gradient_inputs<LinearClassSumsGradientsOp>();
  static constexpr std::array kOutputs{OutputOperand::required(kDX, "d_x").without_memory(),
                                       OutputOperand::required(kDW, "d_w").without_memory(),
                                       OutputOperand::conditional(kDBias, "d_bias").without_memory()};
};

}  // namespace

const OpSchema& linear_class_sums_op() {
  static const LinearClassSums op;
  return op;
}
const OpSchema& linear_class_sums_bwd_op() {
  static const LinearClassSumsBwd op;
  return op;
}
const OpSchema& linear_class_sums_grad_op() {
  static const LinearClassSumsGrad op;
  return op;
}
const OpSchema& linear_class_sums_gradients_op() {
  static const LinearClassSumsGradients op;
  return op;
}

}  // namespace plimsoll
