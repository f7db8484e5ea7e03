// Divides the layers of a model among the ranks of a tensor-parallel group (Shoeybi et al., "Megatron-LM", arXiv 1909.08053,
// section 3). Each rank has some heads of each attention, and some columns of each feed-forward layer:
//
//   y = attention(x w^T + b) v^T      ->   y = all_reduce(attention(x w_r^T + b_r) {tensor_ranks} v_r^T) {axis="tensor"}
//   y = gelu(x w^T + b) v^T           ->   y = all_reduce(gelu(x w_r^T + b_r) v_r^T) {axis="tensor"}
//
//   x = table[ids]                    ->   x = all_reduce(table_r[ids]) {axis="tensor"}         0 for the rows of other ranks
//   loss = cross_entropy(y table^T)   ->   loss = f(all_reduce(sums of (y {tensor_ranks} table_r^T)) {axis="tensor"})
//
// The last two lines divide the vocabulary: see divided_vocabulary.h and ops/class_sums.cc.
//
// The rows of w and of its bias are divided, part by part: the heads of queries, of keys and of values, or the gates and the values of a
// gated unit. So are the columns of v. In the graph, these weights and the values that are computed between w and v have the shape of one
// rank's part (Value::split). Every rank stores and computes all other values completely: the bias of v, the values that pass between
// layers, and everything outside of the layers except the vocabulary.
//
// Adapters (models/lora.h) are divided like the weights that they adapt, and add one exchange per adapter, of R numbers per row (the matrix
// a of an adapter has R rows):
//
//   y = x w^T + (x a^T) b^T            ->   y_r = x w_r^T + (x a^T) {tensor_ranks} b_r^T           rows of w are divided
//   y = x w^T + (x a^T) b^T            ->   y = all_reduce(x_r w_r^T) + all_reduce(x_r a_r^T) b^T  columns of w are divided
//
// In the first case the gradient of x a^T, in the second case x a^T itself is a sum over the ranks. The gradients of the undivided matrices
// (a in the first case, b in the second) therefore have the same bits on every rank, need no sum of their own, and count in the norm like
// those of other undivided weights. An alternative would be to sum the gradients of a and b once per step, and to let the sum of the layer
// include the adapter. This would exchange R numbers per column or row of w instead of R per token, but the gradients would differ between
// ranks until the update.
//
// The all_reduce is the operator g of the paper. The operator f, which sums the gradient of x, is part of the gradient of the product
// that reads x, because of its attribute {tensor_ranks}. The pass runs on a forward graph, before autodiff.
#include <numeric>
#include <utility>

#include "graph/analysis/analysis.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"
#include "graph/passes/divided_vocabulary.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

class TensorParallel {
 public:
  TensorParallel(Graph& graph, int64_t ranks)
      : graph_(graph), ranks_(ranks), readers_(find_readers(graph)), sums_(graph.ops().size(), false) {}

  void run() {
    for (size_t i = 0; i < graph_.ops().size(); ++i) {
      const Op& op = graph_.ops()[i];
      if (op.def == &embedding_sum_op()) sums_[i] = op.attributes.has(kTensorRanks);
      if (block_of(graph_.module_name(op.module)).empty()) continue;
      if (op.def == &attention_op()) divide_attention(i);
      if (op.def == &gelu_op() || op.def == &glu_op()) divide_feed_forward(i);
    }
    add_sums();
  }

 private:
  // Returns the number of heads, rows or columns that each rank gets.
  int64_t share(int64_t size, const Op& op, std::string_view what) const {
    PLIMSOLL_CHECK(size % ranks_ == 0, "{} {} of the op '{}' cannot be divided evenly among {} ranks", size,
                   what, op.def->name(), ranks_);
    return size / ranks_;
  }

  void divide_heads(Op& op, std::string_view attribute) const {
    op.attributes.set(attribute, share(op.attributes.integer(attribute), op, "heads"));
  }

  void divide_attention(size_t at) {
    Op& op = graph_.ops()[at];
    const int64_t heads = op.attributes.integer("heads");
    const int64_t kv_heads = op.attributes.integer_or("kv_heads", heads);
    const ValueId qkv = op.inputs[AttentionOp::kQkv];
    const int64_t width = graph_.value(qkv).type.shape[1].offset / (heads + 2 * kv_heads);
    divide_columns(qkv, {heads * width, kv_heads * width, kv_heads * width});
    divide_rows(op.outputs[AttentionOp::kO]);
    divide_heads(op, "heads");
    if (op.attributes.has("kv_heads")) divide_heads(op, "kv_heads");
    op.attributes.set(kTensorRanks, ranks_);
  }

