// What the passes ask that make one op of a linear layer and what stands behind it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ops/op.h"

namespace plimsoll {

// What reads each value, as find_readers() lists it.
using Readers = std::vector<std::vector<uint32_t>>;

// The op of this kind that produces `id`, where that is transient and has one reader alone.
std::optional<uint32_t> find_with_one_reader(const Graph& graph, const Readers& readers, ValueId id,
                                             const OpSchema& def);

enum class LinearBias : uint8_t { kWithout, kWith };
// Likewise a product of rows with a weight, in the type of its operands.
std::optional<uint32_t> find_linear_with_one_reader(const Graph& graph, const Readers& readers, ValueId id,
                                                    LinearBias bias);

// A norm that adds a residual to what it reads, without dropout between.
bool norm_adds_residual(const Graph& graph, const Op& op);

// Takes ops out, and values that nobody reads any more. Requires: dead.size() == graph.ops().size().
void remove_ops(Graph& graph, const std::vector<bool>& dead);

}  // namespace plimsoll
