#include "graph/ops/ops.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

// Removes the weights that no op reads any more because all readers use the copy.
void drop_masters(Graph& graph, DType copies) {
  std::vector<bool> read(graph.values().size(), false);
  for (const Op& op : graph.ops()) {
    for (ValueId id : op.inputs) {
      if (id != kNoValue) read[index_of(id)] = true;
    }
  }
  for (size_t i = 0; i < graph.values().size(); ++i) {
    Value& value = graph.values()[i];
    if (value.storage != Storage::kWeight || read[i]) continue;
    if (graph.find(weight_copy_name(value.name, copies)) == kNoValue) continue;
    value.storage = Storage::kTransient;
  }
  graph.drop_unused_values();
}

}  // namespace

Pass split_weights_pass(DType copies) {
  return {
      .name = "split_weights",
      .numerics = Numerics::kPreserving,
      .help = "stores the 16-bit copy of a weight and the rest of its fp32 bits, instead of fp32 and a copy",
      .run = [copies](Graph& graph) { drop_masters(graph, copies); }};
}

}  // namespace plimsoll
