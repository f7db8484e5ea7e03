// Runs after gradients and updates have been added to a graph that the pass pipeline_stage has divided. A weight that the first and the
// last stage of a pipeline read, such as a word table that is also the head, is stored by both stages. They sum its gradient before the
// update, so that both make the same update. The norm of all gradients must cover the whole model: each stage computes the norm of its own
// gradients (the last stage omits those of shared weights, which the first stage counts), and the stages exchange and combine their norms:
//
//   norm, finite, bad = norm(g.., loss)  ->  of_stage, _, bad = norm(g..); norms = norm(of_stage) {ranks}; all_gather(norms);
//                                            norm, finite = norm(norms, loss)
//
// The ranks of a stage may already divide the norm among them (divided_norm.h); this pass then changes the last norm op of that division.
#include <algorithm>

#include "graph/analysis/liveness.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"
#include "graph/ops/update.h"
#include "graph/passes/divided_norm.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

class PipelineStates {
 public:
  PipelineStates(Graph& graph, const PipelineDivision& division, const std::set<std::string>& shared)
      : graph_(graph), division_(division), shared_(shared), sum_of_(graph.values().size(), kNoValue) {}

  void run() {
    const std::vector<Op> old_ops = graph_.ops();
    find_shared_gradients(old_ops);
    size_t last_norm = 0;
    for (size_t i = 0; i < old_ops.size(); ++i) {
      if (old_ops[i].def == &global_norm_op()) last_norm = i;
    }
    bool is_summed = false;
    for (size_t i = 0; i < old_ops.size(); ++i) {
      Op op = old_ops[i];
      if (op.segment == Segment::kOptimizer && !schema_of(op).is_communication() && !is_summed) {
        sum_gradients(op);
        is_summed = true;
      }
      if (op.segment == Segment::kOptimizer) {
        for (ValueId& id : op.inputs) {
          if (has_sum(id)) id = sum_of_[index_of(id)];
        }
      }
      if (op.def == &global_norm_op()) omit_shared_gradients(op);
      if (i == last_norm && op.def == &global_norm_op()) {
        append_norm_of_ranks(graph_, op, division_.num_stages(), MeshAxis::kPipeline, ops_);
      } else {
        ops_.push_back(std::move(op));
      }
    }
    graph_.replace_ops(std::move(ops_));
  }

 private:
  bool has_sum(ValueId id) const {
    return id != kNoValue && index_of(id) < sum_of_.size() && sum_of_[index_of(id)] != kNoValue;
  }

  void find_shared_gradients(const std::vector<Op>& ops) {
    for (const Op& op : ops) {
      const auto* update = dynamic_cast<const Update*>(op.def);
      if (update == nullptr) continue;
      const auto stride = static_cast<size_t>(update->stride({graph_, op}));
      for (size_t i = UpdateOp::kParameter; i < op.inputs.size(); i += stride) {
        if (shared_.contains(graph_.value(root_of(graph_, op.inputs[i])).name))
          gradients_.push_back(op.inputs[i + 1]);
      }
    }
  }

  // The first and the last stage must sum numbers of one type, so 16-bit gradients are converted to fp32 first.
  ValueId in_fp32(ValueId gradient, const Op& like) {
    const Value value = graph_.value(gradient);
    if (dtype_bytes(value.type.dtype) >= 4) return gradient;
    const ValueId wide = graph_.add_value(graph_.unique_name(value.name + ".f32"),
                                          {DType::kF32, value.type.shape}, Storage::kTransient);
    graph_.value(wide).module = value.module;
    graph_.value(wide).split = value.split;
    ops_.push_back({.def = &cast_op(),
                    .inputs = {gradient},
                    .outputs = {wide},
                    .attributes = {{"dtype", std::string(dtype_name(DType::kF32))}},
                    .segment = like.segment,
                    .module = like.module});
    return wide;
  }

  void sum_gradients(const Op& like) {
    for (const ValueId gradient : gradients_) {
      const ValueId summand = in_fp32(gradient, like);
      const Value value = graph_.value(summand);
      const ValueId sum =
          graph_.add_value(graph_.unique_name(value.name + ".of_ends"), value.type, value.storage);
      graph_.value(sum).version_of = summand;
      graph_.value(sum).module = value.module;
      graph_.value(sum).split = value.split;
      graph_.value(sum).is_parameter_gradient = true;
      sum_of_[index_of(gradient)] = sum;
      sums_.insert(sum);
      Attributes attributes{{"ranks", int64_t{2}}};
      set_mesh_axis(attributes, MeshAxis::kEnds);
      ops_.push_back({.def = &all_reduce_op(),
                      .inputs = {summand},
                      .outputs = {sum},
                      .attributes = std::move(attributes),
                      .segment = like.segment,
                      .module = like.module});
    }
  }

  // Removes the gradients of shared weights from the norm of every stage except the first, so that they count once in the norm of the
  // model.
  void omit_shared_gradients(Op& norm) const {
    if (division_.stage == 0) return;
    const auto is_sum = [&](ValueId id) { return sums_.contains(id); };
    norm.inputs.erase(std::remove_if(norm.inputs.begin(), norm.inputs.end(), is_sum), norm.inputs.end());
  }

  Graph& graph_;
  const PipelineDivision& division_;
  const std::set<std::string>& shared_;
  std::vector<ValueId> sum_of_;  // per gradient, its sum over the first and the last stage
  std::vector<ValueId> gradients_;
  std::set<ValueId> sums_;
  std::vector<Op> ops_;
};

}  // namespace

Pass pipeline_states_pass(PipelineDivision division, std::set<std::string> shared) {
  return {.name = "pipeline_states",
          .numerics = Numerics::kChanging,
          .help =
              "sums the gradients of weights that the first and the last pipeline stage share, and computes "
              "the norm of all gradients",
          .needed_for = "--pp_size above 1",
          .run = [division = std::move(division), shared = std::move(shared)](Graph& graph) {
            if (division.num_stages() > 1) PipelineStates(graph, division, shared).run();
          }};
}

}  // namespace plimsoll
