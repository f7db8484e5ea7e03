// Follows the content of the unused tail rows of every value through a program, and refuses a program in which a
// reduction would read tail rows that are not zero.
#pragma once

#include <vector>

#include "graph/ops/op.h"

namespace plimsoll {

// Returns the tail state of every value. Errors: kInternal naming the op and the operand that would read a tail that
// is not zero.
std::vector<Tail> find_tails(const Graph& graph);

}  // namespace plimsoll
