#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "graph/ops/activation_op.h"
#include "graph/ops/ops.h"
#include "graph/passes/pass.h"
#include "graph/passes/rewriter.h"

namespace plimsoll {
namespace {

// The values that the fused op takes over from the norm: its inputs (x to beta) and its outputs (y and the sum with the residual).
struct NormPart {
  ValueId x = kNoValue, residual = kNoValue, norm_bias = kNoValue, gain = kNoValue, beta = kNoValue;
  ValueId y = kNoValue, sum = kNoValue;
  NormKind kind = NormKind::kLayer;
};

bool are_unread(const Rewriter& rewriter, const Op& op, std::initializer_list<int> outputs) {
  return std::ranges::all_of(outputs, [&](int i) {
    const ValueId id = op.outputs[static_cast<size_t>(i)];
    return id == kNoValue || rewriter.is_unread(id);
  });
}

// Returns the operands of the op if it is a root-mean-square norm of whole rows whose statistics no op reads. Otherwise returns nothing.
std::optional<NormPart> read_rms_norm(const Rewriter& rewriter, const Op& op) {
  using Norm = RmsNormOp;
  const Graph& graph = rewriter.graph();
  const bool whole_rows =
      op.attributes.integer("heads") == 1 && op.attributes.integer("second_heads") == 0 &&
      graph.value(op.inputs[Norm::kGain]).type.shape[0] == graph.value(op.inputs[Norm::kX]).type.shape[1];
  if (!whole_rows || !are_unread(rewriter, op, {Norm::kRstd})) return std::nullopt;
  NormPart part{.x = op.inputs[Norm::kX],
                .residual = op.inputs[Norm::kResidual],
                .gain = op.inputs[Norm::kGain],
                .y = op.outputs[Norm::kY],
                .kind = NormKind::kRms};
  if (part.residual != kNoValue) part.sum = op.outputs[Norm::kSum];
  return part;
}

// Returns the operands of the op if it is a layer norm without dropout whose normalized values and statistics no op reads. If the norm adds
// a residual, the sum must be one of its outputs; if not, it must add no bias either. Otherwise returns nothing.
std::optional<NormPart> read_layer_norm(const Rewriter& rewriter, const Op& op) {
  using Norm = BiasDropoutResidualNormOp;
  if (op.attributes.number("p") != 0.0 || !are_unread(rewriter, op, {Norm::kN, Norm::kRstd}))
    return std::nullopt;
  NormPart part{.x = op.inputs[Norm::kX],
                .residual = op.inputs[Norm::kResidual],
                .norm_bias = op.inputs[Norm::kBias],
                .gain = op.inputs[Norm::kGain],
                .beta = op.inputs[Norm::kBeta],
                .y = op.outputs[Norm::kY],
                .kind = NormKind::kLayer};
  const bool has_sum = op.outputs.size() > size_t{Norm::kSum};
  if (has_sum) part.sum = op.outputs[Norm::kSum];
  if (has_sum != (part.residual != kNoValue)) return std::nullopt;
  if (part.residual == kNoValue && part.norm_bias != kNoValue) return std::nullopt;
  return part;
}

// The position and the operands of a norm whose output y only one op reads.
struct FoundNorm {
  uint32_t at = 0;
  NormPart part;
};
std::optional<FoundNorm> find_norm(const Rewriter& rewriter, uint32_t reader, ValueId y) {
  std::optional<NormPart> part;
  std::optional<uint32_t> at = rewriter.find_producer(reader, y, rms_norm_op());
  if (at) {
    part = read_rms_norm(rewriter, rewriter.op(*at));
  } else if ((at = rewriter.find_producer(reader, y, bias_dropout_residual_norm_op()))) {
    part = read_layer_norm(rewriter, rewriter.op(*at));
  }
  if (!part || part->y != y) return std::nullopt;
  return FoundNorm{*at, *part};
}

// Returns the position of the matrix product, with or without a bias, that produces `id`, if only the op at `reader` reads `id`.
std::optional<uint32_t> find_product(const Rewriter& rewriter, uint32_t reader, ValueId id) {
  const auto without = find_linear(rewriter, reader, id, ProductBias::kWithout);
  return without ? without : find_linear(rewriter, reader, id, ProductBias::kWith);
}

class Fusion {
 public:
  Fusion(Graph& graph, const std::function<bool(const OpView&)>& has_kernel)
      : graph_(graph), has_kernel_(has_kernel), rewriter_(graph) {}

