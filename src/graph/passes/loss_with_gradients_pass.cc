#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "graph/ops/ops.h"
#include "graph/passes/pass.h"
#include "graph/passes/rewriter.h"

namespace plimsoll {
namespace {

// Runs on a differentiated graph. The fused op takes the place of the first op that computes a gradient of the loss.
//
// An own op for the gradient of the weight runs when the activations are no longer live; the fused op computes it before. It
// is worth that memory only if there are at least as many rows as columns: the gradient is then not larger than the logits, and
// two products of all rows are saved. A gradient that is added to a buffer takes no memory of its own.
class LossWithGradients {
 public:
  LossWithGradients(Graph& graph, const Bucket& bucket) : graph_(graph), rewriter_(graph), bucket_(bucket) {}

  void run() {
    for (uint32_t i = 0; i < rewriter_.num_ops(); ++i) {
      // A second output counts correct predictions, which the fused op does not.
      if (rewriter_.is(i, linear_cross_entropy_op()) && rewriter_.op(i).outputs.size() == 1) fuse(i);
    }
    rewriter_.apply();
  }

 private:
  using Fused = LinearCrossEntropyWithGradientsOp;
  using Bwd = LinearCrossEntropyBwdOp;
  using Grad = LinearCrossEntropyGradOp;

  // Returns the position of the op with this definition that computes a gradient of the loss.
  std::optional<uint32_t> find_gradient(const Op& loss, const OpSchema& def) const {
    for (uint32_t i = 0; i < rewriter_.num_ops(); ++i) {
      if (!rewriter_.is(i, def)) continue;
      const std::span<const ValueId> inputs = rewriter_.op(i).inputs;
      if (std::ranges::equal(loss.inputs, inputs.first(loss.inputs.size()))) return i;
    }
    return std::nullopt;
  }

  bool exists_before(ValueId id, uint32_t at) const {
    return id == kNoValue || graph_.value(id).producer == kNoOp ||
           static_cast<uint32_t>(graph_.value(id).producer) < at;
  }
  // The gradient of the loss is a `fill` of the loss's type, which does not read its value.
  bool takes_type_only(const Op& op) const { return op.def == &fill_op(); }
  bool is_read_before(ValueId id, uint32_t at) const {
    return std::ranges::any_of(std::span(graph_.ops()).first(at), [&](const Op& op) {
      return !takes_type_only(op) && std::ranges::count(op.inputs, id) > 0;
    });
  }
  // Lets the ops before `at` that take the type of `id` take that of `instead`.
  void take_type_of(ValueId instead, ValueId id, uint32_t at) {
    for (Op& op : std::span(graph_.ops()).first(at)) {
      if (takes_type_only(op)) std::ranges::replace(op.inputs, id, instead);
    }
  }

  // Returns the output of an op, or a new value of this type if there is no such op.
  ValueId output_or_new(const std::optional<uint32_t>& op, int output, const ValueType& type) {
    if (op) return rewriter_.op(*op).outputs[static_cast<size_t>(output)];
    return graph_.add_value(graph_.unique_name("unread"), type, Storage::kTransient);
  }

  void fuse(uint32_t at) {
    const Op loss = rewriter_.op(at);
    const auto bwd = find_gradient(loss, linear_cross_entropy_bwd_op());
    const auto grad = find_gradient(loss, linear_cross_entropy_grad_op());
    if (!bwd && !grad) return;
    const Shape& x = graph_.value(loss.inputs[LinearCrossEntropyOp::kX]).type.shape;
    const bool needs_memory = grad && rewriter_.op(*grad).inputs[Grad::kIntoW] == kNoValue;
    if (needs_memory && x[0].at(bucket_) < x[1].at(bucket_)) return;
    const uint32_t place = std::min(bwd.value_or(rewriter_.num_ops()), grad.value_or(rewriter_.num_ops()));
    std::vector<ValueId> inputs = loss.inputs;
    inputs.push_back(rewriter_.op(place).inputs[Bwd::kDLoss]);
    for (const int input : {Grad::kIntoW, Grad::kIntoBias, Grad::kFlag})
      inputs.push_back(grad ? rewriter_.op(*grad).inputs[static_cast<size_t>(input)] : kNoValue);
    const ValueId result = loss.outputs[LinearCrossEntropyOp::kLoss];
    const ValueId denominator = loss.inputs[LinearCrossEntropyOp::kDenominator];
    const bool is_possible =
        std::ranges::all_of(inputs, [&](ValueId input) { return exists_before(input, place); }) &&
        graph_.value(denominator).type == graph_.value(result).type && !is_read_before(result, place);
    if (!is_possible) return;
    take_type_of(denominator, result, place);
    Op fused = op_instead_of(rewriter_.op(place), linear_cross_entropy_with_gradients_op(), std::move(inputs),
                             loss.attributes);
    fused.attributes.set("computes_d_x", int64_t{bwd ? 1 : 0});
    fused.attributes.set("computes_d_w", int64_t{grad ? 1 : 0});
    fused.outputs.clear();
    const std::vector<ValueType> types = linear_cross_entropy_with_gradients_op().infer({graph_, fused});
    fused.outputs = {result,
                     output_or_new(bwd, Bwd::kDX, types[Fused::kDX]),
                     output_or_new(grad, Grad::kDW, types[Fused::kDW])};
    if (types.size() > Fused::kDBias)
      fused.outputs.push_back(output_or_new(grad, Grad::kDBias, types[Fused::kDBias]));
    rewriter_.remove(at);
    for (const std::optional<uint32_t>& op : {bwd, grad}) {
      if (op) rewriter_.remove(*op);
    }
    rewriter_.insert_before(place, std::move(fused));
  }

  Graph& graph_;
  Rewriter rewriter_;
  Bucket bucket_;
};

}  // namespace

Pass loss_with_gradients_pass(const Bucket& bucket) {
  return {.name = "loss_with_gradients",
          .numerics = Numerics::kPreserving,
          .help = "computes a chunked loss together with its gradients, so that its logits are computed once",
          .run = [bucket](Graph& graph) { LossWithGradients(graph, bucket).run(); }};
}

}  // namespace plimsoll
