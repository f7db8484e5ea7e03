// The parts of parameters that consist of several tensors of a checkpoint, one after the other along the first
// dimension: q, k and v in one matrix. An optimizer whose states are sums over a tensor, or blocks of it, treats
// every part separately, like a parameter of its own. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/graph.h"

namespace plimsoll {

// The attribute of an op that contains them.
inline constexpr std::string_view kPartRows = "part_rows";

// Returns the rows of every part of every parameter as text: "48" for one part of 48 rows, "16+16+16" for three
// parts; "," separates parameters.
std::string format_part_rows(std::span<const std::vector<int64_t>> rows);
// Parses the result of format_part_rows(). Errors: kInternal if the text is malformed.
std::vector<std::vector<int64_t>> part_rows_of(const Attributes& attributes);

// Returns the number of elements in one row of a parameter: 1 for a vector.
int64_t elements_per_row(const Shape& shape);

}  // namespace plimsoll
