#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "graph/ops/ops.h"
#include "graph/passes/pass.h"
#include "graph/passes/rewriter.h"

namespace plimsoll {
namespace {

// Runs on a differentiated graph. The fused op is inserted at the position of the loss, at the end of the forward pass. If the classes are
// divided among the ranks of a tensor-parallel group, the gradients depend on sums that the ranks exchange after the forward op. The fused
// op then computes only the two gradients and is inserted at the position of the op that computes the gradient of the activations.
//
// A separate op for the gradient of the weight could run when the activations are no longer live; the fused op computes this gradient
// earlier, so it takes memory at the peak. This is worthwhile only if there are at least as many rows as columns: the gradient is then not
// larger than the logits, and two matrix products of all rows are saved. A gradient that is added to a persistent buffer takes no
// additional memory.
class LossWithGradients {
 public:
  LossWithGradients(Graph& graph, const Bucket& bucket) : graph_(graph), rewriter_(graph), bucket_(bucket) {}

  void run() {
    for (uint32_t i = 0; i < rewriter_.num_ops(); ++i) {
      // The fused op cannot count correct predictions, so a loss op that counts them is left as it is.
      if (rewriter_.is(i, linear_cross_entropy_op()) && !rewriter_.op(i).attributes.has("counts_correct"))
        fuse(i);
      if (rewriter_.is(i, linear_class_sums_bwd_op())) fuse_gradients(i);
    }
    rewriter_.apply();
  }

 private:
  using Fused = LinearCrossEntropyWithGradientsOp;
  using Bwd = LinearCrossEntropyBwdOp;
  using Grad = LinearCrossEntropyGradOp;

  // Returns the position of the op with the definition `def` that computes a gradient of `loss`: its first inputs are those of `loss`.
  std::optional<uint32_t> find_gradient(const Op& loss, const OpSchema& def) const {
    for (uint32_t i = 0; i < rewriter_.num_ops(); ++i) {
      if (!rewriter_.is(i, def)) continue;
      const std::span<const ValueId> inputs = rewriter_.op(i).inputs;
      if (std::ranges::equal(loss.inputs, inputs.first(loss.inputs.size()))) return i;
    }
    return std::nullopt;
  }

  // Returns true if the gradient of the weight is larger than the logits. Computing it early would then take more memory than the saved
  // time is worth.
  bool is_too_large(ValueId x, ValueId into_w) const {
    const Shape& shape = graph_.value(x).type.shape;
    return into_w == kNoValue && shape[0].at(bucket_) < shape[1].at(bucket_);
  }

  // Returns output number `output` of the op at position `op`. If `op` is empty, returns a new value of this type, which no op reads.
  ValueId output_or_new(const std::optional<uint32_t>& op, int output, const ValueType& type) {
    if (op) return rewriter_.op(*op).outputs[static_cast<size_t>(output)];
    return graph_.add_value(graph_.unique_name("unread"), type, Storage::kTransient);
  }

  // The fused op reads d_loss, so this value must exist before the loss op at position `at`. If d_loss is an input, it exists already. If a
  // `fill` op produces it, the op is moved before `at`, and takes its type from the denominator instead of from the loss. For any other
  // producer, returns false.
  bool bring_forward(uint32_t at, ValueId d_loss) {
    if (graph_.value(d_loss).producer == kNoOp) return true;
    const auto producer = static_cast<uint32_t>(graph_.value(d_loss).producer);
    const ValueId denominator = rewriter_.op(at).inputs[LinearCrossEntropyOp::kDenominator];
    if (!rewriter_.is(producer, fill_op()) || graph_.value(denominator).type != graph_.value(d_loss).type)
      return false;
    Op fill = rewriter_.op(producer);
    fill.inputs[FillOp::kLike] = denominator;
    fill.segment = rewriter_.op(at).segment;
    rewriter_.remove(producer);
    rewriter_.insert_before(at, std::move(fill));
    return true;
  }

  void fuse(uint32_t at) {
    const Op loss = rewriter_.op(at);
    const auto bwd = find_gradient(loss, linear_cross_entropy_bwd_op());
    const auto grad = find_gradient(loss, linear_cross_entropy_grad_op());
    if (!bwd && !grad) return;
    if (grad && is_too_large(loss.inputs[LinearCrossEntropyOp::kX], rewriter_.op(*grad).inputs[Grad::kIntoW]))
      return;
    const Op& gradient = rewriter_.op(bwd.value_or(grad.value_or(at)));
    ValueIds inputs = loss.inputs;
    inputs.push_back(gradient.inputs[Bwd::kDLoss]);
    for (const int input : {Grad::kIntoW, Grad::kIntoBias, Grad::kFlag})
      inputs.push_back(grad ? rewriter_.op(*grad).inputs[static_cast<size_t>(input)] : kNoValue);
    if (!bring_forward(at, inputs[Fused::kDLoss])) return;
    Op fused =
        op_instead_of(loss, linear_cross_entropy_with_gradients_op(), std::move(inputs), loss.attributes);
    fused.attributes.set("computes_d_x", int64_t{bwd ? 1 : 0});
    fused.attributes.set("computes_d_w", int64_t{grad ? 1 : 0});
    fused.outputs.clear();
    const std::vector<ValueType> types = linear_cross_entropy_with_gradients_op().infer({graph_, fused});
    const bool has_z_loss = loss.outputs.size() > LinearCrossEntropyOp::kZLoss;
    fused.outputs = {
        loss.outputs[LinearCrossEntropyOp::kLoss],
        has_z_loss ? loss.outputs[LinearCrossEntropyOp::kZLoss] : output_or_new({}, 0, types[Fused::kZLoss]),
        output_or_new(bwd, Bwd::kDX, types[Fused::kDX]), output_or_new(grad, Grad::kDW, types[Fused::kDW])};
    if (types.size() > Fused::kDBias)
      fused.outputs.push_back(output_or_new(grad, Grad::kDBias, types[Fused::kDBias]));
    rewriter_.replace(at, std::move(fused));
    for (const std::optional<uint32_t>& op : {bwd, grad}) {
      if (op) rewriter_.remove(*op);
    }
  }

  void fuse_gradients(uint32_t at) {
    using Divided = LinearClassSumsGradOp;
    const Op bwd = rewriter_.op(at);
    const auto grad = find_gradient(bwd, linear_class_sums_grad_op());
    if (!grad) return;
    const Op& gradient = rewriter_.op(*grad);
    if (is_too_large(bwd.inputs[LinearClassSumsBwdOp::kX], gradient.inputs[Divided::kIntoW])) return;
    Op fused = op_instead_of(bwd, linear_class_sums_gradients_op(), gradient.inputs, bwd.attributes);
    fused.outputs.insert(fused.outputs.end(), gradient.outputs.begin(), gradient.outputs.end());
    rewriter_.replace(at, std::move(fused));
    rewriter_.remove(*grad);
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
