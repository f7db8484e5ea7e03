// embedding_sum(cu_seqlens, ids_0, table_0, ids_1, table_1, ...) {padding_id, padding_id_1}: x_TC = sum over k of
// table_k[ids_k[t]]. Rows from cu_seqlens[B] on are set to zero. Tokens whose ids_0 is padding_id (-1: none) add nothing
// to the gradient of table_0; the same holds for padding_id_1, ids_1 and table_1. With {tensor_ranks}, the ranks of a
// tensor-parallel group divide the rows of table_0, in the order of the ranks, and each rank looks up only its own rows.
// The other tables are whole on every rank, and only the first rank looks them up, so that the sum over the ranks is x.
//
// embedding_bwd(sorted_T2, d_x, into?, flag?) {rows, padding_id}: from the pairs (id, t) of sort_ids, d_table_VC[v] =
// sum of d_x over the rows t of id v, added in the order of t; zero for v = padding_id. With {first_row, of_rows} the
// op computes {rows} rows, from first_row on, of the gradient of a table of of_rows rows. With {tensor_ranks, rank_rows}, the rows begin
// at rank_rows times the number of this rank.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "graph/ops/ops.h"
#include "graph/ops/slice.h"
#include "graph/ops/sum_type.h"

namespace plimsoll {
namespace {

class EmbeddingSum final : public OpSchema, private EmbeddingSumOp {
 public:
  std::string_view name() const override { return "embedding_sum"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kDataMovement; }

  std::vector<ValueType> output_types(const OpView& op) const override {
    const Shape& first = op.in_shape(kTable);
    const Dim& rows = op.in_shape(kIds)[0];
    for (int i = 1; i + 1 < op.num_inputs(); i += 2) {
      expect_operands(op.input(i).type == ValueType{DType::kI32, Shape{rows}} && rows.whole() == kDimT, op,
                      "ids i32[T]");
      expect_operands(op.in_shape(i + 1).rank() == 2 && op.in_shape(i + 1)[1] == first[1], op,
                      "tables of one width");
    }
    return {{stated_dtype(op, op.input(kTable).type.dtype), Shape{rows, first[1]}}};
  }

  double flops(const OpView& op, const Bucket& bucket) const override {
    return static_cast<double>(op.out_shape(kX).elements(bucket)) * ((op.num_inputs() - 1) / 2.0 - 1.0);
  }
  double bytes(const OpView& op, const Bucket& bucket) const override {
    return static_cast<double>(op.output(kX).bytes(bucket)) * ((op.num_inputs() - 1) / 2.0 + 1.0);
  }
  std::vector<Tail> tail(const OpView&, std::span<const Tail>) const override { return {Tail::kZero}; }

  void gradient(GradientContext& context) const override {
    Graph& graph = context.graph();
    const Op& op = context.op();
    const ValueId d_x = context.d_output(kX);
    if (d_x == kNoValue) return;
    const std::vector<size_t> wanted = wanted_tables(context);
    if (wanted.empty()) return;
    const std::vector<ValueId> sorted = emit_sort(context, wanted);
    for (size_t k = 0; k < wanted.size(); ++k) {
      const size_t i = wanted[k];
      const Value& table = graph.value(op.inputs[i]);
      const char* attribute = i == kFirstTable       ? "padding_id"
                              : i == kFirstTable + 2 ? "padding_id_1"
                                                     : nullptr;
      const int64_t padding_id = attribute == nullptr ? -1 : op.attributes.integer_or(attribute, -1);
      Attributes attributes{{"rows", table.type.shape[0].offset},
                            {"padding_id", padding_id},
                            {"dtype", std::string(dtype_name(sum_dtype(table.type.dtype)))}};
      if (i == kFirstTable && op.attributes.has(kTensorRanks)) {
        attributes.set(kTensorRanks, op.attributes.integer(kTensorRanks));
        attributes.set(kRankRows, table.type.shape[0].offset);
      }
      context.set(static_cast<int>(i), emit(graph, embedding_bwd_op(), {sorted[k], d_x, kNoValue, kNoValue},
                                            attributes, "d_" + table.name));
    }
  }

 private:
  static constexpr std::array kInputs{InputOperand::sequence_offsets(kCuSeqlens),
                                      InputOperand::repeated(kIds, "ids"),
                                      InputOperand::repeated(kTable, "table")};
  static constexpr std::array kOutputs{OutputOperand::required(kX, "x")};

  // The position of table_0 among the inputs of the op. The inputs alternate: ids_0, table_0, ids_1, table_1, and so on.
  static constexpr size_t kFirstTable = kTable;

  // Returns the indices of those inputs that are tables whose gradients are needed.
  static std::vector<size_t> wanted_tables(const GradientContext& context) {
    std::vector<size_t> wanted;
    for (size_t i = kFirstTable; i < context.op().inputs.size(); i += 2) {
      if (context.wants(static_cast<int>(i))) wanted.push_back(i);
    }
    return wanted;
  }

  // Emits an op that sorts the ids of each table in `tables` (sort_ids), where `tables` is the result of wanted_tables(). Returns the
  // sorted ids, one value per table.
  static std::vector<ValueId> emit_sort(GradientContext& context, const std::vector<size_t>& tables) {
    const Op& op = context.op();
    ValueIds inputs{op.inputs[kCuSeqlens]};
    std::vector<std::string> names;
    int64_t rows = 0;
    for (const size_t i : tables) {
      inputs.push_back(op.inputs[i - 1]);
      names.push_back(context.graph().value(op.inputs[i - 1]).name + ".sorted");
      const int64_t parts = i == kFirstTable ? op.attributes.integer_or(kTensorRanks, 1) : 1;
      rows = std::max(rows, parts * context.graph().value(op.inputs[i]).type.shape[0].offset);
    }
    return emit_all(context.graph(), sort_ids_op(), std::move(inputs), {{"rows", rows}}, names);
  }
};

class EmbeddingBwd final : public OpSchema, private EmbeddingBwdOp {
 public:
  std::string_view name() const override { return "embedding_bwd"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kDataMovement; }

  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kDX).rank() == 2 && op.in_shape(kDX).has_token_rows() &&
                        op.input(kSorted).type == ValueType{DType::kI32, Shape{op.in_shape(kDX)[0], 2}},
                    op, "sorted i32[T,2], d_x[T,C], into, flag");
    return {{stated_dtype(op, op.input(kDX).type.dtype),
             Shape{op.attributes().integer("rows"), op.in_shape(kDX)[1]}}};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return static_cast<double>(op.in_shape(kDX).elements(bucket));
  }
  std::vector<Tail> tail(const OpView&, std::span<const Tail>) const override { return {Tail::kNone}; }

 private:
  static constexpr std::array kInputs{
      InputOperand::required(kSorted, "sorted"), InputOperand::required(kDX, "d_x"),
      InputOperand::into(kInto, "into", kDTable), InputOperand::accumulate_flag(kFlag)};
  static constexpr std::array kOutputs{OutputOperand::required(kDTable, "d_table")};
};

}  // namespace

const OpSchema& embedding_sum_op() {
  static const EmbeddingSum op;
  return op;
}
const OpSchema& embedding_bwd_op() {
  static const EmbeddingBwd op;
  return op;
}

}  // namespace plimsoll
