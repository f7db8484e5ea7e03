#include <algorithm>
#include <optional>

#include "graph/analysis/dependence.h"
#include "graph/ops/ops.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

constexpr int64_t kChunkBytes = int64_t{16} << 20;
// Fewer rows would leave a product's tiles unfilled; chunks that are multiples of it begin where tiles do.
constexpr int64_t kTileRows = 16;

// Runs on a forward graph. What stands for the classifier's last product, a cast of its result and the loss
// reads what these read, and stands where the loss stood.
class ChunkedLoss {
 public:
  ChunkedLoss(Graph& graph, const Bucket& bucket, int64_t most_bytes)
      : graph_(graph), bucket_(bucket), most_bytes_(most_bytes), readers_(find_readers(graph)) {}

  void run() {
    std::vector<bool> dead(graph_.ops().size(), false);
    for (uint32_t i = 0; i < graph_.ops().size(); ++i) {
      if (graph_.ops()[i].def != &softmax_cross_entropy_op()) continue;
      const ValueId logits = graph_.ops()[i].inputs[0];
      if (graph_.value(logits).bytes(bucket_) <= most_bytes_) continue;
      std::optional<uint32_t> product = only_for(i, logits);
      std::optional<uint32_t> cast;
      if (product && graph_.ops()[*product].def == &cast_op()) {
        cast = product;
        product = only_for(*cast, graph_.ops()[*cast].inputs[0]);
      }
      if (!product || !is_linear(graph_.ops()[*product])) continue;
      graph_.ops()[i] = fused(graph_.ops()[*product], graph_.ops()[i]);
      dead[*product] = true;
      if (cast) dead[*cast] = true;
    }
    std::vector<Op> ops;
    for (size_t i = 0; i < graph_.ops().size(); ++i) {
      if (!dead[i]) ops.push_back(std::move(graph_.ops()[i]));
    }
    graph_.replace_ops(std::move(ops));
    graph_.drop_unused_values();
  }

 private:
  // The op that produces a value which only `reader` reads.
  std::optional<uint32_t> only_for(uint32_t reader, ValueId id) const {
    const Value& value = graph_.value(id);
    const auto& readers = readers_[index_of(id)];
    const bool is_read_elsewhere = readers.size() != 1 || readers[0] != reader;
    if (value.producer == kNoOp || value.storage != Storage::kTransient || is_read_elsewhere)
      return std::nullopt;
    return static_cast<uint32_t>(value.producer);
  }

  // x w^T (+ bias) in the type of x, of rows that are no tokens.
  bool is_linear(const Op& op) const {
    return op.def == &matmul_op() && op.attributes.integer("ta") == 0 && op.attributes.integer("tb") == 1 &&
           op.inputs[3] == kNoValue && !op.attributes.has("dtype") &&
           !graph_.value(op.inputs[0]).type.shape.has_token_rows() &&
           !graph_.value(op.inputs[1]).type.shape.depends_on_bucket();
  }

  Op fused(const Op& product, const Op& loss) const {
    const Value& logits = graph_.value(loss.inputs[0]);
    const int64_t rows = logits.type.shape[0].at(bucket_);
    Op op{.def = &linear_cross_entropy_op(),
          .inputs = {product.inputs[0], product.inputs[1], product.inputs[2], loss.inputs[1], loss.inputs[2]},
          .outputs = loss.outputs,
          .attributes = loss.attributes,
          .segment = loss.segment,
          .module = product.module};
    const int64_t row_bytes = rows > 0 ? logits.bytes(bucket_) / rows : 1;
    op.attributes.set("chunk_rows", loss_chunk_rows(rows, row_bytes));
    if (product.attributes.has("gradient_dtype"))
      op.attributes.set("gradient_dtype", product.attributes.word("gradient_dtype"));
    return op;
  }

  Graph& graph_;
  Bucket bucket_;
  int64_t most_bytes_;
  std::vector<std::vector<uint32_t>> readers_;
};

}  // namespace

int64_t loss_chunk_rows(int64_t rows, int64_t row_bytes) {
  const int64_t by_bytes = kChunkBytes / std::max<int64_t>(1, row_bytes) / kTileRows * kTileRows;
  return std::max<int64_t>(1, std::min((rows + 3) / 4, std::max(by_bytes, kTileRows)));
}

Pass chunked_loss_pass(const Bucket& bucket, int64_t most_bytes) {
  return {.name = "chunked_loss",
          .numerics = Numerics::kChanging,
          .help = "holds large logits for some rows at a time, and computes them again in the backward pass",
          .run = [bucket, most_bytes](Graph& graph) { ChunkedLoss(graph, bucket, most_bytes).run(); }};
}

}  // namespace plimsoll
