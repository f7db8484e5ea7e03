// When copies between memory spaces end. A copy is enqueued on a queue of its own direction when every op before it
// in the program is done; the ops after it run at the same time. It has ended before the first op that requires it:
//  - an op that reads the result, or that names it in `after`;
//  - an op that takes over the bytes of an operand or of the result, except a copy of other elements of the same
//    value;
//  - an op with {ended} = n, for the first n copies of its segment to the host;
//  - at the latest, the first op of the next segment.
// Until then no other op may use the bytes that it copies; liveness relies only on that. A pure function;
// thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/ir/graph.h"

namespace plimsoll {

struct CopyInFlight {
  uint32_t op = 0;   // position of the copy
  uint32_t end = 0;  // the copy has ended before the op at this position: at least op + 1
  Space to = Space::kHost;
};

// Returns every copy of a program, in the order of the ops.
std::vector<CopyInFlight> find_copies(const Graph& graph);

}  // namespace plimsoll
