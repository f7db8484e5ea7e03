// Divides the rows of all activations among the ranks of a group, which read the same batch and store complete weights (context parallelism
// in the form of DeepSpeed-Ulysses: Jacobs et al., arXiv 2309.14509). Rank r of n has the r-th of n equal parts of the T rows. Only
// attention reads all T rows, and only for 1 / n of the heads:
//
//   x = embedding_sum(cu, ids, table)      ->  x = embedding_sum(own_starts, ids, table)              x, ids: T / n rows
//   q = matmul(x, w)                       ->  q = matmul(x, w)                                       q: T / n rows
//   o = attention(q, cu)                   ->  h = exchange_heads(q) {to="heads"}                     h: T rows of some heads
//                                              a = attention(h, cu) {tensor_ranks=n}
//                                              o = exchange_heads(a) {to="rows"}                      o: T / n rows
//   loss = nll(log_p, labels, denominator) ->  loss = nll(..); loss.sum = all_reduce(loss)            of T / n rows
//   f = first_token(x, cu)                 ->  f = first_token(gather_rows(x) {sums_gradient=0}, cu)
//
// The host writes only the rows of a rank into ids, positions and labels, and writes into own_starts where the sequences start among these
// rows. An op that neither works row by row nor adds up the losses of rows, such as first_token, reads rows that gather_rows has gathered
// from all ranks; every rank then computes the same values, and the same gradients of the weights that are multiplied with them.
//
// Dropout draws the random number of an element by the element's index among the rows of all ranks, so that its mask does not depend on n.
// From T / n rows each rank computes only one term of the gradient of a weight; the pass context_gradients sums these terms. The pass runs
// on a forward graph.
#include <algorithm>
#include <utility>
#include <vector>

#include "graph/ops/ops.h"
#include "graph/ops/slice.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

class ContextParallel {
 public:
  ContextParallel(Graph& graph, int64_t ranks)
      : graph_(graph), ranks_(ranks), forms_(graph.values().size()) {}

  void run() {
    std::vector<Op> old_ops = graph_.ops();
    for (Op& op : old_ops) place(std::move(op));
    graph_.replace_ops(std::move(ops_));
    graph_.drop_unused_values();
  }

 private:
  // The values of the new graph that correspond to a value of the original graph: `whole` has the rows of all ranks, and `rows` only those
  // of this rank. At least one of the two exists for each value that an op produces and that has one row per token.
  struct TokenForms {
    ValueId whole = kNoValue;
    ValueId rows = kNoValue;
  };

  // Returns true if a value of the original graph has one row per token.
  bool has_tokens(ValueId id) const {
    if (id == kNoValue) return false;
    const Shape& shape = graph_.value(id).type.shape;
    return shape.rank() > 0 && shape[0].whole() == kDimT;
  }

  static bool looks_up(const Op& op) { return op.def == &embedding_sum_op() || op.def == &rope_table_op(); }
  static bool adds_up_rows(const Op& op) {
    return op.def == &nll_op() || op.def == &softmax_cross_entropy_op() || op.def == &count_correct_op();
  }
  bool works_on_rows(const Op& op) const {
    return looks_up(op) || adds_up_rows(op) || op.def == &rope_op() || op.def == &log_softmax_op() ||
           schema_of(op).works_row_by_row({graph_, op});
  }

  void place(Op op) {
    const bool reads_tokens = std::ranges::any_of(op.inputs, [&](ValueId id) { return has_tokens(id); });
    if (!reads_tokens) {
      ops_.push_back(std::move(op));
    } else if (op.def == &attention_op()) {
      place_attention(std::move(op));
    } else if (works_on_rows(op)) {
      place_on_rows(std::move(op));
    } else {
      for (ValueId& id : op.inputs) {
        if (has_tokens(id)) id = whole_of(id, op);
      }
      for (const ValueId id : op.outputs) forms_[index_of(id)].whole = id;
      append(std::move(op));
    }
  }

