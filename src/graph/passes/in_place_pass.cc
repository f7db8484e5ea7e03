#include <algorithm>

#include "graph/analysis/liveness.h"
#include "graph/ops/ops.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

bool same_bytes(const Value& a, const Value& b) {
  return a.space == b.space && a.divided == b.divided && a.type.shape == b.type.shape &&
         dtype_bytes(a.type.dtype) == dtype_bytes(b.type.dtype);
}

void share_bytes(Graph& graph) {
  // last[v] is the position of the last op that reads or writes the buffer of value v, where v is the oldest value in that buffer
  // (root_of).
  std::vector<uint32_t> last(graph.values().size(), 0);
  for (uint32_t i = 0; i < graph.ops().size(); ++i) {
    for (ValueId id : graph.ops()[i].inputs) {
      if (id != kNoValue) last[index_of(root_of(graph, id))] = i;
    }
    for (ValueId id : graph.ops()[i].outputs) last[index_of(root_of(graph, id))] = i;
  }
  for (uint32_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.ops()[i];
    std::vector<ValueId> taken;
    for (size_t output = 0; output < op.outputs.size(); ++output) {
      Value& value = graph.value(op.outputs[output]);
      if (value.storage != Storage::kTransient || value.version_of != kNoValue) continue;
      for (int input : schema_of(op).may_overwrite({graph, op}, static_cast<int>(output))) {
        const ValueId id = op.inputs[static_cast<size_t>(input)];
        if (id == kNoValue || graph.value(id).storage != Storage::kTransient ||
            !same_bytes(value, graph.value(id)))
          continue;
        const ValueId root = root_of(graph, id);
        int uses = 0;
        for (ValueId other : op.inputs) uses += other != kNoValue && root_of(graph, other) == root ? 1 : 0;
        if (last[index_of(root)] != i || uses != 1) continue;
        if (std::find(taken.begin(), taken.end(), root) != taken.end()) continue;
        const uint32_t last_of_output = last[index_of(op.outputs[output])];
        value.version_of = id;
        last[index_of(root)] = last_of_output;
        taken.push_back(root);
        break;
      }
    }
  }
}

}  // namespace

Pass in_place_pass() {
  return {.name = "in_place",
          .numerics = Numerics::kPreserving,
          .help = "lets an output overwrite an operand that no later op reads",
          .run = share_bytes};
}

}  // namespace plimsoll
