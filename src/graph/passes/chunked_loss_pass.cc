#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "graph/ops/ops.h"
#include "graph/passes/pass.h"
#include "graph/passes/rewriter.h"

namespace plimsoll {
namespace {

// The limit for the bytes of the logits of one chunk of rows, if rows are tokens, of which a batch has many. Each chunk adds to the
// gradient of the whole weight, and with small chunks these additions would take longer than the matrix products: with 2048 rows per chunk,
// GPT-2's table of 308 MB is read and written eight times for 16384 tokens.
constexpr int64_t kTokenChunkBytes = int64_t{512} << 20;
// The number of rows per chunk is a multiple of the tile height of matrix products, so that only the last chunk may have a partly filled
// tile.
constexpr int64_t kTileRows = 16;

// Runs on a forward graph. The fused op replaces the classifier's last matrix product, a cast of its result, the loss and the count of
// correct predictions. It has the inputs of these ops and is inserted at the position of the loss. If the ranks of a tensor-parallel group
// divide the classes, the op class_sums, whose results the ranks exchange, is fused instead of the loss.
class ChunkedLoss {
 public:
  ChunkedLoss(Graph& graph, const Bucket& bucket, int64_t most_bytes, const Bucket& usual)
      : rewriter_(graph), bucket_(bucket), usual_(usual), most_bytes_(most_bytes) {}

  void run() {
    for (uint32_t i = 0; i < rewriter_.num_ops(); ++i) {
      const bool is_divided = rewriter_.is(i, class_sums_op());
      if (!is_divided && !rewriter_.is(i, softmax_cross_entropy_op())) continue;
      static_assert(int{ClassSumsOp::kLogits} == ClassLossOp::kLogits &&
                    int{ClassSumsOp::kLabels} == ClassLossOp::kLabels);
      const ValueId logits = rewriter_.op(i).inputs[ClassLossOp::kLogits];
      if (graph().value(logits).bytes(bucket_) <= most_bytes_) continue;
      const auto cast = rewriter_.find_producer(i, logits, cast_op());
      const uint32_t reader = cast.value_or(i);
      const ValueId result = cast ? rewriter_.op(*cast).inputs[CastOp::kX] : logits;
      const auto count = find_count(result);
      const auto product = rewriter_.find_producer(reader, result, matmul_op(), count);
      if (!product || !is_linear(rewriter_.op(*product))) continue;
      rewriter_.replace(i, fused(rewriter_.op(*product), rewriter_.op(i), count));
      rewriter_.remove(*product);
      if (cast) rewriter_.remove(*cast);
      if (count) rewriter_.remove(*count);
    }
    rewriter_.apply();
  }

 private:
  const Graph& graph() const { return rewriter_.graph(); }

  // Returns the op that counts the correct predictions of these logits, if there is one.
  std::optional<uint32_t> find_count(ValueId logits) const {
    for (uint32_t i = 0; i < rewriter_.num_ops(); ++i) {
      if (rewriter_.is(i, count_correct_op()) && rewriter_.op(i).inputs[CountCorrectOp::kLogits] == logits)
        return i;
    }
    return std::nullopt;
  }

  // Returns true if the matrix product computes x w^T, with or without a bias, and its result has the type of x.
  bool is_linear(const Op& op) const {
    return op.attributes.integer("ta") == 0 && op.attributes.integer("tb") == 1 &&
           op.inputs[MatmulOp::kInto] == kNoValue && !op.attributes.has("dtype") &&
           !graph().value(op.inputs[MatmulOp::kB]).type.shape.depends_on_bucket();
  }

  Op fused(const Op& product, const Op& loss, std::optional<uint32_t> count) const {
    const Value& logits = graph().value(loss.inputs[ClassLossOp::kLogits]);
    const int64_t rows = logits.type.shape[0].at(usual_);
    const bool is_divided = loss.def == &class_sums_op();
    std::vector<ValueId> inputs{product.inputs[MatmulOp::kA], product.inputs[MatmulOp::kB],
                                product.inputs[MatmulOp::kBias], loss.inputs[ClassLossOp::kLabels]};
    if (!is_divided) inputs.push_back(loss.inputs[ClassLossOp::kDenominator]);
    Op op = op_instead_of(loss, is_divided ? linear_class_sums_op() : linear_cross_entropy_op(),
                          std::move(inputs), loss.attributes);
    op.module = product.module;
    const int64_t row_bytes = rows > 0 ? logits.bytes(usual_) / rows : 1;
    const bool is_per_token =
        logits.type.shape.has_token_rows() || logits.type.shape[0].symbol == Symbol::kLabels;
    op.attributes.set("chunk_rows", is_per_token ? loss_chunk_rows(rows, row_bytes, kTokenChunkBytes)
                                                 : loss_chunk_rows(rows, row_bytes));
    if (count) {
      op.attributes.set("counts_correct", int64_t{1});
      op.outputs.push_back(rewriter_.op(*count).outputs[CountCorrectOp::kCount]);
    }
    if (product.attributes.has("gradient_dtype"))
      op.attributes.set("gradient_dtype", product.attributes.word("gradient_dtype"));
    return op;
  }

  Rewriter rewriter_;
  Bucket bucket_;
  Bucket usual_;
  int64_t most_bytes_;
};

}  // namespace

int64_t loss_chunk_rows(int64_t rows, int64_t row_bytes, int64_t chunk_bytes) {
  const int64_t by_bytes = chunk_bytes / std::max<int64_t>(1, row_bytes) / kTileRows * kTileRows;
  return std::max<int64_t>(1, std::min((rows + 3) / 4, std::max(by_bytes, kTileRows)));
}

Pass chunked_loss_pass(const Bucket& bucket, int64_t most_bytes, std::optional<Bucket> usual) {
  return {.name = "chunked_loss",
          .numerics = Numerics::kChanging,
          .help = "computes large logits some rows at a time, and recomputes them in the backward pass",
          .run = [bucket, most_bytes, usual](Graph& graph) {
            ChunkedLoss(graph, bucket, most_bytes, usual.value_or(bucket)).run();
          }};
}

}  // namespace plimsoll
