// The ops of decoding with a KV cache (kernels/attention/paged_attention.h has the formulas). M is the largest number of pages of a
// sequence, P the number of pages of S tokens, G the number of heads of keys and values.
//
// append_kv(qkv, cu_seqlens, page_table, lengths, copy_from?, cache) {heads, kv_heads?}: writes k and v of the rows of qkv_T((H+2G)D) into
// the pages of cache_P2S(GD), a persistent value that the op updates in place: the output is its new version. page_table_BM, lengths_B and
// copy_from_B are i32 inputs.
//
// paged_attention(qkv, cu_seqlens, page_table, lengths, cache) {heads, kv_heads?, window?, scale}: o_T(HD), the attention of each row to
// the tokens of its sequence up to itself, which are in the pages. The output is zero in tail rows (rows after the last token). Neither op
// has a gradient.
#include <algorithm>
#include <array>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

int64_t kv_heads_of(const OpView& op) {
  return op.attributes().integer_or("kv_heads", op.attributes().integer("heads"));
}

// Checks the operands that both append_kv and paged_attention have. Their positions are those of PagedAttentionOp in both ops.
void expect_paged_operands(const OpView& op, const ValueType& cache) {
  using In = PagedAttentionOp;
  const int64_t heads = op.attributes().integer("heads");
  const int64_t kv_heads = kv_heads_of(op);
  expect_operands(kv_heads > 0 && heads % kv_heads == 0, op,
                  "a number of heads that is a multiple of kv_heads");
  const int64_t all_heads = heads + 2 * kv_heads;
  const Shape& qkv = op.in_shape(In::kQkv);
  const Shape& pages = cache.shape;
  expect_operands(qkv.rank() == 2 && qkv.has_token_rows() && qkv[1].offset % all_heads == 0 &&
                      pages.rank() == 4 && !pages.depends_on_bucket() && pages[1] == Dim(2) &&
                      pages[3] == Dim(qkv[1].offset / all_heads * kv_heads) &&
                      cache.dtype == op.input(In::kQkv).type.dtype,
                  op, "qkv[T,(H+2G)*D] and cache[P,2,S,G*D] of one type");
  const Shape& table = op.in_shape(In::kPageTable);
  const bool are_integers =
      op.input(In::kPageTable).type.dtype == DType::kI32 && op.input(In::kLengths).type.dtype == DType::kI32;
  expect_operands(are_integers && table.rank() == 2 && table[0] == kDimB && table[1].is_constant() &&
                      op.in_shape(In::kLengths) == Shape{kDimB},
                  op, "i32 page_table[B,M] and i32 lengths[B]");
}

double elements_of_token(const Shape& cache) {
  return static_cast<double>(cache[3].offset);
}

class AppendKv final : public OpSchema, private AppendKvOp {
 public:
  std::string_view name() const override { return "append_kv"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kDataMovement; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_paged_operands(op, op.input(kCache).type);
    expect_operands(
        !op.has_input(kCopyFrom) || op.input(kCopyFrom).type == ValueType{DType::kI32, Shape{kDimB}}, op,
        "i32 copy_from[B]");
    return {op.input(kCache).type};
  }
  double flops(const OpView&, const Bucket&) const override { return 0; }
  // For each row, the op reads a key and a value and writes both into the cache. Copies of shared pages are not counted.
  double bytes(const OpView& op, const Bucket& bucket) const override {
    return 4.0 * static_cast<double>(bucket.tokens) * elements_of_token(op.in_shape(kCache)) *
           static_cast<double>(dtype_bytes(op.input(kCache).type.dtype));
  }
  std::vector<Tail> tail(const OpView&, std::span<const Tail>) const override { return {Tail::kNone}; }

 private:
  static constexpr std::array kInputs{InputOperand::required(kQkv, "qkv"),
                                      InputOperand::sequence_offsets(kCuSeqlens),
                                      InputOperand::required(kPageTable, "page_table"),
                                      InputOperand::required(kLengths, "lengths"),
                                      InputOperand::optional(kCopyFrom, "copy_from"),
                                      InputOperand::replaced(kCache, "cache", kNewCache)};
  static constexpr std::array kOutputs{OutputOperand::required(kNewCache, "new_cache")};
};

class PagedAttention final : public OpSchema, private PagedAttentionOp {
 public:
  std::string_view name() const override { return "paged_attention"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kContraction; }
  OpWork work() const override { return OpWork::kAttention; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_paged_operands(op, op.input(kCache).type);
    const int64_t heads = op.attributes().integer("heads");
    const int64_t head_dim = op.in_shape(kQkv)[1].offset / (heads + 2 * kv_heads_of(op));
    return {{op.input(kQkv).type.dtype, Shape{kDimT, heads * head_dim}}};
  }
  // A sequence may have as many tokens in the cache as its row of the page table has pages for. This number can exceed the number of tokens
  // in a batch, so it is used as the length of every sequence here.
  double flops(const OpView& op, const Bucket& bucket) const override {
    const double outputs = static_cast<double>(op.out_shape(kO).elements(bucket));
    return 4.0 * outputs * longest(op, op.attributes().integer_or("window", 0));
  }
  // Each sequence reads its pages once. The sum is limited by the size of the cache, because shared pages are counted once.
  double bytes(const OpView& op, const Bucket& bucket) const override {
    const Shape& cache = op.in_shape(kCache);
    const double all = static_cast<double>(cache[0].offset * cache[2].offset);
    const double read = std::min(all, static_cast<double>(bucket.sequences) * longest(op, 0));
    const double rows = static_cast<double>(op.out_shape(kO).elements(bucket));
    return (2.0 * rows + 2.0 * read * elements_of_token(cache)) *
           static_cast<double>(dtype_bytes(op.input(kCache).type.dtype));
  }
  std::vector<Tail> tail(const OpView&, std::span<const Tail>) const override { return {Tail::kZero}; }

 private:
  static double longest(const OpView& op, int64_t window) {
    const int64_t tokens = op.in_shape(kPageTable)[1].offset * op.in_shape(kCache)[2].offset;
    return static_cast<double>(window > 0 ? std::min(window, tokens) : tokens);
  }

  static constexpr std::array kInputs{
      InputOperand::required(kQkv, "qkv"), InputOperand::sequence_offsets(kCuSeqlens),
      InputOperand::required(kPageTable, "page_table"), InputOperand::required(kLengths, "lengths"),
      InputOperand::required(kCache, "cache")};
  static constexpr std::array kOutputs{OutputOperand::required(kO, "o")};
};

}  // namespace

Cost paged_attention_cost(const OpView& op, const Bucket& bucket, int64_t length) {
  using In = PagedAttentionOp;
  const int64_t window = op.attributes().integer_or("window", 0);
  const auto read = static_cast<double>(window > 0 ? std::min(window, length) : length);
  const Shape& cache = op.in_shape(In::kCache);
  const double outputs = static_cast<double>(op.out_shape(In::kO).elements(bucket));
  const double elements =
      2.0 * outputs + 2.0 * read * static_cast<double>(bucket.sequences) * elements_of_token(cache);
  return {.flops = 4.0 * outputs * read,
          .bytes = elements * static_cast<double>(dtype_bytes(op.input(In::kCache).type.dtype))};
}

const OpSchema& append_kv_op() {
  static const AppendKv op;
  return op;
}
const OpSchema& paged_attention_op() {
  static const PagedAttention op;
  return op;
}

}  // namespace plimsoll
