// Which of an update's parameters consist of several tensors of a checkpoint, one after the other along the
// first dimension: q, k and v in one matrix. Optimizers whose states are sums over a tensor, or blocks of it,
// treat every part by itself, as if each were a parameter of its own. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/graph.h"

namespace plimsoll {

// The attribute of an op that says it.
inline constexpr std::string_view kPartRows = "part_rows";

// The rows of every part of every parameter: "48" for one of 48 rows, "16+16+16" for three parts, parameters
// separated by ",".
std::string part_rows_text(std::span<const std::vector<int64_t>> rows);
// The inverse. Errors: kInternal for a text that is none.
std::vector<std::vector<int64_t>> part_rows_of(const Attributes& attributes);

// Elements in one row of a parameter: 1 for a vector.
int64_t elements_per_row(const Shape& shape);

}  // namespace plimsoll
