// Questions about graphs that the passes share which fuse a linear layer with the ops behind it (linear_gelu,
// linear_norm, linear_add, first_token_attention). Thread-safe: pure functions, but for remove_ops().
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ops/op.h"

namespace plimsoll {

// What reads each value, as find_readers() lists it.
using Readers = std::vector<std::vector<uint32_t>>;

// The op that produces `id`, if it is of kind `def` and the value is transient and has exactly one reader.
std::optional<uint32_t> find_with_one_reader(const Graph& graph, const Readers& readers, ValueId id,
                                             const OpSchema& def);

enum class LinearBias : uint8_t { kWithout, kWith };
// Likewise, if that op is a product of rows with a weight whose result has the type of its operands.
std::optional<uint32_t> find_linear_with_one_reader(const Graph& graph, const Readers& readers, ValueId id,
                                                    LinearBias bias);

// Whether the op is a norm that adds a residual to what it reads, without dropout in between.
bool norm_adds_residual(const Graph& graph, const Op& op);

// Removes the ops that are marked in `dead`, and the values that nobody reads any more. Requires: dead.size()
// == graph.ops().size().
void remove_ops(Graph& graph, const std::vector<bool>& dead);

}  // namespace plimsoll
