#include "graph/analysis/repeated.h"

#include <algorithm>

#include "graph/ops/ops.h"

namespace plimsoll {

std::vector<bool> find_repeated_ops(const Graph& graph) {
  std::vector<bool> repeated(graph.ops().size(), false);
  std::vector<bool> derives(graph.values().size(), false);
  bool is_first = true;
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.ops()[i];
    // A copy back from the host computes nothing.
    if (op.segment != Segment::kBackward || op.def == &copy_op()) continue;
    const bool reads_gradient = is_first || std::any_of(op.inputs.begin(), op.inputs.end(), [&](ValueId id) {
                                  return id != kNoValue && derives[index_of(id)];
                                });
    is_first = false;
    for (ValueId id : op.outputs) derives[index_of(id)] = reads_gradient;
    repeated[i] = !reads_gradient;
  }
  return repeated;
}

}  // namespace plimsoll
