// Pattern matching and replacement for passes that fuse ops: finds producers that feed one reader, replaces ops, and collects insertions
// and removals by the positions of the original graph. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "graph/analysis/analysis.h"
#include "graph/ir/graph.h"
#include "graph/ops/op.h"

namespace plimsoll {

class Rewriter {
 public:
  // The rewriter refers to the graph. Until apply(), no other code may add, remove or move ops of the graph.
  explicit Rewriter(Graph& graph);

  const Graph& graph() const { return graph_; }
  uint32_t num_ops() const { return static_cast<uint32_t>(graph_.ops().size()); }
  const Op& op(uint32_t at) const { return graph_.ops()[at]; }
  // Returns true if the op at this position has the definition `def` and was not removed.
  bool is(uint32_t at, const OpSchema& def) const { return !removed_[at] && op(at).def == &def; }

  // Returns the position of the op that produces the transient value `id`, if the op has the definition `def` and only the op at `reader`
  // (and the op at `other_reader`, if given) reads the value.
  std::optional<uint32_t> find_producer(uint32_t reader, ValueId id, const OpSchema& def,
                                        std::optional<uint32_t> other_reader = std::nullopt) const;
  // As find_producer(), but the value may have other readers besides the op at `reader`, if all of them come after position `last`.
  std::optional<uint32_t> find_shared_producer(uint32_t reader, uint32_t last, ValueId id,
                                               const OpSchema& def) const;
  // Returns true if no op reads the value, and neither does the host.
  bool is_unread(ValueId id) const;

  // Replaces the op at this position. The graph changes immediately, whereas removals and insertions take effect in apply().
  void replace(uint32_t at, Op op) { graph_.ops()[at] = std::move(op); }
  void remove(uint32_t at) { removed_[at] = true; }
  // Inserts an op before this position. Requires: later calls have the same or higher positions.
  void insert_before(uint32_t at, Op op) { inserted_.emplace_back(at, std::move(op)); }

  // Executes all insertions and removals, and drops the values that no op reads or produces any more.
  void apply();

 private:
  // Returns the position of the op that produces `id` if it has the definition `def` and the value is transient.
  std::optional<uint32_t> producer_of(ValueId id, const OpSchema& def) const;

  Graph& graph_;
  OpLists readers_;
  std::vector<bool> removed_;
  std::vector<std::pair<uint32_t, Op>> inserted_;
};

// Returns an op that has the outputs, the segment and the module of `replaced`.
Op op_instead_of(const Op& replaced, const OpSchema& def, ValueIds inputs, Attributes attributes = {});

// Patterns shared by the passes that fuse a linear layer with the ops after it (linear_gelu, linear_norm, linear_add,
// first_token_attention). Pure functions; thread-safe.

enum class ProductBias : uint8_t { kWithout, kWith };

// Returns true for a matrix product of rows with a weight of the same type, with or without a bias.
bool is_linear(const Graph& graph, const Op& op);
// Returns the position of the matrix product of rows with a weight whose result is `id`, or nothing if there is none. The op at `reader`
// must be the only one that reads `id`, and the result must have the type of the operands.
std::optional<uint32_t> find_linear(const Rewriter& rewriter, uint32_t reader, ValueId id, ProductBias bias);

// Returns true if the op is a norm that adds a residual to its input, without dropout in between, and whose sum no other
// op reads.
bool norm_adds_residual(const Graph& graph, const Op& op);

}  // namespace plimsoll
