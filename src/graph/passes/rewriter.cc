#include "graph/passes/rewriter.h"

#include <algorithm>

#include "graph/analysis/analysis.h"
#include "graph/ops/ops.h"

namespace plimsoll {

Rewriter::Rewriter(Graph& graph)
    : graph_(graph), readers_(find_readers(graph)), removed_(graph.ops().size(), false) {}

std::optional<uint32_t> Rewriter::producer_of(ValueId id, const OpSchema& def) const {
  if (id == kNoValue) return std::nullopt;
  const Value& value = graph_.value(id);
  if (value.producer == kNoOp || value.storage != Storage::kTransient) return std::nullopt;
  const auto producer = static_cast<uint32_t>(value.producer);
  return is(producer, def) ? std::optional(producer) : std::nullopt;
}

std::optional<uint32_t> Rewriter::find_shared_producer(uint32_t reader, uint32_t last, ValueId id,
                                                       const OpSchema& def) const {
  const auto producer = producer_of(id, def);
  if (!producer) return std::nullopt;
  const auto is_expected = [&](uint32_t op) { return op == reader || op > last; };
  return std::ranges::all_of(readers_[index_of(id)], is_expected) ? producer : std::nullopt;
}

std::optional<uint32_t> Rewriter::find_producer(uint32_t reader, ValueId id, const OpSchema& def,
                                                std::optional<uint32_t> other_reader) const {
  const auto producer = producer_of(id, def);
  if (!producer) return std::nullopt;
  const std::span<const uint32_t> readers = readers_[index_of(id)];
  const auto is_expected = [&](uint32_t op) { return op == reader || op == other_reader; };
  const size_t num_expected = other_reader ? 2 : 1;
  if (readers.size() != num_expected || !std::ranges::all_of(readers, is_expected)) return std::nullopt;
  return producer;
}

bool Rewriter::is_unread(ValueId id) const {
  return graph_.value(id).storage == Storage::kTransient && readers_[index_of(id)].empty();
}

void Rewriter::apply() {
  std::vector<Op> ops;
  ops.reserve(graph_.ops().size());
  size_t next = 0;
  for (uint32_t i = 0; i < num_ops(); ++i) {
    for (; next < inserted_.size() && inserted_[next].first == i; ++next)
      ops.push_back(std::move(inserted_[next].second));
    if (!removed_[i]) ops.push_back(std::move(graph_.ops()[i]));
  }
  graph_.replace_ops(std::move(ops));
  graph_.drop_unused_values();
}

Op op_instead_of(const Op& replaced, const OpSchema& def, ValueIds inputs, Attributes attributes) {
  return {.def = &def,
          .inputs = std::move(inputs),
          .outputs = replaced.outputs,
          .attributes = std::move(attributes),
          .segment = replaced.segment,
          .module = replaced.module};
}

bool is_linear(const Graph& graph, const Op& op) {
  const ValueId weight = op.inputs[MatmulOp::kB];
  return op.def == &matmul_op() && op.attributes.integer("ta") == 0 && op.attributes.integer("tb") == 1 &&
         op.inputs[MatmulOp::kInto] == kNoValue && !op.attributes.has("dtype") &&
         graph.value(op.inputs[MatmulOp::kA]).type.dtype == graph.value(weight).type.dtype &&
         !graph.value(weight).type.shape.depends_on_bucket();
}

std::optional<uint32_t> find_linear(const Rewriter& rewriter, uint32_t reader, ValueId id, ProductBias bias) {
  const auto product = rewriter.find_producer(reader, id, matmul_op());
  if (!product || !is_linear(rewriter.graph(), rewriter.op(*product))) return std::nullopt;
  const bool has_bias = rewriter.op(*product).inputs[MatmulOp::kBias] != kNoValue;
  return has_bias == (bias == ProductBias::kWith) ? product : std::nullopt;
}

bool norm_adds_residual(const Graph& graph, const Op& op) {
  using Norm = BiasDropoutResidualNormOp;
  if (op.def != &bias_dropout_residual_norm_op() || op.attributes.number("p") != 0.0) return false;
  if (op.outputs.size() > size_t{Norm::kSum}) return false;
  const ValueId x = op.inputs[Norm::kX];
  const ValueId residual = op.inputs[Norm::kResidual];
  return residual != kNoValue && residual != x && graph.value(residual).type == graph.value(x).type;
}

}  // namespace plimsoll
