#include <algorithm>

#include "graph/ops/ops.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

// If no op updates a weight and only matrix products of 16-bit activations read it, the weight need not be kept in fp32 and is stored in
// the type of these activations.
void hold_in(Graph& graph, DType dtype, const std::vector<std::string>& frozen) {
  std::vector<bool> lowers(graph.values().size(), false);
  for (const std::string& name : frozen) {
    const ValueId id = graph.find(name);
    if (id != kNoValue && graph.value(id).type.dtype == DType::kF32) lowers[index_of(id)] = true;
  }
  std::vector<bool> read(graph.values().size(), false);
  for (const Op& op : graph.ops()) {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i] == kNoValue) continue;
      const bool by_product = op.def == &matmul_op() && i == MatmulOp::kB &&
                              graph.value(op.inputs[MatmulOp::kA]).type.dtype == dtype;
      read[index_of(op.inputs[i])] = true;
      if (!by_product) lowers[index_of(op.inputs[i])] = false;
    }
  }
  for (size_t i = 0; i < lowers.size(); ++i) {
    if (lowers[i] && read[i]) graph.values()[i].type.dtype = dtype;
  }
}

}  // namespace

Pass frozen_weights_pass(DType dtype, std::vector<std::string> frozen) {
  return {.name = "frozen_weights",
          .numerics = Numerics::kChanging,
          .help =
              "stores the frozen weights of a model with adapters in 16 bits if only 16-bit matrix products "
              "read them",
          .run = [dtype, frozen = std::move(frozen)](Graph& graph) { hold_in(graph, dtype, frozen); }};
}

}  // namespace plimsoll