  void divide_feed_forward(size_t at) {
    const Op& op = graph_.ops()[at];
    const int64_t width = graph_.value(op.outputs.front()).type.shape[1].offset;
    std::vector<int64_t> parts{width};
    if (op.def == &glu_op()) parts.push_back(width);
    divide_columns(op.inputs.front(), parts);
    divide_rows(op.outputs.front());
  }

  // Divides the columns of a value, and with them the rows of the weight and of the bias of the matrix product that computes it. Between
  // the product and the value there may only be ops that add a bias or the result of an adapter, and ops that work on each head separately
  // (rope, rms_norm).
  void divide_columns(ValueId id, const std::vector<int64_t>& parts) {
    for (;;) {
      const OpId producer = graph_.value(id).producer;
      PLIMSOLL_CHECK(producer != kNoOp,
                     "cannot divide the columns of '{}' among the ranks: no matrix product computes it",
                     graph_.value(id).name);
      Op& op = graph_.ops()[index_of(producer)];
      if (op.def == &rope_op()) {
        divide_heads(op, "heads");
        id = op.inputs[RopeOp::kX];
      } else if (op.def == &rms_norm_op()) {
        divide_heads(op, "heads");
        divide_heads(op, "second_heads");
        op.attributes.set(kTensorRanks, ranks_);
        id = op.inputs[RmsNormOp::kX];
      } else if (op.def == &add_op()) {
        divide_adapter(op.inputs[AddOp::kB], parts, 0);
        id = op.inputs[AddOp::kA];
      } else if (op.def == &add_columns_op()) {
        const int64_t first = op.attributes.integer("first");
        divide_adapter(op.inputs[AddColumnsOp::kY], parts, first);
        op.attributes.set("first", share(first, op, "columns before those"));
        id = op.inputs[AddColumnsOp::kX];
      } else if (op.def == &bias_add_op()) {
        divide_weight(op.inputs[BiasAddOp::kBias], parts, 0);
        id = op.inputs[BiasAddOp::kX];
      } else {
        require_linear(op);
        divide_weight(op.inputs[MatmulOp::kB], parts, 0);
        op.attributes.set(kTensorRanks, ranks_);
        return;
      }
    }
  }

  // An adapter computes x a^T b^T. Divides the rows of b among the ranks. `delta` is the result, which is added to the columns from `first`
  // on of a value with the column groups `parts` (such as q, k and v). An adapter covers whole groups only.
  void divide_adapter(ValueId delta, const std::vector<int64_t>& parts, int64_t first) {
    Op& op = graph_.ops()[index_of(graph_.value(delta).producer)];
    require_linear(op);
    const int64_t end = first + graph_.value(op.inputs[MatmulOp::kB]).type.shape[0].offset;
    std::vector<int64_t> own;
    int64_t begin = 0;
    for (const int64_t part : parts) {
      if (begin >= first && begin + part <= end) own.push_back(part);
      begin += part;
    }
    divide_weight(op.inputs[MatmulOp::kB], std::move(own), 0);
    op.attributes.set(kTensorRanks, ranks_);
  }

  // Each rank has some columns of the value `id`. Divides the columns of the weights that it is multiplied with: a weight of the layer, and
  // the first matrices of its adapters. The products are then summed over the ranks. Dropout between value and product draws random numbers
  // by the indices of the columns in the undivided value.
  void divide_rows(ValueId id) {
    const std::span<const uint32_t> readers = readers_[index_of(id)];
    PLIMSOLL_CHECK(!readers.empty(), "cannot divide '{}' among the ranks: no op reads it",
                   graph_.value(id).name);
    for (const uint32_t reader : readers) {
      Op& op = graph_.ops()[reader];
      if (op.def == &dropout_op()) {
        op.attributes.set(kTensorRanks, ranks_);
        divide_rows(op.outputs[DropoutOp::kY]);
        continue;
      }
      require_linear(op);
      divide_weight(op.inputs[MatmulOp::kB], {graph_.value(id).type.shape[1].offset}, 1);
      sums_[reader] = true;
    }
  }

