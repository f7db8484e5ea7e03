// Lists the operands of the update ops by parameter, for update rules that the caller implements.
#include "exec/executor.h"

namespace plimsoll {

std::vector<UpdatedParameter> Executor::updated_parameters() {
  const ProgramPlan& program_plan = *program_of(kTrainProgram).plan;
  const Graph& graph = program_plan.graph;
  PLIMSOLL_CHECK(plan_.host_arena_bytes == 0,
                 "the states are in the host's memory, and updates work on copies of them");
  backend_->wait();
  const auto view_of = [&](ValueId id) {
    return View{backend_->arena(Space::kDevice).at(program_plan.offsets[index_of(id)]),
                graph.value(id).type.dtype};
  };
  std::vector<UpdatedParameter> parameters;
  for (const Op& op : graph.ops()) {
    if (op.segment != Segment::kOptimizer) continue;
    // An update's operands (graph/ops/update.h): a weight, its gradient, its states, then the next weight.
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i] == kNoValue) continue;
      const Value& value = graph.value(op.inputs[i]);
      if (value.storage == Storage::kWeight) {
        PLIMSOLL_CHECK(i + 1 < op.inputs.size(), "'{}' is updated without a gradient", value.name);
        parameters.push_back({.name = value.name,
                              .count = value.type.shape.elements(program_plan.bucket),
                              .weight = view_of(op.inputs[i]),
                              .gradient = view_of(op.inputs[i + 1]),
                              .states = {}});
      } else if (value.storage == Storage::kOptimizerState && !parameters.empty() &&
                 value.type.shape.elements(program_plan.bucket) == parameters.back().count) {
        parameters.back().states.push_back(view_of(op.inputs[i]));
      }
    }
  }
  return parameters;
}

}  // namespace plimsoll
