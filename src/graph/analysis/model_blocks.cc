#include "graph/analysis/analysis.h"

#include <algorithm>
#include <cctype>

#include "graph/ops/ops.h"

namespace plimsoll {

namespace {

bool is_number(std::string_view word) {
  return !word.empty() &&
         std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::string_view block_of_op(const Graph& graph, const Op& op) {
  return block_of(graph.module_name(op.module));
}

}  // namespace

std::string_view block_of(std::string_view module) {
  size_t begin = 0;
  while (begin <= module.size()) {
    const size_t end = std::min(module.find('.', begin), module.size());
    if (is_number(module.substr(begin, end - begin))) return module.substr(0, end);
    begin = end + 1;
  }
  return {};
}

std::string_view block_or_module(std::string_view module) {
  const std::string_view block = block_of(module);
  return block.empty() ? module : block;
}

std::vector<bool> find_block_ends(const Graph& graph) {
  std::vector<bool> ends(graph.ops().size(), false);
  for (const Op& op : graph.ops()) {
    if (op.segment != Segment::kForward) continue;
    for (ValueId id : op.inputs) {
      if (id == kNoValue || graph.value(id).producer == kNoOp) continue;
      const OpId producer = graph.value(id).producer;
      if (block_of_op(graph, op) != block_of_op(graph, graph.op(producer))) ends[index_of(producer)] = true;
    }
    for (ValueId id : op.outputs) {
      if (graph.value(id).storage == Storage::kOutput) ends[index_of(graph.value(id).producer)] = true;
    }
  }
  return ends;
}

std::string_view last_block_before_head(const Graph& graph) {
  for (size_t i = graph.ops().size(); i-- > 0;) {
    const Op& op = graph.ops()[i];
    if (op.segment != Segment::kForward) continue;
    if (const std::string_view block = block_of_op(graph, op); !block.empty()) return block;
    for (ValueId id : op.outputs) {
      if (graph.value(id).type.shape.has_token_rows()) return {};
    }
  }
  return {};
}

std::vector<bool> find_repeated_ops(const Graph& graph) {
  std::vector<bool> repeated(graph.ops().size(), false);
  std::vector<bool> derives(graph.values().size(), false);
  bool is_first = true;
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.ops()[i];
    // Copies between memory spaces recompute nothing, so they are not counted as recomputed ops.
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
