#include <optional>
#include <tuple>
#include <utility>

#include "graph/ops/ops.h"
#include "graph/passes/pass.h"
#include "graph/passes/rewriter.h"

namespace plimsoll {
namespace {

// Runs on a forward graph. A pattern is matched backwards from its last op; every value inside it has one reader, except
// the sum with a residual, which later ops may read. The fused op is inserted at the position of the last op and produces the same values.
class Fuse {
 public:
  explicit Fuse(Graph& graph) : rewriter_(graph) {}

  void run() {
    for (uint32_t i = 0; i < rewriter_.num_ops(); ++i) {
      fuse_norm(i);
      fuse_rms_norm(i);
      fuse_gelu(i);
      fuse_cross_entropy(i);
    }
    for (uint32_t i = 0; i < rewriter_.num_ops(); ++i) fuse_bias(i);
    rewriter_.apply();
  }

 private:
  void replace_pair(uint32_t last, uint32_t first, Op fused) {
    rewriter_.replace(last, std::move(fused));
    rewriter_.remove(first);
  }

  // Fuses bias_add and gelu into bias_gelu.
  void fuse_gelu(uint32_t at) {
    if (!rewriter_.is(at, gelu_op())) return;
    const Op& gelu = rewriter_.op(at);
    const auto bias_add = rewriter_.find_producer(at, gelu.inputs[PointwiseOp::kX], bias_add_op());
    if (!bias_add) return;
    const Op& sum = rewriter_.op(*bias_add);
    replace_pair(at, *bias_add,
                 op_instead_of(gelu, bias_gelu_op(),
                               {sum.inputs[BiasAddOp::kX], sum.inputs[BiasAddOp::kBias]}, gelu.attributes));
  }

  // Fuses log_softmax and nll into softmax_cross_entropy.
  void fuse_cross_entropy(uint32_t at) {
    if (!rewriter_.is(at, nll_op())) return;
    const Op& nll = rewriter_.op(at);
    const auto log_softmax = rewriter_.find_producer(at, nll.inputs[ClassLossOp::kLogits], log_softmax_op());
    if (!log_softmax) return;
    replace_pair(at, *log_softmax,
                 op_instead_of(nll, softmax_cross_entropy_op(),
                               {rewriter_.op(*log_softmax).inputs[LogSoftmaxOp::kX],
                                nll.inputs[ClassLossOp::kLabels], nll.inputs[ClassLossOp::kDenominator]},
                               nll.attributes));
  }

  // Fuses matmul and bias_add into a matmul with a bias.
  void fuse_bias(uint32_t at) {
    if (!rewriter_.is(at, bias_add_op())) return;
    const Op& bias_add = rewriter_.op(at);
    const auto product = rewriter_.find_producer(at, bias_add.inputs[BiasAddOp::kX], matmul_op());
    if (!product) return;
    ValueIds inputs = rewriter_.op(*product).inputs;
    if (inputs[MatmulOp::kBias] != kNoValue || inputs[MatmulOp::kInto] != kNoValue) return;
    inputs[MatmulOp::kBias] = bias_add.inputs[BiasAddOp::kBias];
    replace_pair(at, *product,
                 op_instead_of(bias_add, matmul_op(), std::move(inputs), rewriter_.op(*product).attributes));
  }

