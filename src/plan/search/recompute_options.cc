#include "plan/search/recompute_options.h"

#include <algorithm>
#include <numeric>

#include "graph/analysis/analysis.h"
#include "graph/ops/op.h"
#include "plan/anatomy/operations.h"
#include "plan/compile/graphs.h"

namespace plimsoll {
namespace {

constexpr int64_t kBlocksOfSmallModel = 3;

std::string_view block_of_op(const Graph& graph, const Op& op) {
  return block_of(graph.module_name(op.module));
}

// Values of a block of the model that are always kept together or recomputed together.
struct Kind {
  std::set<ValuePlace> places;
  int64_t bytes = 0;
};

// Finds the values of a block that the backward pass reads, and groups them into kinds. Values that one run of an op recomputes together
// form one kind; a value with its own recipe (rule for recomputing it) forms a kind alone. The output of the block is always kept.
std::vector<Kind> kinds_of(const ProgramPlan& program, const BlockOps& block) {
  const Graph& graph = program.graph;
  std::vector<bool> read(graph.values().size(), false);
  for (const Op& op : graph.ops()) {
    if (op.segment != Segment::kBackward) continue;
    for (ValueId id : op.inputs) {
      if (id != kNoValue) read[index_of(id)] = true;
    }
  }
  const std::vector<bool> ends = find_block_ends(graph);
  std::vector<Kind> kinds;
  for (size_t i = 0; i < block.ops.size(); ++i) {
    const Op& op = graph.ops()[block.ops[i]];
    Kind together;
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      const ValueId id = op.outputs[k];
      if (!read[index_of(id)] || graph.value(id).storage != Storage::kTransient) continue;
      const int64_t bytes = graph.value(id).bytes(program.bucket);
      if (schema_of(op).recipe({graph, op}, static_cast<int>(k))) {
        kinds.push_back({{{i, k}}, bytes});
      } else if (!ends[block.ops[i]]) {
        together.places.insert({i, k});
        together.bytes += bytes;
      }
    }
    if (!together.places.empty()) kinds.push_back(std::move(together));
  }
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const Kind& a, const Kind& b) { return a.bytes > b.bytes; });
  return kinds;
}

// Measures the cost of one block of a plan: the time of recomputation, and the bytes that are live while its backward pass runs.
RecomputeOption measured(const Plan& plan, const std::string& block) {
  const ProgramPlan& program = plan.programs.at(kTrainProgram);
  const Graph& graph = program.graph;
  const std::vector<bool> repeated = find_repeated_ops(graph);
  const std::vector<OpEstimate> estimates = estimate_ops(plan, program);
  RecomputeOption option;
  uint32_t first = static_cast<uint32_t>(graph.ops().size());
  uint32_t last = 0;
  for (uint32_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.ops()[i];
    if (op.segment != Segment::kBackward || block_of_op(graph, op) != block) continue;
    first = std::min(first, i);
    last = std::max(last, i);
    if (repeated[i]) option.ms += estimates[i].ms * static_cast<double>(estimates[i].runs_per_step);
  }
  std::vector<int64_t> change(graph.ops().size() + 1, 0);
  for (const TransientBuffer& buffer : program.buffers) {
    // Skips buffers that are live before the block and after it, because the block neither keeps nor computes their values.
    if (buffer.first < first && buffer.last > last) continue;
    change[buffer.first] += buffer.bytes;
    change[size_t{buffer.last} + 1] -= buffer.bytes;
    if (buffer.root == kNoValue || buffer.purpose != Purpose::kSaved) continue;
    const Op& producer = graph.op(graph.value(buffer.root).producer);
    if (block_of_op(graph, producer) == block) option.kept_bytes += buffer.bytes;
  }
  int64_t live = 0;
  for (uint32_t i = 0; i <= last; ++i) {
    live += change[i];
    if (i >= first) option.working_bytes = std::max(option.working_bytes, live);
  }
  // Values of this block that backward passes of earlier blocks read are still live in those passes. There they are part of the
  // working_bytes of the earlier blocks.
  return option;
}

PlanRequest small_request_of(const PlanRequest& request) {
  PlanRequest small = request;
  small.model.config.num_hidden_layers =
      std::min(request.model.config.num_hidden_layers, kBlocksOfSmallModel);
  small.evaluate = false;
  small.memory_limit_bytes.reset();
  small.passes.dump = nullptr;
  small.recompute = {.policy = RecomputePolicy::kNone};
  // With separate buffers, no layout is searched. It is not needed, because only the sizes and lifetimes of the buffers are
  // read.
  small.separate_buffers = true;
  return small;
}

}  // namespace

std::vector<BlockOps> forward_blocks(const Graph& graph) {
  std::vector<BlockOps> blocks;
  for (uint32_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.ops()[i];
    if (op.segment != Segment::kForward) continue;
    const std::string_view name = block_of_op(graph, op);
    if (name.empty()) continue;
    const auto it =
        std::find_if(blocks.begin(), blocks.end(), [&](const BlockOps& block) { return block.name == name; });
    if (it == blocks.end()) {
      blocks.push_back({.name = std::string(name), .ops = {i}});
    } else {
      it->ops.push_back(i);
    }
  }
  return blocks;
}

std::set<std::string, std::less<>> names_of(const Graph& graph, const BlockOps& block,
                                            const std::set<ValuePlace>& places) {
  std::set<std::string, std::less<>> names;
  for (const ValuePlace& place : places) {
    if (place.op >= block.ops.size()) continue;
    const Op& op = graph.ops()[block.ops[place.op]];
    if (place.output < op.outputs.size()) names.insert(graph.value(op.outputs[place.output]).name);
  }
  return names;
}

RecomputeOptions recompute_options(const PlanRequest& request) {
  PlanRequest small = small_request_of(request);
  const PlanGraphs begun = begin_graphs(small);
  const Plan none = place_plan(small, finish_graphs(small, begun));
  const std::vector<BlockOps> blocks = forward_blocks(none.programs.at(kTrainProgram).graph);
  if (blocks.empty()) return {};
  const BlockOps& middle = blocks[(blocks.size() - 1) / 2];
  std::vector<Kind> kinds = kinds_of(none.programs.at(kTrainProgram), middle);
  std::set<ValuePlace> always;
  while (kinds.size() > kMostKinds) {
    always.insert(kinds.back().places.begin(), kinds.back().places.end());
    kinds.pop_back();
  }
  std::vector<RecomputeOption> options;
  std::vector<std::set<ValuePlace>> kept;
  for (uint32_t set = 0; set < (uint32_t{1} << kinds.size()); ++set) {
    std::set<ValuePlace> places = always;
    for (size_t k = 0; k < kinds.size(); ++k) {
      if ((set >> k & 1u) != 0) places.insert(kinds[k].places.begin(), kinds[k].places.end());
    }
    for (const BlockOps& block : blocks) {
      small.recompute.kept_of_block[block.name] =
          names_of(none.programs.at(kTrainProgram).graph, block, places);
    }
    options.push_back(measured(place_plan(small, finish_graphs(small, begun)), middle.name));
    kept.push_back(std::move(places));
  }
  RecomputeOptions menu;
  for (size_t i : pareto_front(options)) {
    menu.options.push_back(options[i]);
    menu.kept.push_back(std::move(kept[i]));
  }
  return menu;
}

}  // namespace plimsoll
