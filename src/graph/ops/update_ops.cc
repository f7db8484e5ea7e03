// Defines one op per optimizer in base/optimizer_table.inc. Each op updates a group of parameters in place. The op of Adafactor is in
// adafactor_op.cc.

#include "graph/ops/ops.h"

#include <charconv>
#include <memory>

#include "graph/ops/update.h"

namespace plimsoll {

namespace {

// The op of an optimizer with floating-point states in the shape of the parameter (AdamW, SGD, Lion, Adagrad):
//   NAME(lr, step, clip, finite, p_0, g_0, states of p_0..., p_1, ...) {constants..., weight_decay}
// The formula, its source and the constants are in the kernel's header, kernels/optimizer/NAME.h. SGD has a state only if momentum > 0. The
// outputs are the updated parameters p' and states, which overwrite the inputs. If finite is 0, nothing is written. With {copies} each
// parameter has one more operand, a 16-bit copy of p', which the update writes too. With {split} (AdamW) p is bf16 and each parameter has
// one more operand, u8[2 n]: the lower halves of the fp32 numbers whose upper halves are in p (base/split_f32.h). The update writes both
// halves.
class PlainUpdate final : public Update {
 public:
  explicit PlainUpdate(const OptimizerRow& row) : row_(row) {}
  std::string_view name() const override { return row_.name; }
  bool is_element_wise() const override { return true; }
  bool can_be_sharded(const OpView&) const override { return true; }

 protected:
  int values_per_parameter(const OpView& op) const override {
    const bool has_states = !row_.has_optional_momentum || op.attributes().number("momentum") > 0.0;
    return 2 + (has_states ? static_cast<int>(row_.states.size()) : 0) + copies(op);
  }
  double flops_per_element() const override { return row_.flops_per_element; }

 private:
  const OptimizerRow& row_;
};

// The op of an optimizer with 8-bit states: like PlainUpdate, but each state consists of two operands, an 8-bit code per element and an
// fp32 maximum per quantization block of 256 elements. {part_rows} lists the parts of fused weights, which are quantized separately.
class EightBitUpdate final : public Update {
 public:
  explicit EightBitUpdate(const OptimizerRow& row) : row_(row) {}
  std::string_view name() const override { return row_.name; }
  OpWork work() const override { return OpWork::kUpdateOfCodes; }
  // Each part of a parameter begins with a new quantization block. A slice that begins within a part must begin at the start of a block.
  bool can_be_sharded(const OpView& op) const override {
    const std::vector<std::vector<int64_t>> rows = part_rows_of(op.attributes());
    const int stride = values_per_parameter(op);
    for (size_t i = 0; i < rows.size(); ++i) {
      const int64_t row = elements_per_row(op.in_shape(kParameter + static_cast<int>(i) * stride));
      for (size_t part = 0; part + 1 < rows[i].size(); ++part) {
        if (rows[i][part] * row % kBlock != 0) return false;
      }
    }
    return true;
  }
  // Each state has two operands: the codes, and then the maxima of the blocks.
  int64_t numbers_in_state(const OpView&, int k, int64_t elements) const override {
    return k % 2 == 0 ? elements : (elements + kBlock - 1) / kBlock;
  }

 protected:
  int values_per_parameter(const OpView& op) const override {
    return 2 + 2 * static_cast<int>(row_.states.size()) + copies(op);
  }
  double flops_per_element() const override { return row_.flops_per_element; }

 private:
  static constexpr int64_t kBlock = 256;
  static_assert(RankSlices::kBlock % kBlock == 0);

  const OptimizerRow& row_;
};

std::unique_ptr<const OpSchema> make_update_op(const OptimizerRow& row) {
  switch (row.frame) {
    case UpdateFrame::kPlain:
      return std::make_unique<PlainUpdate>(row);
    case UpdateFrame::kEightBit:
      return std::make_unique<EightBitUpdate>(row);
    case UpdateFrame::kFactored:
      return make_adafactor_op(row);
  }
  PLIMSOLL_CHECK(false, "no op is defined that updates parameters with the optimizer {}", row.name);
}

}  // namespace

const OpSchema& update_op(OptimizerKind kind) {
  static const std::vector<std::unique_ptr<const OpSchema>> kOps = [] {
    std::vector<std::unique_ptr<const OpSchema>> ops;
    for (const OptimizerRow& row : optimizer_rows()) ops.push_back(make_update_op(row));
    return ops;
  }();
  return *kOps[static_cast<size_t>(kind)];
}

std::string format_part_rows(std::span<const std::vector<int64_t>> rows) {
  std::string text;
  for (const std::vector<int64_t>& parameter : rows) {
    if (!text.empty()) text += ",";
    for (size_t i = 0; i < parameter.size(); ++i) text += (i > 0 ? "+" : "") + std::to_string(parameter[i]);
  }
  return text;
}

std::vector<std::vector<int64_t>> part_rows_of(const Attributes& attributes) {
  const std::string& text = attributes.word(kPartRows);
  std::vector<std::vector<int64_t>> rows(1);
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int64_t number = 0;
    const auto [rest, error] = std::from_chars(at, end, number);
    PLIMSOLL_CHECK(error == std::errc() && (rest == end || *rest == '+' || *rest == ','),
                   "the attribute that lists the rows of each part of fused weights must be integers "
                   "separated by '+' and ',', but is '{}'",
                   text);
    rows.back().push_back(number);
    if (rest < end && *rest == ',') rows.emplace_back();
    at = rest + 1;
  }
  return rows;
}

int64_t elements_per_row(const Shape& shape) {
  int64_t elements = 1;
  for (int i = 1; i < shape.rank(); ++i) elements *= shape[i].offset;
  return elements;
}

}  // namespace plimsoll