  void run() && {
    // First fuses the matrix products that an activation follows, together with the activation, and then all other products. In the order
    // of the ops, a product would be fused before the loop reaches its activation, which would then remain a separate op.
    for (uint32_t i = 0; i < rewriter_.num_ops(); ++i) {
      if (rewriter_.is(i, bias_gelu_op())) {
        const ValueId h = rewriter_.op(i).inputs[BiasGeluOp::kH];
        fuse_function(i, find_linear(rewriter_, i, h, ProductBias::kWithout),
                      rewriter_.op(i).inputs[BiasGeluOp::kBias], LayerEnd::kActivation);
      } else if (rewriter_.is(i, gelu_op()) || rewriter_.is(i, glu_op())) {
        const auto product = find_product(rewriter_, i, rewriter_.op(i).inputs[PointwiseOp::kX]);
        fuse_function(i, product, product ? rewriter_.op(*product).inputs[MatmulOp::kBias] : kNoValue,
                      rewriter_.is(i, glu_op()) ? LayerEnd::kGlu : LayerEnd::kActivation);
      }
    }
    for (uint32_t i = 0; i < rewriter_.num_ops(); ++i) {
      if (!rewriter_.is(i, matmul_op()) || !is_linear(graph_, rewriter_.op(i))) continue;
      const Op& product = rewriter_.op(i);
      fuse(product, product.inputs[MatmulOp::kBias], product.outputs[MatmulOp::kC], LayerEnd::kProduct, {},
           i);
    }
    rewriter_.apply();
  }

 private:
  void fuse_function(uint32_t at, std::optional<uint32_t> product, ValueId bias, LayerEnd end) {
    if (!product) return;
    const Op& function = rewriter_.op(at);
    const ValueId y = function.outputs[PointwiseOp::kY];
    if (fuse(rewriter_.op(*product), bias, y, end, activation_attributes(activation_of(function.attributes)),
             *product))
      rewriter_.remove(at);
  }

  // Replaces the norm before the matrix product by the fused op, and removes the product.
  bool fuse(const Op& product, ValueId bias, ValueId y, LayerEnd end, Attributes attributes, uint32_t at) {
    const auto norm = find_norm(rewriter_, at, product.inputs[MatmulOp::kA]);
    if (!norm) return false;
    const Op& replaced = rewriter_.op(norm->at);
    const NormPart& part = norm->part;
    attributes.set("eps", replaced.attributes.number("eps"));
    attributes.set("norm", std::string(norm_kind_name(part.kind)));
    attributes.set("end", std::string(layer_end_name(end)));
    Op fused = op_instead_of(
        replaced, norm_linear_op(),
        {part.x, product.inputs[MatmulOp::kB], bias, part.residual, part.norm_bias, part.gain, part.beta},
        std::move(attributes));
    fused.outputs = {y};
    if (part.sum != kNoValue) fused.outputs.push_back(part.sum);
    if (!has_kernel_({graph_, fused})) return false;
    rewriter_.replace(norm->at, std::move(fused));
    rewriter_.remove(at);
    return true;
  }

  Graph& graph_;
  const std::function<bool(const OpView&)>& has_kernel_;
  Rewriter rewriter_;
};

}  // namespace

Pass norm_linear_pass(std::function<bool(const OpView&)> has_kernel) {
  return {.name = "norm_linear",
          .numerics = Numerics::kChanging,
          .help =
              "in programs that generate text, fuses a norm, the matrix product that reads it and the "
              "activation after the product",
          .run = [has_kernel = std::move(has_kernel)](Graph& graph) { Fusion(graph, has_kernel).run(); }};
}

}  // namespace plimsoll
