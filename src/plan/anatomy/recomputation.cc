#include "plan/anatomy/anatomy.h"

#include <algorithm>

#include "graph/analysis/analysis.h"
#include "plan/anatomy/operations.h"

namespace plimsoll {
namespace {

std::string part_of(const Graph& graph, ModuleId module) {
  const std::string& name = graph.module_name(module);
  const std::string_view block = block_of(name);
  return block.empty() ? name : std::string(block);
}

}  // namespace

std::vector<Recomputation> recomputation(const Plan& plan) {
  if (!plan.trains()) return {};
  const ProgramPlan& program = plan.programs.at(kTrainProgram);
  const Graph& graph = program.graph;
  std::vector<Recomputation> parts;
  std::map<std::string, size_t> index;
  const auto part = [&](ModuleId module) -> Recomputation& {
    const std::string name = part_of(graph, module);
    const auto [it, inserted] = index.emplace(name, parts.size());
    if (inserted) parts.push_back({.block = name});
    return parts[it->second];
  };
  for (const Op& op : graph.ops()) part(op.module);
  for (const TransientBuffer& buffer : program.buffers) {
    if (buffer.root == kNoValue || buffer.purpose != Purpose::kSaved) continue;
    part(graph.op(graph.value(buffer.root).producer).module).kept_bytes += buffer.bytes;
  }
  const std::vector<bool> repeated = find_repeated_ops(graph);
  const std::vector<OpEstimate> estimates = estimate_ops(plan, program);
  for (size_t i = 0; i < repeated.size(); ++i) {
    if (!repeated[i]) continue;
    const Op& op = graph.ops()[i];
    Recomputation& row = part(op.module);
    const auto runs = static_cast<double>(estimates[i].runs_per_step);
    for (ValueId id : op.outputs) row.again_bytes += graph.value(id).bytes(program.bucket);
    row.flops += estimates[i].flops * runs;
    row.ms += estimates[i].ms * runs;
    ++row.ops[estimates[i].op];
  }
  std::erase_if(parts, [](const Recomputation& row) { return row.kept_bytes == 0 && row.ops.empty(); });
  return parts;
}

}  // namespace plimsoll
