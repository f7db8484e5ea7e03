// When copies between memory spaces end. A copy is given to a queue of its own, one for each direction, when
// every op before it in the program is done; the ops after it run beside it. It has ended before the first op
// that needs that: one that reads what it brings or names it in `after`, one that takes over the bytes of an
// operand or of what it brings (copies of other elements of the same value excepted), an op with
// {ended} = n for the first n copies of its segment to the host, and at the latest when its segment ends.
// From its start to there nothing else may use the bytes that it copies, which is all that liveness has to
// know of it. A pure function; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/ir/graph.h"

namespace plimsoll {

struct CopyInFlight {
  uint32_t op = 0;   // position of the copy
  uint32_t end = 0;  // before the op at this position it has ended: at least op + 1
  Space to = Space::kHost;
};

// Every copy of a program, in the order of the ops.
std::vector<CopyInFlight> find_copies(const Graph& graph);

}  // namespace plimsoll
