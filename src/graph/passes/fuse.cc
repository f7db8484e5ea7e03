#include <optional>

#include "graph/analysis/dependence.h"
#include "graph/ops/ops.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

// Runs on a forward graph. A pattern is matched from its last op backwards; every value inside it has one
// reader. The fused op stands where the last op stood and produces the same values.
class Fuse {
 public:
  explicit Fuse(Graph& graph)
      : graph_(graph), readers_(find_readers(graph)), dead_(graph.ops().size(), false) {}

  void run() {
    for (uint32_t i = 0; i < graph_.ops().size(); ++i) {
      fuse_norm(i);
      fuse_pair(i, gelu_op(), bias_add_op(), [](const Op& gelu, const Op& bias_add) {
        return replace(gelu, bias_gelu_op(), bias_add.inputs, {});
      });
      fuse_pair(i, nll_op(), log_softmax_op(), [](const Op& nll, const Op& log_softmax) {
        return replace(nll, softmax_cross_entropy_op(), {log_softmax.inputs[0], nll.inputs[1], nll.inputs[2]},
                       nll.attributes);
      });
    }
    for (uint32_t i = 0; i < graph_.ops().size(); ++i) {
      fuse_pair(i, bias_add_op(), matmul_op(), [](const Op& bias_add, const Op& matmul) {
        std::vector<ValueId> inputs = matmul.inputs;
        if (inputs[2] != kNoValue || inputs[3] != kNoValue) return bias_add;
        inputs[2] = bias_add.inputs[1];
        return replace(bias_add, matmul_op(), std::move(inputs), matmul.attributes);
      });
    }
    std::vector<Op> ops;
    for (size_t i = 0; i < graph_.ops().size(); ++i) {
      if (!dead_[i]) ops.push_back(std::move(graph_.ops()[i]));
    }
    graph_.replace_ops(std::move(ops));
    graph_.drop_unused_values();
  }

 private:
  bool is(uint32_t index, const OpSchema& def) const {
    return !dead_[index] && graph_.ops()[index].def == &def;
  }

  // The op that produces a value which only `reader` reads, if it is of this kind.
  std::optional<uint32_t> only_for(uint32_t reader, ValueId id, const OpSchema& def) const {
    if (id == kNoValue) return std::nullopt;
    const Value& value = graph_.value(id);
    if (value.producer == kNoOp || value.storage == Storage::kOutput) return std::nullopt;
    const auto producer = static_cast<uint32_t>(value.producer);
    const auto& readers = readers_[index_of(id)];
    if (!is(producer, def) || readers.size() != 1 || readers[0] != reader) return std::nullopt;
    return producer;
  }

  static Op replace(const Op& last, const OpSchema& def, std::vector<ValueId> inputs, Attributes attributes) {
    return {.def = &def,
            .inputs = std::move(inputs),
            .outputs = last.outputs,
            .attributes = std::move(attributes),
            .segment = last.segment,
            .module = last.module};
  }

  template <typename Make>
  void fuse_pair(uint32_t index, const OpSchema& last, const OpSchema& first, const Make& make) {
    if (!is(index, last)) return;
    const auto producer = only_for(index, graph_.ops()[index].inputs[0], first);
    if (!producer) return;
    Op fused = make(graph_.ops()[index], graph_.ops()[*producer]);
    if (fused.def == graph_.ops()[index].def && fused.inputs == graph_.ops()[index].inputs) return;
    graph_.ops()[index] = std::move(fused);
    dead_[*producer] = true;
  }

  // [bias_add] [dropout] [add residual] normalize scale_shift.
  void fuse_norm(uint32_t index) {
    if (!is(index, scale_shift_op())) return;
    const auto normalize = only_for(index, graph_.ops()[index].inputs[0], normalize_op());
    if (!normalize) return;
    uint32_t reader = *normalize;
    ValueId x = graph_.ops()[reader].inputs[0];
    ValueId residual = kNoValue;
    ValueId rng = kNoValue;
    ValueId bias = kNoValue;
    Attributes attributes{
        {"eps", graph_.ops()[reader].attributes.number("eps")}, {"p", 0.0}, {"site", int64_t{0}}};
    std::vector<uint32_t> inside{reader};
    if (const auto add = only_for(reader, x, add_op())) {
      // The branch is the operand that ends in a dropout or a bias; the other is the residual.
      const Op& op = graph_.ops()[*add];
      const auto is_branch = [&](ValueId id) {
        return only_for(*add, id, dropout_op()).has_value() || only_for(*add, id, bias_add_op()).has_value();
      };
      const size_t branch = is_branch(op.inputs[0]) && !is_branch(op.inputs[1]) ? 0 : 1;
      residual = op.inputs[1 - branch];
      x = op.inputs[branch];
      reader = *add;
      inside.push_back(reader);
    }
    if (const auto dropout = only_for(reader, x, dropout_op())) {
      const Op& op = graph_.ops()[*dropout];
      attributes.set("p", op.attributes.number("p"));
      attributes.set("site", op.attributes.integer("site"));
      rng = op.inputs[1];
      x = op.inputs[0];
      reader = *dropout;
      inside.push_back(reader);
    }
    if (const auto bias_add = only_for(reader, x, bias_add_op())) {
      bias = graph_.ops()[*bias_add].inputs[1];
      x = graph_.ops()[*bias_add].inputs[0];
      inside.push_back(*bias_add);
    }
    const Op& last = graph_.ops()[index];
    Op fused = replace(last, bias_dropout_residual_norm_op(),
                       {x, bias, residual, last.inputs[1], last.inputs[2], rng}, std::move(attributes));
    for (ValueId id : graph_.ops()[*normalize].outputs) fused.outputs.push_back(id);
    for (uint32_t op : inside) dead_[op] = true;
    graph_.ops()[index] = std::move(fused);
  }

  Graph& graph_;
  std::vector<std::vector<uint32_t>> readers_;
  std::vector<bool> dead_;
};

}  // namespace

Pass fuse_pass() {
  return {
      .name = "fuse",
      .numerics = Numerics::kChanging,
      .help =
          "forms bias + GELU, bias + dropout + residual + layer norm, softmax + cross entropy, matmul + bias",
      .run = [](Graph& graph) { Fuse(graph).run(); }};
}

}  // namespace plimsoll
