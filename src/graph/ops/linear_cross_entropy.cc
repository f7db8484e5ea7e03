// linear_cross_entropy(x_BH, w_KH, bias_K?, labels_B, denominator) {smoothing, chunk_rows, counts_correct}: the loss of a classifier,
// computed together with the classifier's last matrix product: softmax_cross_entropy(x w^T + bias). The logits of only chunk_rows rows
// exist at a time, in scratch memory; the backward ops recompute the logits of each chunk. Logits are rounded to the type of x, as a
// separate matrix product would round them, and the loss is computed in fp32 at least. If {counts_correct} is 1, a second output is
// count_correct(logits, labels). With {z_loss}, as for softmax_cross_entropy, the second output is the z-loss instead.
//
// linear_cross_entropy_bwd(x, w, bias?, labels, denominator, d_loss): d_x_BH.
//
// linear_cross_entropy_grad(the inputs of linear_cross_entropy_bwd, into_w?, into_bias?, flag?): d_w_KH and d_bias_K. Their sums over the
// chunks are kept in the types of these outputs; d_w has the type {gradient_dtype}, or that of w. This op is separate from
// linear_cross_entropy_bwd, although both recompute the logits, because the gradient of the weight is larger than the logits if B < H: a
// separate op can run when the activations are no longer live.
//
// linear_cross_entropy_with_gradients(the inputs of linear_cross_entropy_grad) {computes_d_x, computes_d_w}: loss, z-loss, d_x, d_w and
// d_bias, from logits that are computed once. The pass loss_with_gradients emits it. An output that no op reads takes no memory and is not
// computed. The attributes tell the estimate of the op's time whether d_x and d_w are computed.
//
// Rows are sequences or tokens. Tail rows (rows after the last token, which the batch does not use) have no label, so that the gradients of
// their logits are zero: d_x is zero there, and they add nothing to d_w and d_bias.
#include <algorithm>
#include <array>

#include "graph/ops/linear_loss.h"
#include "graph/ops/ops.h"
#include "graph/ops/sum_type.h"

namespace plimsoll {
namespace {

// The backward ops have the inputs of the forward op at the same positions, and d_loss after them.
using In = LinearCrossEntropyBwdOp;

void expect_linear(const OpView& op, std::string_view rule) {
  const bool ranks = op.in_shape(In::kX).rank() == 2 && op.in_shape(In::kW).rank() == 2 &&
                     op.in_shape(In::kLabels).rank() == 1;
  expect_operands(ranks && op.in_shape(In::kX)[1] == op.in_shape(In::kW)[1] &&
                      op.in_shape(In::kX)[0] == op.in_shape(In::kLabels)[0] &&
                      op.input(In::kLabels).type.dtype == DType::kI32,
                  op, rule);
  expect_operands(!op.has_input(In::kBias) || (op.in_shape(In::kBias).rank() == 1 &&
                                               op.in_shape(In::kBias)[0] == op.in_shape(In::kW)[0]),
                  op, "bias[K]");
  PLIMSOLL_CHECK(op.attributes().integer("chunk_rows") >= 1,
                 "the attribute chunk_rows must be at least 1, but is {}",
                 op.attributes().integer("chunk_rows"));
}

class LinearCrossEntropy final : public OpSchema, private LinearCrossEntropyOp {
 public:
  std::string_view name() const override { return "linear_cross_entropy"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kContraction; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_linear(op, "x[B,H], w[K,H], bias, labels i32[B], denominator[1]");
    std::vector<ValueType> types{{sum_dtype(op.input(kX).type.dtype), Shape{1}}};
    const bool has_z_loss = z_coefficient_of(op.attributes()) > 0.0;
    PLIMSOLL_CHECK(!has_z_loss || !counts_correct(op.attributes()),
                   "the op cannot both count correct predictions, as evaluations do, and compute a z-loss, "
                   "as training does");
    if (counts_correct(op.attributes())) types.push_back({DType::kI32, Shape{1}});
    if (has_z_loss) types.push_back(types.front());
    return types;
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return LinearLossOp::product_flops(op, bucket) + 15.0 * LinearLossOp::num_logits(op, bucket);
  }
  // In addition to the operands, each chunk of rows writes its logits to scratch memory once and reads them once.
  double bytes(const OpView& op, const Bucket& bucket) const override {
    return OpSchema::bytes(op, bucket) + LinearLossOp::bytes_of_later_chunks(op, bucket) +
           2.0 * LinearLossOp::logit_bytes(op, bucket);
  }
  double bytes_between_products(const OpView& op, const Bucket& bucket) const override {
    return LinearLossOp::logit_bytes(op, bucket);
  }
  void gradient(GradientContext& context) const override {
    const Op op = context.op();
    const ValueId d_loss = context.d_output(kLoss);
    if (d_loss == kNoValue) return;
    Graph& graph = context.graph();
    ValueIds inputs = op.inputs;
    inputs.push_back(d_loss);
    if (context.wants(kX)) {
      context.set(kX, emit(graph, linear_cross_entropy_bwd_op(), inputs, op.attributes,
                           "d_" + graph.value(op.inputs[kX]).name));
    }
    if (!context.wants(kW) && !context.wants(kBias)) return;
    std::vector<std::string> names{"d_" + graph.value(op.inputs[kW]).name};
    if (op.inputs[kBias] != kNoValue) names.push_back("d_" + graph.value(op.inputs[kBias]).name);
    inputs.insert(inputs.end(), {kNoValue, kNoValue, kNoValue});
    const std::vector<ValueId> out =
        emit_all(graph, linear_cross_entropy_grad_op(), std::move(inputs), op.attributes, names);
    for (int i = 1; i <= static_cast<int>(out.size()); ++i) {
      if (context.wants(i)) context.set(i, out[static_cast<size_t>(i - 1)]);
    }
  }
  std::vector<ValueId> decompose(Graph& graph, const Op& op) const override {
    const ValueId logits = LinearLossOp::emit_logits(graph, op);
    std::vector<ValueId> out =
        emit_all(graph, softmax_cross_entropy_op(), {logits, op.inputs[kLabels], op.inputs[kDenominator]},
                 class_loss_attributes(op.attributes));
    if (counts_correct(op.attributes))
      out.push_back(emit(graph, count_correct_op(), {logits, op.inputs[kLabels]}));
    return out;
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail>) const override {
    return std::vector<Tail>(static_cast<size_t>(op.num_outputs()), Tail::kNone);
  }

