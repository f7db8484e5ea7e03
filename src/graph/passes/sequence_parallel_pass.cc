// Divides the rows of activations among the ranks of a tensor-parallel group, wherever ops work on each row separately: norms, dropout,
// residuals and biases between the matrix products that the group divides (Korthikanti et al., "Reducing activation recomputation in large
// transformer models", arXiv 2205.05198, section 4.2.2). Rank r of n has the r-th of n equal parts of the T rows:
//
//   y = norm(x + all_reduce(p))        ->  y = norm(x + own_rows(reduce_scatter(p)))                      x, y: T / n rows
//   z = matmul(y, w_r) {tensor_ranks}  ->  z = matmul(gather_rows(y) {sums_gradient=1}, w_r)              z: T rows
//   h = first_token(y)                 ->  h = first_token(gather_rows(y) {sums_gradient=0})
//
// An all_reduce sends as many bytes as a reduce_scatter and a gather_rows together. If all ops that need all rows of a value are products
// with this rank's part of a weight in a block of the model, the reduce_scatter in the gradient of gather_rows sums the gradients that the
// ranks compute for the value. The attribute {tensor_ranks}, which would sum them by an all_reduce, is then removed from the products.
// Otherwise, for example if a classifier reads the value, each rank computes the complete gradient.
//
// The product of an adapter (LoRA) with a matrix that every rank stores completely also computes only T / n rows.
//
// Dropout draws the random number of an element by the element's index among the rows of all ranks; the shape (T/n rows) tells the kernel
// to do so. From T / n rows each rank computes only one term of the gradient of a weight; the pass row_gradients sums these terms. The pass
// runs on a forward graph.
#include <algorithm>
#include <utility>
#include <vector>

#include "graph/analysis/analysis.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

class SequenceParallel {
 public:
  SequenceParallel(Graph& graph, int64_t ranks)
      : graph_(graph), ranks_(ranks), readers_(find_readers(graph)), forms_(graph.values().size()) {}

  void run() {
    find_row_ops();
    std::vector<Op> old_ops = graph_.ops();
    for (size_t i = 0; i < old_ops.size(); ++i) place(std::move(old_ops[i]), works_on_rows_[i]);
    graph_.replace_ops(std::move(ops_));
    graph_.drop_unused_values();
  }

 private:
  // The values of the new graph for one value of the original graph: one with all rows, and one with the rows of this rank. At least one of
  // them exists.
  struct Forms {
    ValueId whole = kNoValue;
    ValueId rows = kNoValue;
  };

  // Marks the ops that a rank can compute for its own rows only, because each row of the result depends on the same row of the operands.
  void find_row_ops() {
    for (const Op& op : graph_.ops()) {
      const OpSchema& schema = schema_of(op);
      const bool is_of_kind = schema.group() == OpGroup::kElementWise ||
                              schema.group() == OpGroup::kNormalization || is_whole_product(op);
      const auto is_divisible = [&](ValueId id) {
        return is_of_tokens(id) && graph_.value(id).storage == Storage::kTransient;
      };
      works_on_rows_.push_back(is_of_kind && schema.works_row_by_row({graph_, op}) &&
                               !op.attributes.has(kTensorRanks) &&
                               std::ranges::all_of(op.outputs, is_divisible));
    }
  }

  // Returns true for a product in a block of the model with a weight that every rank stores whole: one of the matrices of an adapter.
  bool is_whole_product(const Op& op) const {
    return op.def == &matmul_op() && !graph_.value(op.inputs[MatmulOp::kB]).split &&
           !block_of(graph_.module_name(op.module)).empty();
  }

  // Returns true if a value has one row per token.
  bool is_of_tokens(ValueId id) const {
    const Shape& shape = graph_.value(id).type.shape;
    return shape.rank() > 0 && shape[0].whole() == kDimT;
  }

  bool is_read_by_row_op(ValueId id) const {
    return std::ranges::any_of(readers_[index_of(id)], [&](uint32_t op) { return works_on_rows_[op]; });
  }

  // Returns true if this op sums activations over the ranks of a tensor-parallel group.
  static bool is_sum(const Op& op) {
    return op.def == &all_reduce_op() && mesh_axis_of(op.attributes) == MeshAxis::kTensor;
  }

