// Follows what the unused tail rows of every value hold through a program, and refuses a program in which a
// reduction would read rows that are not zero.
#pragma once

#include <vector>

#include "graph/ops/op.h"

namespace plimsoll {

// The tail state of every value. Errors: kInternal naming the op and operand that would read a tail that is
// not zero.
std::vector<Tail> find_tails(const Graph& graph);

}  // namespace plimsoll
