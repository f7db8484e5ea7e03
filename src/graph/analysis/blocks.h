// The blocks of a model: modules that repeat, such as the layers of an encoder, and the values that one block passes
// to the next. A block is named by the common path of its modules up to the first number: "encoder.layer.3" for
// "encoder.layer.3.attention". Pure; thread-safe.
#pragma once

#include <string_view>
#include <vector>

#include "graph/ir/graph.h"

namespace plimsoll {

// Returns the block that a module belongs to, or an empty name for a module outside all blocks.
std::string_view block_of(std::string_view module);

// Returns true for every forward op that passes a value to a forward op outside its block or to the host. An op
// outside all blocks ends one if it passes a value to any block.
std::vector<bool> find_block_ends(const Graph& graph);

// Returns the name of the block that runs last if no op after it works on rows of tokens, and an empty name
// otherwise. The backward pass of this block runs first, so the values that it keeps are live only while that
// backward pass would need them anyway.
std::string_view last_block_before_head(const Graph& graph);

}  // namespace plimsoll
