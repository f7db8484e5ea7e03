// Completes what the pass pipeline_stage begins, when gradients and updates exist. A weight that the first and the last stage of a pipeline
// read, such as a word table that is also the head, is stored by both stages. They sum its gradient before the update, so that both make
// the same update. The norm of all gradients must be the norm of the whole model: each stage computes the norm of its own gradients, the
// last stage without the gradients of shared weights, and the stages exchange these numbers:
//
//   norm, finite, bad = norm(g.., loss)  ->  of_stage, _, bad = norm(g..); norms = norm(of_stage) {ranks}; all_gather(norms);
//                                            norm, finite = norm(norms, loss)
//
// If the ranks of a stage already compute the norm together (divided_norm.h), the last of those ops is also a norm op, and this pass
// changes that op.
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
    bool is_summed = false;
    for (const Op& old_op : old_ops) {
      Op op = old_op;
      if (op.segment == Segment::kOptimizer && !schema_of(op).is_communication() && !is_summed) {
        sum_gradients(op);
        is_summed = true;
      }
      if (op.segment == Segment::kOptimizer) {
        for (ValueId& id : op.inputs) {
          if (has_sum(id)) id = sum_of_[index_of(id)];
        }
      }
      if (op.def == &global_norm_op()) {
        divide_norm(op);
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

  void divide_norm(Op op) {
    // The gradients of shared weights count once in the norm: on the first stage.
    if (division_.stage > 0) {
      const auto is_sum = [&](ValueId id) { return sums_.contains(id); };
      op.inputs.erase(std::remove_if(op.inputs.begin(), op.inputs.end(), is_sum), op.inputs.end());
    }
    if (rank_slices_of(op.attributes)) {
      ops_.push_back(std::move(op));
      return;
    }
    const auto number_like = [&](ValueId like) {
      const Value value = graph_.value(like);
      const ValueId id =
          graph_.add_value(graph_.unique_name(value.name + ".of_stage"), value.type, Storage::kTransient);
      graph_.value(id).module = value.module;
      return id;
    };
    Op of_stage = op;
    const std::span<const ValueId> gradients = gradients_of_norm(op);
    of_stage.inputs.assign(gradients.begin(), gradients.end());
    of_stage.attributes = {};
    if (op.outputs.size() > GlobalNormOp::kFirstBad) of_stage.attributes.set("names_bad", int64_t{1});
    of_stage.outputs[GlobalNormOp::kNorm] = number_like(op.outputs[GlobalNormOp::kNorm]);
    of_stage.outputs[GlobalNormOp::kFinite] = number_like(op.outputs[GlobalNormOp::kFinite]);
    Op of_all = op;
    of_all.inputs.erase(of_all.inputs.begin(), of_all.inputs.begin() + std::ssize(gradients));
    of_all.inputs.insert(of_all.inputs.begin(), of_stage.outputs[GlobalNormOp::kNorm]);
    of_all.attributes = {};
    if (op.attributes.has("with_loss"))
      of_all.attributes.set("with_loss", op.attributes.integer("with_loss"));
    of_all.outputs.resize(GlobalNormOp::kFirstBad);
    ops_.push_back(std::move(of_stage));
    append_divided_norm(graph_, of_all, {.ranks = division_.num_stages()}, MeshAxis::kPipeline, ops_);
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
