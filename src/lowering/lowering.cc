#include "lowering/lowering.h"

#include <algorithm>
#include <functional>

#include "base/check.h"

namespace plimsoll {
namespace {

struct Table {
  std::vector<Lowering> rows;  // one entry per op, grouped by kernel family
  // pointers to the entries of `rows`, sorted by the address of the op's schema (member `op`), for a binary search
  std::vector<const Lowering*> by_op;

  Table() {
    for (const auto family :
         {matmul_lowerings, embedding_lowerings, element_wise_lowerings, norm_lowerings, attention_lowerings,
          loss_lowerings, optimizer_lowerings, quantization_lowerings, communication_lowerings}) {
      const std::vector<Lowering> rows_of_family = family();
      rows.insert(rows.end(), rows_of_family.begin(), rows_of_family.end());
    }
    by_op.reserve(rows.size());
    for (const Lowering& row : rows) by_op.push_back(&row);
    std::ranges::sort(by_op, std::less<>(), op_of);
  }

  static const OpSchema* op_of(const Lowering* row) { return row->op; }
};

const Table& table() {
  static const Table table;
  return table;
}

}  // namespace

std::span<const Lowering> all_lowerings() {
  return table().rows;
}

const Lowering& lowering_of(const OpSchema& op) {
  const std::vector<const Lowering*>& rows = table().by_op;
  const auto found = std::ranges::lower_bound(rows, &op, std::less<>(), Table::op_of);
  PLIMSOLL_CHECK(found != rows.end() && (*found)->op == &op,
                 "no function of src/lowering describes the op '{}' to its kernels", op.name());
  return **found;
}

Problem lower_op(const OpView& op, const Bucket& bucket, const KernelTarget& target) {
  const Lowering& row = lowering_of(schema_of(op.op));
  LoweredOp lowered = row.describe(op, bucket, target);
  return {.kernel = row.kernel, .dtype = lowered.dtype, .target = target, .family = lowered.family};
}

LoweredOp describe_rows_of(const Value& value, const Bucket& bucket) {
  const Shape& shape = value.type.shape;
  const bool is_matrix = shape.rank() == 2;
  return {.dtype = value.type.dtype,
          .family = RowsProblem{.rows = is_matrix ? shape[0].at(bucket) : 1,
                                .columns = is_matrix ? shape[1].at(bucket) : shape.elements(bucket)}};
}

}  // namespace plimsoll
