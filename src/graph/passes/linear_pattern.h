// The patterns that the passes share which fuse a linear layer with the ops that read its output (linear_gelu,
// linear_norm, linear_add, first_token_attention). Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/passes/rewriter.h"

namespace plimsoll {

enum class LinearBias : uint8_t { kWithout, kWith };

// Returns the position of the product of rows with a weight that produces `id`, if only the op at `reader` reads the
// result, which has the type of the product's operands.
std::optional<uint32_t> find_linear(const Rewriter& rewriter, uint32_t reader, ValueId id, LinearBias bias);

// Returns true if the op is a norm that adds a residual to its input, without dropout in between.
bool norm_adds_residual(const Graph& graph, const Op& op);

}  // namespace plimsoll
