#include <algorithm>
#include <map>

#include "graph/analysis/analysis.h"
#include "graph/ops/ops.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

// A classifier reads the first token of each sequence, or the last one. So only those rows of the last layers are needed, back to the
// last op that mixes rows (attention). The pass moves first_token up through ops that work row by row: f(x)[first] =
// f(x[first]). Runs on a forward graph.
class UnreadRows {
 public:
  explicit UnreadRows(Graph& graph)
      : graph_(graph), readers_(find_readers(graph)), narrow_(graph.ops().size(), false) {}

  void run() {
    find_narrow_ops();
    std::vector<Op> ops;
    // If the operand of a first_token op now contains the selected rows only, that op is removed, and this map replaces its output by its
    // operand.
    std::map<ValueId, ValueId> replacement;
    std::vector<Op> old_ops = graph_.ops();
    for (uint32_t i = 0; i < old_ops.size(); ++i) {
      Op& op = old_ops[i];
      for (ValueId& id : op.inputs) {
        if (const auto it = replacement.find(id); it != replacement.end()) id = it->second;
      }
      if (op.def == &first_token_op() && is_born_narrow(op.inputs[FirstTokenOp::kX])) {
        replacement.emplace(op.outputs[FirstTokenOp::kY], op.inputs[FirstTokenOp::kX]);
        continue;
      }
      if (narrow_[i]) {
        for (ValueId& id : op.inputs) {
          if (id != kNoValue && graph_.value(id).type.shape.has_token_rows()) id = first_rows_of(id, op, ops);
        }
        const std::vector<ValueType> types = op.def->infer({graph_, op});
        for (size_t k = 0; k < types.size(); ++k) graph_.value(op.outputs[k]).type = types[k];
      }
      ops.push_back(std::move(op));
    }
    graph_.replace_ops(std::move(ops));
    graph_.drop_unused_values();
  }

 private:
  // Finds the ops that need only the selected rows (one token per sequence), from the last op to the first. Such an op is called narrow: it
  // works row by row, and only first_token or other narrow ops read its results.
  void find_narrow_ops() {
    for (size_t i = graph_.ops().size(); i-- > 0;) {
      const Op& op = graph_.ops()[i];
      if (op.def == &first_token_op()) {
        cu_seqlens_ = op.inputs[FirstTokenOp::kCuSeqlens];
        which_ = op.attributes;
      }
      narrow_[i] = graph_.value(op.outputs.front()).type.shape.has_token_rows() &&
                   schema_of(op).works_row_by_row({graph_, op}) && only_first_rows_are_read(op);
    }
  }

  bool only_first_rows_are_read(const Op& op) const {
    bool read = false;
    for (ValueId id : op.outputs) {
      if (graph_.value(id).storage != Storage::kTransient) return false;
      for (uint32_t reader : readers_[index_of(id)]) {
        if (!narrow_[reader] && graph_.ops()[reader].def != &first_token_op()) return false;
        read = true;
      }
    }
    return read;
  }

  bool is_born_narrow(ValueId id) const {
    const OpId producer = graph_.value(id).producer;
    return producer != kNoOp && narrow_[index_of(producer)];
  }

  // Returns the selected rows of a value that is computed for all rows. The ops that need only the selected rows of the value read this
  // result, and all of them share one first_token op.
  ValueId first_rows_of(ValueId id, const Op& reader, std::vector<Op>& ops) {
    if (const auto it = first_rows_.find(id); it != first_rows_.end()) return it->second;
    Op first;
    first.def = &first_token_op();
    first.inputs = {id, cu_seqlens_};
    first.attributes = which_;
    first.segment = reader.segment;
    first.module = reader.module;
    const std::vector<ValueType> types = first.def->infer({graph_, first});
    const ValueId rows = graph_.add_value(graph_.unique_name(graph_.value(id).name + ".first_rows"),
                                          types.front(), Storage::kTransient);
    graph_.value(rows).module = reader.module;
    first.outputs = {rows};
    ops.push_back(std::move(first));
    first_rows_.emplace(id, rows);
    return rows;
  }

  Graph& graph_;
  OpLists readers_;
  std::vector<bool> narrow_;
  ValueId cu_seqlens_ = kNoValue;
  Attributes which_;  // the attributes of the first_token ops, which select the first or the last token
  std::map<ValueId, ValueId> first_rows_;
};

}  // namespace

Pass unread_rows_pass() {
  return {.name = "unread_rows",
          .numerics = Numerics::kChanging,
          .help = "after the last attention, computes only the tokens that the classifier reads",
          .run = [](Graph& graph) { UnreadRows(graph).run(); }};
}

}  // namespace plimsoll
