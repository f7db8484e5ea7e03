// The loss over classes that the ranks of a tensor-parallel group divide (kernels/loss/class_sums.h). Each rank has the logits of its
// own classes; an all_reduce between the first two ops adds up the sums of all ranks.
//
// class_sums(logits_BK, labels_B) {tensor_ranks, classes, smoothing, counts_correct?}: sums_BS, S numbers per row (base/class_columns.h).
// The ranks together have {classes} classes; rank r has K classes from class r K on, and columns after the last class are padding.
//
// class_sums_loss(sums, labels, denominator) {the same attributes, rank_classes, z_loss?}: the loss of softmax_cross_entropy
// over all classes, and as a second output the z-loss or, with {counts_correct}, the number of correct predictions.
//
// class_sums_loss_bwd(sums, labels, denominator, d_loss): d_sums. class_sums_bwd(logits, labels, d_sums): d_logits of the rank's own
// classes, zero for padding.
//
// Rows without a label, such as the rows after the last token of a batch, have sums and gradients of zero.
#include <array>
#include <string>
#include <utility>

#include "graph/ops/ops.h"
#include "graph/ops/slice.h"
#include "graph/ops/sum_type.h"

namespace plimsoll {
namespace {

bool counts_correct_of(const Attributes& attributes) {
  return attributes.integer_or("counts_correct", 0) != 0;
}

// Returns the content of the tail rows (rows after the last token of a batch) of an output with
// one row per label: zeros. If the rows are sequences, there are no tail rows.
Tail tail_of_labels(const Shape& shape) {
  return shape.has_token_rows() ? Tail::kZero : Tail::kNone;
}

class ClassSums final : public OpSchema, private ClassSumsOp {
 public:
  std::string_view name() const override { return "class_sums"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kNormalization; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kLogits).rank() == 2 && op.in_shape(kLabels).rank() == 1 &&
                        op.in_shape(kLogits)[0] == op.in_shape(kLabels)[0] &&
                        op.input(kLabels).type.dtype == DType::kI32,
                    op, "logits[B,K], labels i32[B]");
    return {class_sums_type(op.input(kLogits).type.dtype, op.in_shape(kLabels)[0], op.attributes())};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 15.0 * static_cast<double>(op.in_shape(kLogits).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail>) const override {
    return {tail_of_labels(op.out_shape(kSums))};
  }
  void gradient(GradientContext& context) const override {
    const Op op = context.op();
    const ValueId d_sums = context.d_output(kSums);
    if (d_sums == kNoValue || !context.wants(kLogits)) return;
    context.set(kLogits, emit(context.graph(), class_sums_bwd_op(),
                              {op.inputs[kLogits], op.inputs[kLabels], d_sums}, op.attributes, "d_logits"));
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kLogits, "logits"),
                                      InputOperand::required(kLabels, "labels")};
  static constexpr std::array kOutputs{OutputOperand::required(kSums, "sums")};
};

class ClassSumsBwd final : public OpSchema, private ClassSumsBwdOp {
 public:
  std::string_view name() const override { return "class_sums_bwd"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kNormalization; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(
        op.in_shape(kDSums) == Shape{op.in_shape(kLogits)[0], class_columns_of(op.attributes()).size()}, op,
        "logits[B,K], labels i32[B], d_sums[B,S]");
    return {op.input(kLogits).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 15.0 * static_cast<double>(op.in_shape(kLogits).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail>) const override {
    return {tail_of_labels(op.out_shape(kDLogits))};
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {kLogits}; }

 private:
  static constexpr std::array kInputs{InputOperand::required(kLogits, "logits"),
                                      InputOperand::required(kLabels, "labels"),
                                      InputOperand::required(kDSums, "d_sums")};
  static constexpr std::array kOutputs{OutputOperand::required(kDLogits, "d_logits")};
};

class ClassSumsLoss final : public OpSchema, private ClassSumsLossOp {
 public:
  std::string_view name() const override { return "class_sums_loss"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kNormalization; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    const Shape& sums = op.in_shape(kSums);
    expect_operands(sums == Shape{op.in_shape(kLabels)[0], class_columns_of(op.attributes()).size()}, op,
                    "sums[B,S], labels i32[B], denominator[1]");
    const bool has_z_loss = z_coefficient_of(op.attributes()) > 0.0;
    const bool counts = counts_correct_of(op.attributes());
    PLIMSOLL_CHECK(!has_z_loss || !counts,
                   "the op cannot both count correct predictions, as evaluations do, and compute a z-loss, "
                   "as training does");
    std::vector<ValueType> types{{op.input(kSums).type.dtype, Shape{1}}};
    if (has_z_loss) types.push_back(types.front());
    if (counts) types.push_back({DType::kI32, Shape{1}});
    return types;
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 15.0 * static_cast<double>(op.in_shape(kSums).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail>) const override {
    return std::vector<Tail>(static_cast<size_t>(op.num_outputs()), Tail::kNone);
  }
  void gradient(GradientContext& context) const override {
    const Op op = context.op();
    const ValueId d_loss = context.d_output(kLoss);
    if (d_loss == kNoValue || !context.wants(kSums)) return;
    ValueIds inputs = op.inputs;
    inputs.push_back(d_loss);
    context.set(kSums, emit(context.graph(), class_sums_loss_bwd_op(), std::move(inputs), op.attributes,
                            "d_class_sums"));
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kSums, "sums"),
                                      InputOperand::required(kLabels, "labels"),
                                      InputOperand::required(kDenominator, "denominator")};
  static constexpr std::array kOutputs{OutputOperand::required(kLoss, "loss"),
                                       OutputOperand::conditional(kNumCorrect, "num_correct or z_loss")};
};

class ClassSumsLossBwd final : public OpSchema, private ClassSumsLossBwdOp {
 public:
  std::string_view name() const override { return "class_sums_loss_bwd"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kNormalization; }
  std::vector<ValueType> output_types(const OpView& op) const override { return {op.input(kSums).type}; }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 15.0 * static_cast<double>(op.in_shape(kSums).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail>) const override {
    return {tail_of_labels(op.out_shape(kDSums))};
  }

 private:
  static constexpr std::array kInputs{
      InputOperand::required(kSums, "sums"), InputOperand::required(kLabels, "labels"),
      InputOperand::required(kDenominator, "denominator"), InputOperand::required(kDLoss, "d_loss")};
  static constexpr std::array kOutputs{OutputOperand::required(kDSums, "d_sums")};
};

}  // namespace

ClassColumns class_columns_of(const Attributes& attributes) {
  return {.ranks = attributes.integer(kTensorRanks),
          .smooths = attributes.number("smoothing") > 0.0,
          .counts = counts_correct_of(attributes)};
}

ValueType class_sums_type(DType logits, const Dim& rows, const Attributes& attributes) {
  return {sum_dtype(logits), Shape{rows, class_columns_of(attributes).size()}};
}

const OpSchema& class_sums_op() {
  static const ClassSums op;
  return op;
}
const OpSchema& class_sums_bwd_op() {
  static const ClassSumsBwd op;
  return op;
}
const OpSchema& class_sums_loss_op() {
  static const ClassSumsLoss op;
  return op;
}
const OpSchema& class_sums_loss_bwd_op() {
  static const ClassSumsLossBwd op;
  return op;
}

}  // namespace plimsoll