  // Fuses an optional bias_add, an optional dropout, an optional addition of a residual, normalize and scale_shift into
  // bias_dropout_residual_norm. If later ops also read the sum with the residual (pre-norm), the sum is an output of the fused op. The
  // fused op then gets the module of the addition, so that one value still passes from each block to the next.
  void fuse_norm(uint32_t at) {
    if (!rewriter_.is(at, scale_shift_op())) return;
    const auto normalize =
        rewriter_.find_producer(at, rewriter_.op(at).inputs[ScaleShiftOp::kN], normalize_op());
    if (!normalize) return;
    uint32_t reader = *normalize;
    ValueId x = rewriter_.op(reader).inputs[NormalizeOp::kX];
    ValueId residual = kNoValue;
    ValueId rng = kNoValue;
    ValueId bias = kNoValue;
    Attributes attributes{
        {"eps", rewriter_.op(reader).attributes.number("eps")}, {"p", 0.0}, {"site", int64_t{0}}};
    std::vector<uint32_t> inside{reader};
    ValueId sum = kNoValue;
    ModuleId module = rewriter_.op(at).module;
    if (const auto add = rewriter_.find_shared_producer(reader, at, x, add_op())) {
      if (!rewriter_.find_producer(reader, x, add_op())) {
        sum = x;
        module = rewriter_.op(*add).module;
        attributes.set("sum", int64_t{1});
      }
      std::tie(x, residual) = branch_and_residual(*add);
      reader = *add;
      inside.push_back(reader);
    }
    if (const auto dropout = rewriter_.find_producer(reader, x, dropout_op())) {
      const Op& op = rewriter_.op(*dropout);
      attributes.set("p", op.attributes.number("p"));
      attributes.set("site", op.attributes.integer("site"));
      rng = op.inputs[DropoutOp::kRng];
      x = op.inputs[DropoutOp::kX];
      reader = *dropout;
      inside.push_back(reader);
    }
    if (const auto bias_add = rewriter_.find_producer(reader, x, bias_add_op())) {
      bias = rewriter_.op(*bias_add).inputs[BiasAddOp::kBias];
      x = rewriter_.op(*bias_add).inputs[BiasAddOp::kX];
      inside.push_back(*bias_add);
    }
    const Op& last = rewriter_.op(at);
    Op fused = op_instead_of(
        last, bias_dropout_residual_norm_op(),
        {x, bias, residual, last.inputs[ScaleShiftOp::kGain], last.inputs[ScaleShiftOp::kBias], rng},
        std::move(attributes));
    for (ValueId id : rewriter_.op(*normalize).outputs) fused.outputs.push_back(id);
    if (sum != kNoValue) fused.outputs.push_back(sum);
    fused.module = module;
    for (uint32_t op : inside) rewriter_.remove(op);
    rewriter_.replace(at, std::move(fused));
  }

  // Fuses add and rms_norm into an rms_norm with a residual, if later ops also read the sum (pre-norm). As in fuse_norm(), the fused op
  // gets the module of the addition.
  void fuse_rms_norm(uint32_t at) {
    if (!rewriter_.is(at, rms_norm_op())) return;
    const Op& norm = rewriter_.op(at);
    const ValueId sum = norm.inputs[RmsNormOp::kX];
    const auto add = rewriter_.find_shared_producer(at, at, sum, add_op());
    if (!add || rewriter_.find_producer(at, sum, add_op())) return;
    const Graph& graph = rewriter_.graph();
    const bool is_of_rows =
        norm.attributes.integer("heads") == 1 && norm.attributes.integer("second_heads") == 0 &&
        graph.value(norm.inputs[RmsNormOp::kGain]).type.shape[0] == graph.value(sum).type.shape[1];
    if (!is_of_rows) return;
    const Op& sum_op = rewriter_.op(*add);
    ValueIds inputs = norm.inputs;
    inputs[RmsNormOp::kX] = sum_op.inputs[AddOp::kB];
    inputs[RmsNormOp::kResidual] = sum_op.inputs[AddOp::kA];
    Op fused = op_instead_of(norm, rms_norm_op(), std::move(inputs), norm.attributes);
    fused.outputs.push_back(sum);
    fused.module = sum_op.module;
    replace_pair(at, *add, std::move(fused));
  }

  // Returns two operands of an add: first the one that a dropout or a bias_add produces, then the other one, which is
  // the residual.
  std::pair<ValueId, ValueId> branch_and_residual(uint32_t add) const {
    const auto is_branch = [&](ValueId id) {
      return rewriter_.find_producer(add, id, dropout_op()).has_value() ||
             rewriter_.find_producer(add, id, bias_add_op()).has_value();
    };
    const ValueId a = rewriter_.op(add).inputs[AddOp::kA];
    const ValueId b = rewriter_.op(add).inputs[AddOp::kB];
    if (is_branch(a) && !is_branch(b)) return {a, b};
    return {b, a};
  }

  Rewriter rewriter_;
};

}  // namespace

Pass fuse_pass() {
  return {.name = "fuse",
          .numerics = Numerics::kChanging,
          .help =
              "fuses ops into one: bias + GELU, bias + dropout + residual + layer norm, residual + RMS norm, "
              "softmax + cross entropy, matmul + bias",
          .run = [](Graph& graph) { Fuse(graph).run(); }};
}

}  // namespace plimsoll
