// The blocks of a model: modules that repeat, such as the layers of an encoder, and what passes from one to
// the next. A block is named by its modules' common path up to the first number: "encoder.layer.3" of
// "encoder.layer.3.attention". Pure; thread-safe.
#pragma once

#include <string_view>
#include <vector>

#include "graph/ir/graph.h"

namespace plimsoll {

// The block that a module belongs to; empty for a module that is in none.
std::string_view block_of(std::string_view module);

// For every op of the forward segment, whether it hands a value on to a forward op outside its block (or,
// where it is in no block, to any block). Values that the host reads count as handed on.
std::vector<bool> find_block_ends(const Graph& graph);

// The name of the block that runs last, if nothing after it works on rows of tokens; else empty. What such a
// block keeps is live only while its own backward pass, which is the first to run, would need it anyway.
std::string_view last_block_before_head(const Graph& graph);

}  // namespace plimsoll