  void place_on_rows(Op op) {
    for (ValueId& id : op.inputs) {
      if (has_tokens(id)) id = rows_of(id);
    }
    if (looks_up(op)) {
      const bool is_table = op.def == &rope_table_op();
      ValueId& starts =
          op.inputs[is_table ? size_t{RopeTableOp::kCuSeqlens} : size_t{EmbeddingSumOp::kCuSeqlens}];
      starts = own_starts(starts);
    }
    const ValueIds outputs = op.outputs;
    const bool sums = adds_up_rows(op);
    for (ValueId& id : op.outputs) {
      if (sums) continue;
      // The host reads all rows of an output, so the rows of all ranks are gathered.
      const bool is_read = graph_.value(id).storage == Storage::kOutput;
      const ValueId rows = is_read ? new_value_like(id, "rows", Storage::kTransient) : id;
      forms_[index_of(id)].rows = rows;
      id = rows;
    }
    const Op placed = op;
    append(std::move(op));
    if (sums) return sum_over_ranks(placed);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (placed.outputs[i] == outputs[i]) continue;
      forms_[index_of(outputs[i])] = {.whole = outputs[i], .rows = placed.outputs[i]};
      append(with_operands(placed, gather_rows_op(), placed.outputs[i], outputs[i],
                           gather_rows_attributes(ranks_, RowGradient::kWhole)));
    }
  }

  void place_attention(Op op) {
    const int64_t heads = op.attributes.integer("heads");
    const int64_t kv_heads = op.attributes.integer_or("kv_heads", heads);
    PLIMSOLL_CHECK(heads % ranks_ == 0 && kv_heads % ranks_ == 0,
                   "{} heads and {} heads of keys and values cannot be divided evenly among {} ranks", heads,
                   kv_heads, ranks_);
    const ValueId qkv = rows_of(op.inputs[AttentionOp::kQkv]);
    const int64_t width = graph_.value(qkv).type.shape[1].offset / (heads + 2 * kv_heads);
    const ValueId of_heads = new_value_like(qkv, "heads", Storage::kTransient);
    append(with_operands(op, exchange_heads_op(), qkv, of_heads,
                         exchange_heads_attributes(ranks_, heads * width, kv_heads * width, true)));
    op.inputs[AttentionOp::kQkv] = of_heads;
    op.attributes.set("heads", heads / ranks_);
    if (op.attributes.has("kv_heads")) op.attributes.set("kv_heads", kv_heads / ranks_);
    op.attributes.set(kTensorRanks, ranks_);
    const Op placed = op;
    append(std::move(op));
    const ValueId result = placed.outputs[AttentionOp::kO];
    const ValueId rows = new_value_like(result, "rows", Storage::kTransient);
    append(with_operands(placed, exchange_heads_op(), result, rows,
                         exchange_heads_attributes(ranks_, heads * width, 0, false)));
    forms_[index_of(result)].rows = rows;
  }

  // Adds up the losses and the counts that the ranks computed from their own rows. The sums are new versions of these values, so that the
  // host reads the sums.
  void sum_over_ranks(const Op& op) {
    Op sum = with_operands(op, all_reduce_op(), kNoValue, kNoValue, {{"ranks", ranks_}});
    set_mesh_axis(sum.attributes, MeshAxis::kTensor);
    sum.inputs = op.outputs;
    sum.outputs.clear();
    for (const ValueId id : op.outputs) {
      const ValueId of_ranks = new_value_like(id, "sum", graph_.value(id).storage);
      graph_.value(of_ranks).version_of = id;
      sum.outputs.push_back(of_ranks);
    }
    append(std::move(sum));
  }

  // Returns the rows of this rank. The host writes only these rows of an input, so an input gets the shape of these rows.
  ValueId rows_of(ValueId id) {
    TokenForms& forms = forms_[index_of(id)];
    if (forms.rows != kNoValue) return forms.rows;
    Value& value = graph_.value(id);
    PLIMSOLL_CHECK(value.storage == Storage::kInput,
                   "this rank's rows of '{}' are needed, but the graph only computes the value for all ranks",
                   value.name);
    value.type.shape = value.type.shape.with_rows(kDimT.divided(ranks_));
    return forms.rows = id;
  }

  ValueId whole_of(ValueId id, const Op& reader) {
    const TokenForms forms = forms_[index_of(id)];
    if (forms.whole != kNoValue) return forms.whole;
    const ValueId rows = rows_of(id);
    const ValueId whole = new_value_like(rows, "gathered", Storage::kTransient);
    append(with_operands(reader, gather_rows_op(), rows, whole,
                         gather_rows_attributes(ranks_, RowGradient::kWhole)));
    return forms_[index_of(id)].whole = whole;
  }

  // Returns the input that contains the starts of the sequences, counted among the rows of this rank (InputSource::kOwnStarts).
  ValueId own_starts(ValueId starts) {
    if (own_starts_ != kNoValue) return own_starts_;
    const Value value = graph_.value(starts);
    own_starts_ = graph_.add_input("own_starts", value.type, {.source = InputSource::kOwnStarts});
    return own_starts_;
  }

  ValueId new_value_like(ValueId id, std::string_view suffix, Storage storage) {
    const Value value = graph_.value(id);
    const ValueId added =
        graph_.add_value(graph_.unique_name(fmt::format("{}.{}", value.name, suffix)), value.type, storage);
    graph_.value(added).module = value.module;
    return added;
  }

  static Op with_operands(const Op& like, const OpSchema& def, ValueId x, ValueId y, Attributes attributes) {
    return {.def = &def,
            .inputs = {x},
            .outputs = {y},
            .attributes = std::move(attributes),
            .segment = like.segment,
            .module = like.module};
  }

  // Appends an op and infers the types of its results.
  void append(Op op) {
    const std::vector<ValueType> types = op.def->infer({graph_, op});
    for (size_t i = 0; i < types.size(); ++i) graph_.value(op.outputs[i]).type = types[i];
    ops_.push_back(std::move(op));
  }

  Graph& graph_;
  int64_t ranks_;
  std::vector<TokenForms> forms_;  // index: the number of a value of the original graph
  ValueId own_starts_ = kNoValue;
  std::vector<Op> ops_;
};

}  // namespace

Pass context_parallel_pass(int64_t ranks) {
  return {
      .name = "context_parallel",
      .numerics = Numerics::kChanging,
      .help = "divides the rows of all activations among ranks, except in attention, whose heads it divides",
      .needed_for = "--cp_size above 1",
      .run = [ranks](Graph& graph) {
        if (ranks > 1) ContextParallel(graph, ranks).run();
      }};
}

}  // namespace plimsoll
