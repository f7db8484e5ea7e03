#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

void remove_dead_code(Graph& graph, const std::set<std::string>& keep) {
  std::vector<bool> needed(graph.values().size(), false);
  for (size_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    // Outputs and new versions of persistent values are needed even if no op reads them, because they have an effect
    // outside the program.
    needed[i] = value.storage == Storage::kOutput || keep.contains(value.name) ||
                (value.version_of != kNoValue && is_persistent(value.storage));
  }
  std::vector<bool> keep_op(graph.ops().size(), false);
  for (size_t i = graph.ops().size(); i-- > 0;) {
    const Op& op = graph.ops()[i];
    for (ValueId id : op.outputs) keep_op[i] = keep_op[i] || needed[index_of(id)];
    if (!keep_op[i]) continue;
    for (ValueId id : op.inputs) {
      if (id != kNoValue) needed[index_of(id)] = true;
    }
  }
  std::vector<Op> ops;
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    if (keep_op[i]) ops.push_back(std::move(graph.ops()[i]));
  }
  graph.replace_ops(std::move(ops));
  graph.drop_unused_values();
}

}  // namespace

Pass dead_code_pass(std::vector<std::string> keep) {
  return {.name = "dead_code",
          .numerics = Numerics::kPreserving,
          .help = "removes ops whose results are not read",
          .run = [names = std::set<std::string>(keep.begin(), keep.end())](Graph& graph) {
            remove_dead_code(graph, names);
          }};
}

}  // namespace plimsoll