 private:
  static bool counts_correct(const Attributes& attributes) {
    return attributes.has("counts_correct") && attributes.integer("counts_correct") != 0;
  }

  static constexpr std::array kInputs{
      InputOperand::required(kX, "x"), InputOperand::required(kW, "w"), InputOperand::optional(kBias, "bias"),
      InputOperand::required(kLabels, "labels"), InputOperand::required(kDenominator, "denominator")};
  static constexpr std::array kOutputs{OutputOperand::required(kLoss, "loss"),
                                       OutputOperand::conditional(kNumCorrect, "num_correct or z_loss")};
};

// Computes the logits again and emits the op that computes their gradients. Casts the gradients to the type of x, which matrix products
// need.
ValueId emit_d_logits(Graph& graph, const Op& op) {
  const ValueId d_logits = emit(graph, softmax_cross_entropy_bwd_op(),
                                {LinearLossOp::emit_logits(graph, op), op.inputs[In::kLabels],
                                 op.inputs[In::kDenominator], op.inputs[In::kDLoss]},
                                class_loss_attributes(op.attributes));
  return LinearLossOp::emit_narrowed(graph, op, d_logits);
}

class LinearCrossEntropyBwd final : public OpSchema, private LinearCrossEntropyBwdOp {
 public:
  std::string_view name() const override { return "linear_cross_entropy_bwd"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kContraction; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.has_input(kDLoss), op, "the inputs of linear_cross_entropy and d_loss[1]");
    expect_linear(op, "x[B,H], w[K,H], bias, labels i32[B], denominator[1]");
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
  double bytes_between_products(const OpView& op, const Bucket& bucket) const override {
    return 2.0 * LinearLossOp::logit_bytes(op, bucket);
  }
  std::vector<ValueId> decompose(Graph& graph, const Op& op) const override {
    return {emit_matmul(graph, emit_d_logits(graph, op), MatmulTranspose::kNo, op.inputs[kW],
                        MatmulTranspose::kNo)};
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kX, "x"),
                                      InputOperand::required(kW, "w"),
                                      InputOperand::optional(kBias, "bias"),
                                      InputOperand::required(kLabels, "labels"),
                                      InputOperand::required(kDenominator, "denominator"),
                                      InputOperand::required(kDLoss, "d_loss")};
  static constexpr std::array kOutputs{OutputOperand::required(kDX, "d_x")};
};

// The inputs of the two ops that compute gradients of parameters. `Operands` is the op's struct in ops.h, whose enumerators are the
// positions of its operands.
template <typename Operands>
constexpr auto gradient_inputs() {
  return std::array{InputOperand::required(Operands::kX, "x"),
                    InputOperand::required(Operands::kW, "w"),
                    InputOperand::optional(Operands::kBias, "bias"),
                    InputOperand::required(Operands::kLabels, "labels"),
                    InputOperand::required(Operands::kDenominator, "denominator"),
                    InputOperand::required(Operands::kDLoss, "d_loss"),
                    InputOperand::into(Operands::kIntoW, "into_w", Operands::kDW),
                    InputOperand::into(Operands::kIntoBias, "into_bias", Operands::kDBias),
                    InputOperand::accumulate_flag(Operands::kFlag)};
}

// Returns the types of d_w and, with a bias, of d_bias. Checks the inputs of `op`, which must be those of linear_cross_entropy_grad.
std::vector<ValueType> parameter_gradient_types(const OpView& op) {
  using Grad = LinearCrossEntropyGradOp;
  expect_operands(op.has_input(Grad::kDLoss), op,
                  "the inputs of linear_cross_entropy, d_loss[1], into_w, into_bias, flag");
  expect_linear(op, "x[B,H], w[K,H], bias, labels i32[B], denominator[1]");
  return LinearLossOp::parameter_gradient_types(op, Grad::kIntoW);
}

class LinearCrossEntropyGrad final : public OpSchema, private LinearCrossEntropyGradOp {
 public:
  std::string_view name() const override { return "linear_cross_entropy_grad"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kContraction; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    return parameter_gradient_types(op);
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
  double bytes_between_products(const OpView& op, const Bucket& bucket) const override {
    return 2.0 * LinearLossOp::logit_bytes(op, bucket);
  }
  std::vector<ValueId> decompose(Graph& graph, const Op& op) const override {
    return LinearLossOp::emit_parameter_gradients(graph, op, emit_d_logits(graph, op), kIntoW, kDW);
  }

 private:
  static constexpr auto kInputs = gradient_inputs<LinearCrossEntropyGradOp>();
  static constexpr std::array kOutputs{OutputOperand::required(kDW, "d_w").without_memory(),
                                       OutputOperand::conditional(kDBias, "d_bias").without_memory()};
};

class LinearCrossEntropyWithGradients final : public OpSchema, private LinearCrossEntropyWithGradientsOp {
 public:
  std::string_view name() const override { return "linear_cross_entropy_with_gradients"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kContraction; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    std::vector<ValueType> types = parameter_gradient_types(op);
    const ValueType loss{sum_dtype(op.input(kX).type.dtype), Shape{1}};
    types.insert(types.begin(), {loss, loss, op.input(kX).type});
    return types;
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail>) const override {
    std::vector<Tail> tails(static_cast<size_t>(op.num_outputs()), Tail::kNone);
    if (op.out_shape(kDX).has_token_rows()) tails[kDX] = Tail::kZero;
    return tails;
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return (1.0 + num_gradients(op)) * LinearLossOp::product_flops(op, bucket) +
           16.0 * LinearLossOp::num_logits(op, bucket);
  }
  // For each chunk of rows, the op writes the logits, reads them twice, overwrites them by their gradients, and reads the gradients once
  // per result. It reads the weight for the logits and for d_x; from the second chunk on it also reads and writes d_w.
  double bytes(const OpView& op, const Bucket& bucket) const override {
    const double of_d_x = op.attributes().integer("computes_d_x") != 0
                              ? static_cast<double>(op.input(kW).bytes(bucket)) +
                                    LinearLossOp::bytes_of_later_chunks(op, bucket)
                              : 0.0;
    const double of_d_w = op.attributes().integer("computes_d_w") != 0
                              ? 2.0 * LinearLossOp::bytes_of_later_chunks(op, bucket)
                              : 0.0;
    return OpSchema::bytes(op, bucket) + LinearLossOp::bytes_of_later_chunks(op, bucket) + of_d_x + of_d_w +
           (4.0 + num_gradients(op)) * LinearLossOp::logit_bytes(op, bucket);
  }
  double bytes_between_products(const OpView& op, const Bucket& bucket) const override {
    return 3.0 * LinearLossOp::logit_bytes(op, bucket);
  }
  std::vector<ValueId> decompose(Graph& graph, const Op& op) const override {
    const std::vector<ValueId> losses =
        emit_all(graph, softmax_cross_entropy_op(),
                 {LinearLossOp::emit_logits(graph, op), op.inputs[kLabels], op.inputs[kDenominator]},
                 class_loss_attributes(op.attributes));
    const ValueId d_logits = emit_d_logits(graph, op);
    std::vector<ValueId> out = LinearLossOp::emit_parameter_gradients(graph, op, d_logits, kIntoW, kDW);
    const ValueId d_x =
        emit_matmul(graph, d_logits, MatmulTranspose::kNo, op.inputs[kW], MatmulTranspose::kNo);
    out.insert(
        out.begin(),
        {losses.front(), losses.back(),
         d_x});  // without z-loss, `losses` contains the loss only, and no op reads the second of these outputs
    return out;
  }

 private:
  static double num_gradients(const OpView& op) {
    return static_cast<double>(op.attributes().integer("computes_d_x") +
                               op.attributes().integer("computes_d_w"));
  }

  static constexpr auto kInputs = gradient_inputs<LinearCrossEntropyWithGradientsOp>();
  static constexpr std::array kOutputs{OutputOperand::required(kLoss, "loss"),
                                       OutputOperand::required(kZLoss, "z_loss").without_memory(),
                                       OutputOperand::required(kDX, "d_x").without_memory(),
                                       OutputOperand::required(kDW, "d_w").without_memory(),
                                       OutputOperand::conditional(kDBias, "d_bias").without_memory()};
};

}  // namespace

const OpSchema& linear_cross_entropy_op() {
  static const LinearCrossEntropy op;
  return op;
}
const OpSchema& linear_cross_entropy_bwd_op() {
  static const LinearCrossEntropyBwd op;
  return op;
}
const OpSchema& linear_cross_entropy_grad_op() {
  static const LinearCrossEntropyGrad op;
  return op;
}
const OpSchema& linear_cross_entropy_with_gradients_op() {
  static const LinearCrossEntropyWithGradients op;
  return op;
}

}  // namespace plimsoll