  void require_linear(const Op& op) const {
    PLIMSOLL_CHECK(
        op.def == &matmul_op() && op.attributes.integer("ta") == 0 && op.attributes.integer("tb") != 0,
        "weights of a layer can only be divided among ranks if a matmul(x, w^T) reads them, but the op '{}' "
        "reads them",
        op.def->name());
  }

  // Divides a weight along a dimension. `parts`: the sizes of the parts of a fused weight along this dimension, each of which is divided.
  void divide_weight(ValueId id, std::vector<int64_t> parts, int dimension) {
    Value& value = graph_.value(id);
    PLIMSOLL_CHECK(value.storage == Storage::kWeight && !value.split,
                   "'{}' cannot be divided among the ranks: it is not a weight, or is divided already",
                   value.name);
    const Shape whole = value.type.shape;
    std::vector<Dim> dims(whole.dims().begin(), whole.dims().end());
    Dim& divided = dims[static_cast<size_t>(dimension)];
    PLIMSOLL_CHECK(std::accumulate(parts.begin(), parts.end(), int64_t{0}) == divided.offset,
                   "the parts of the fused weight '{}' must add up to its dimension {}, but do not",
                   value.name, divided.offset);
    for (int64_t& part : parts) {
      PLIMSOLL_CHECK(
          part % ranks_ == 0,
          "a part of {} rows or columns of the weight '{}' cannot be divided evenly among {} ranks", part,
          value.name, ranks_);
      // `part` counts rows here, but TensorSplit counts elements. A row of a matrix has several elements, and a row of a vector has one.
      if (dimension == 0 && whole.rank() > 1) part *= whole[1].offset;
    }
    divided = Dim(divided.offset / ranks_);
    value.type.shape = Shape(dims);
    value.split = TensorSplit{.ranks = ranks_, .parts = std::move(parts), .whole = whole};
  }

  // After each op whose results are terms of a sum over the ranks, inserts an op that computes the sum. Infers the types of all values
  // again.
  void add_sums() {
    std::vector<ValueId> sum_of(graph_.values().size(), kNoValue);
    std::vector<Op> ops;
    std::vector<Op> old_ops = graph_.ops();
    for (size_t i = 0; i < old_ops.size(); ++i) {
      Op& op = old_ops[i];
      for (ValueId& id : op.inputs) {
        if (id != kNoValue && sum_of[index_of(id)] != kNoValue) id = sum_of[index_of(id)];
      }
      const std::vector<ValueType> types = op.def->infer({graph_, op});
      for (size_t k = 0; k < types.size(); ++k) graph_.value(op.outputs[k]).type = types[k];
      const Op placed = op;
      ops.push_back(std::move(op));
      if (!sums_[i]) continue;
      const ValueId product = placed.outputs.front();
      const Value value = graph_.value(product);
      const ValueId sum =
          graph_.add_value(graph_.unique_name(value.name + ".sum"), value.type, value.storage);
      graph_.value(sum).version_of = product;
      graph_.value(sum).module = value.module;
      sum_of[index_of(product)] = sum;
      Attributes attributes{{"ranks", ranks_}};
      set_mesh_axis(attributes, MeshAxis::kTensor);
      ops.push_back({.def = &all_reduce_op(),
                     .inputs = {product},
                     .outputs = {sum},
                     .attributes = std::move(attributes),
                     .segment = placed.segment,
                     .module = placed.module});
    }
    graph_.replace_ops(std::move(ops));
  }

  Graph& graph_;
  int64_t ranks_;
  OpLists readers_;
  std::vector<bool>
      sums_;  // for each op: true if its results (of products and of the word lookup) are summed over ranks
};

}  // namespace

Pass tensor_parallel_pass(int64_t ranks, DividedHeads heads) {
  return {.name = "tensor_parallel",
          .numerics = Numerics::kChanging,
          .help = "divides heads of attention, columns of feed-forward layers and the vocabulary among ranks",
          .needed_for = "--tp_size above 1",
          .run = [ranks, heads](Graph& graph) {
            if (ranks <= 1) return;
            divide_vocabulary(graph, ranks, heads);
            TensorParallel(graph, ranks).run();
          }};
}

}  // namespace plimsoll
