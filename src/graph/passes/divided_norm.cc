#include "graph/passes/divided_norm.h"

#include <fmt/format.h>

#include <utility>

#include "graph/ops/ops.h"
#include "graph/ops/slice.h"

namespace plimsoll {

std::vector<ValueId> append_gather(Graph& graph, const Op& like, const std::vector<ValueId>& values,
                                   const RankSlices& slices, MeshAxis axis, std::vector<Op>& ops) {
  Op op = like;
  op.def = &all_gather_op();
  op.inputs = values;
  op.outputs.clear();
  op.attributes = {};
  set_rank_slices(op.attributes, slices);
  set_mesh_axis(op.attributes, axis);
  for (const ValueId id : values) {
    const Value value = graph.value(id);
    const ValueId whole =
        graph.add_value(graph.unique_name(value.name + ".gathered"), value.type, value.storage);
    graph.value(whole).version_of = id;
    graph.value(whole).module = value.module;
    op.outputs.push_back(whole);
  }
  ops.push_back(op);
  return {op.outputs.begin(), op.outputs.end()};
}

void append_divided_norm(Graph& graph, const Op& norm, const RankSlices& slices, MeshAxis axis,
                         std::vector<Op>& ops) {
  const std::span<const ValueId> gradients = gradients_of_norm(norm);
  const bool names_bad = norm.outputs.size() > GlobalNormOp::kFirstBad;
  const DType dtype = graph.value(norm.outputs[GlobalNormOp::kNorm]).type.dtype;
  const auto add = [&](ValueId like, const ValueType& type) {
    const Value value = graph.value(like);
    const ValueId id =
        graph.add_value(graph.unique_name(value.name + ".of_ranks"), type, Storage::kTransient);
    graph.value(id).module = value.module;
    return id;
  };
  Op of_rank = norm;
  of_rank.inputs.assign(gradients.begin(), gradients.end());
  of_rank.attributes = {};
  if (names_bad) of_rank.attributes.set("names_bad", int64_t{1});
  set_rank_slices(of_rank.attributes, slices);
  set_mesh_axis(of_rank.attributes, axis);
  of_rank.outputs[GlobalNormOp::kNorm] = add(norm.outputs[GlobalNormOp::kNorm], {dtype, Shape{slices.ranks}});
  of_rank.outputs[GlobalNormOp::kFinite] = add(norm.outputs[GlobalNormOp::kFinite], {dtype, Shape{1}});
  std::vector<ValueId> gathered{of_rank.outputs[GlobalNormOp::kNorm]};
  if (names_bad) {
    const ValueId first_bad = norm.outputs[GlobalNormOp::kFirstBad];
    graph.value(first_bad).type.shape = Shape{slices.ranks};
    gathered.push_back(first_bad);
  }
  ops.push_back(std::move(of_rank));
  gathered = append_gather(graph, norm, gathered, {.ranks = slices.ranks, .block = 1}, axis, ops);
  Op joined = norm;
  joined.inputs = {gathered.front()};
  joined.inputs.insert(joined.inputs.end(), norm.inputs.begin() + std::ssize(gradients), norm.inputs.end());
  joined.attributes = {};
  if (norm.attributes.has("with_loss"))
    joined.attributes.set("with_loss", norm.attributes.integer("with_loss"));
  joined.outputs.resize(GlobalNormOp::kFirstBad);
  ops.push_back(std::move(joined));
}

void append_norm_of_ranks(Graph& graph, const Op& norm, int64_t ranks, MeshAxis axis, std::vector<Op>& ops) {
  const auto number_like = [&](ValueId like) {
    const Value value = graph.value(like);
    const ValueId id =
        graph.add_value(graph.unique_name(fmt::format("{}.of_{}", value.name,
                                                      axis == MeshAxis::kPipeline ? "stage" : "part")),
                        value.type, Storage::kTransient);
    graph.value(id).module = value.module;
    return id;
  };
  const std::span<const ValueId> gradients = gradients_of_norm(norm);
  Op own = norm;
  own.inputs.assign(gradients.begin(), gradients.end());
  own.attributes = {};
  if (norm.outputs.size() > GlobalNormOp::kFirstBad) own.attributes.set("names_bad", int64_t{1});
  own.outputs[GlobalNormOp::kNorm] = number_like(norm.outputs[GlobalNormOp::kNorm]);
  own.outputs[GlobalNormOp::kFinite] = number_like(norm.outputs[GlobalNormOp::kFinite]);
  const ValueId number = own.outputs[GlobalNormOp::kNorm];
  // If the ranks are those of a tensor-parallel group, declares the norms as a vector with one element per rank, so that the next norm op
  // reads the element of its rank. If the value were declared as undivided, the next norm op would distribute its elements among the ranks,
  // so that only one rank would read the single number that the value contains.
  if (axis == MeshAxis::kTensor)
    graph.value(number).split = TensorSplit{.ranks = ranks, .parts = {ranks}, .whole = Shape{ranks}};
  Op all = norm;
  all.inputs.erase(all.inputs.begin(), all.inputs.begin() + std::ssize(gradients));
  all.inputs.insert(all.inputs.begin(), number);
  all.attributes = {};
  if (norm.attributes.has("with_loss")) all.attributes.set("with_loss", norm.attributes.integer("with_loss"));
  all.outputs.resize(GlobalNormOp::kFirstBad);
  ops.push_back(std::move(own));
  append_divided_norm(graph, all, {.ranks = ranks}, axis, ops);
}

}  // namespace plimsoll