  void place(Op op, bool works_on_rows) {
    const bool divides = works_on_rows && std::ranges::any_of(op.inputs, [&](ValueId id) {
                           return id != kNoValue && forms_[index_of(id)].rows != kNoValue;
                         });
    bool gathers_parts = false;
    for (ValueId& id : op.inputs) {
      if (id == kNoValue || graph_.value(id).producer == kNoOp || !is_of_tokens(id)) continue;
      const ValueId read = id;
      id = divides ? rows_of(read, op) : whole_of(read, op);
      gathers_parts = gathers_parts || (id != read && !divides && sums_gradient_of(read));
    }
    if (gathers_parts) op.attributes.erase(kTensorRanks);
    const std::vector<ValueType> types = op.def->infer({graph_, op});
    for (size_t k = 0; k < types.size(); ++k) {
      graph_.value(op.outputs[k]).type = types[k];
      (divides ? forms_[index_of(op.outputs[k])].rows : forms_[index_of(op.outputs[k])].whole) =
          op.outputs[k];
    }
    const ValueId result = op.outputs.front();
    const bool begins = (is_sum(op) || op.def == &embedding_sum_op()) && is_of_tokens(result) &&
                        graph_.value(result).storage == Storage::kTransient && is_read_by_row_op(result);
    if (begins && is_sum(op)) {
      op.def = &reduce_scatter_op();
      op.attributes = attributes_of_row_slices(ranks_);
      forms_[index_of(result)].whole = kNoValue;
    }
    ops_.push_back(op);
    if (begins) forms_[index_of(result)].rows = append_own_rows(result, op);
  }

  ValueId rows_of(ValueId id, const Op& reader) {
    Forms& forms = forms_[index_of(id)];
    if (forms.rows == kNoValue) forms.rows = append_own_rows(forms.whole, reader);
    return forms.rows;
  }

  ValueId whole_of(ValueId id, const Op& reader) {
    Forms& forms = forms_[index_of(id)];
    if (forms.whole == kNoValue) {
      const RowGradient gradient = sums_gradient_of(id) ? RowGradient::kPart : RowGradient::kWhole;
      forms.whole =
          append(gather_rows_op(), forms.rows, gather_rows_attributes(ranks_, gradient), "gathered", reader);
    }
    return forms.whole;
  }

  // Returns true if all ops that need all rows of a value are matrix products, within blocks of the model, with this rank's part of a
  // weight.
  bool sums_gradient_of(ValueId id) const {
    return std::ranges::all_of(readers_[index_of(id)], [&](uint32_t at) {
      const Op& op = graph_.ops()[at];
      return works_on_rows_[at] ||
             (op.def == &matmul_op() && op.attributes.has(kTensorRanks) && op.inputs[MatmulOp::kA] == id &&
              op.inputs[MatmulOp::kB] != id && !block_of(graph_.module_name(op.module)).empty());
    });
  }

  ValueId append_own_rows(ValueId id, const Op& like) {
    return append(own_rows_op(), id, attributes_of_row_slices(ranks_), "rows", like);
  }

  // Appends an op with one operand in the module of `like`, and returns its result.
  ValueId append(const OpSchema& def, ValueId x, Attributes attributes, std::string_view suffix,
                 const Op& like) {
    Op op{.def = &def,
          .inputs = {x},
          .outputs = {},
          .attributes = std::move(attributes),
          .segment = like.segment,
          .module = like.module};
    const std::string name = fmt::format("{}.{}", graph_.value(x).name, suffix);
    const ValueId y =
        graph_.add_value(graph_.unique_name(name), def.infer({graph_, op}).front(), Storage::kTransient);
    graph_.value(y).module = like.module;
    op.outputs = {y};
    ops_.push_back(std::move(op));
    return y;
  }

  Graph& graph_;
  int64_t ranks_;
  OpLists readers_;
  std::vector<Forms> forms_;  // for each value of the original graph: its values in the new graph
  // For each op of the original graph: true if a rank can run it on its own rows only.
  std::vector<bool> works_on_rows_;
  std::vector<Op> ops_;
};

}  // namespace

Pass sequence_parallel_pass(int64_t ranks) {
  return {.name = "sequence_parallel",
          .numerics = Numerics::kChanging,
          .help = "divides the rows of norms, dropout and residuals among the ranks that divide the layers",
          .needed_for = "--sequence_parallel",
          .run = [ranks](Graph& graph) {
            if (ranks > 1) SequenceParallel(graph, ranks).run();
          }};
}

}  // namespace plimsoll
