// global_norm(g_0, g_1, ..., loss?) {with_loss, names_bad}: norm_1 = sqrt(sum of squares of all elements); finite_1 =
// 1 if all of them and the loss are finite, else 0; first_bad_1, with {names_bad}: the number of the first gradient
// that is not finite, counted from 0, or -1.
//
// With {ranks, axis?}, several ranks compute the norm together. On each rank the op reads the rank's slice of each gradient (RankSlices),
// the rank's part of a gradient that a tensor-parallel group divides (Value::split), or the gradients of the rank's pipeline stage. The
// outputs norm and first_bad then have one element per rank of the axis, and the op writes only the element of its own rank. With {ranks,
// tensor_ranks}, both data-parallel and tensor-parallel ranks divide the gradients. If a tensor-parallel rank stores a part of a gradient,
// the op reads its data-parallel slice of this part. If each tensor-parallel rank stores the complete gradient, the op reads one of
// {tensor_ranks} parts of its data-parallel slice.
//
// clip_coefficient(norm, scale?) {max_norm}: min(1, max_norm / (norm + 1e-6)), or 1 if max_norm is 0
// (torch.nn.utils.clip_grad_norm_). With a loss scale, norm is the norm of the scaled gradients, and their factor is
// min(1, max_norm / (norm / scale + 1e-6)) / scale.
#include <array>

#include "graph/ops/ops.h"
#include "graph/ops/slice.h"

namespace plimsoll {
namespace {

DType scalar_type(const OpView& op) {
  return op.input(GlobalNormOp::kGradient).type.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
}

class GlobalNorm final : public OpSchema, private GlobalNormOp {
 public:
  std::string_view name() const override { return "global_norm"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kNormalization; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    const size_t num_gradients = gradients_of_norm(op.op).size();
    expect_operands(num_gradients >= 1 && num_gradients <= op.op.inputs.size(), op, "at least one gradient");
    const ValueType scalar{scalar_type(op), Shape{1}};
    const std::optional<RankSlices> slices = rank_slices_of(op.attributes());
    const Shape per_rank{slices ? slices->ranks : 1};
    if (op.op.attributes.integer_or("names_bad", 0) == 0) return {{scalar.dtype, per_rank}, scalar};
    return {{scalar.dtype, per_rank}, scalar, {DType::kI64, per_rank}};
  }
  int input_row(const OpView& op, int input) const override {
    return input < static_cast<int>(gradients_of_norm(op.op).size()) ? kGradient : kLoss;
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    const bool is_sliced = mesh_axis_of(op.attributes()) != MeshAxis::kPipeline;
    const std::optional<RankSlices> slices = is_sliced ? rank_slices_of(op.attributes()) : std::nullopt;
    double elements = 0;
    for (int i = 0; i < op.num_inputs(); ++i) {
      const int64_t whole = op.in_shape(i).elements(bucket);
      elements += static_cast<double>(slices ? slices->size(whole) : whole);
    }
    return 2.0 * elements;
  }

 private:
  static constexpr std::array kInputs{InputOperand::repeated(kGradient, "gradient"),
                                      InputOperand::trailing(kLoss, "loss")};
  static constexpr std::array kOutputs{OutputOperand::required(kNorm, "norm"),
                                       OutputOperand::required(kFinite, "finite"),
                                       OutputOperand::conditional(kFirstBad, "first_bad")};
};

class ClipCoefficient final : public OpSchema, private ClipCoefficientOp {
 public:
  std::string_view name() const override { return "clip_coefficient"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> output_types(const OpView& op) const override { return {op.input(kNorm).type}; }
  double flops(const OpView&, const Bucket&) const override { return 3; }

 private:
  static constexpr std::array kInputs{InputOperand::required(kNorm, "norm"),
                                      InputOperand::trailing(kScale, "scale")};
  static constexpr std::array kOutputs{OutputOperand::required(kCoefficient, "coefficient")};
};

}  // namespace

std::span<const ValueId> gradients_of_norm(const Op& norm) {
  const std::span<const ValueId> inputs = norm.inputs;
  const bool with_loss = norm.attributes.integer_or("with_loss", 0) != 0;
  return inputs.first(inputs.size() - (with_loss && !inputs.empty() ? 1 : 0));
}

const OpSchema& global_norm_op() {
  static const GlobalNorm op;
  return op;
}
const OpSchema& clip_coefficient_op() {
  static const ClipCoefficient op;
  return op;
}

}  // namespace plimsoll
