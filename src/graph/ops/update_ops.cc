// The ops of the optimizers whose states are 32-bit or 8-bit numbers per element. Each op describes one update. adafactor_op.cc has the op of Adafactor.

#include "graph/ops/ops.h"

#include <charconv>

#include "graph/ops/update.h"

namespace plimsoll {

// sgd(lr, step, clip, finite, p_0, g_0, b_0?, ...) {momentum, nesterov, weight_decay}: one update as torch.optim.SGD
// makes it. Outputs are p' and, if momentum > 0, b' per parameter.

namespace {

class Sgd final : public Update {
 public:
  std::string_view name() const override { return "sgd"; }
  bool is_element_wise() const override { return true; }

 protected:
  int values_per_parameter(const OpView& op) const override {
    return (op.attributes().number("momentum") > 0.0 ? 3 : 2) + copies(op);
  }
  double flops_per_element() const override { return 6.0; }
};

}  // namespace

const OpSchema& sgd_op() {
  static const Sgd op;
  return op;
}

// adamw(lr, step, clip, finite, p_0, g_0, m_0, v_0, p_1, ...) {beta1, beta2, epsilon, weight_decay}: one update of
// every parameter of a group in place (Loshchilov and Hutter, arXiv 1711.05101, as torch.optim.AdamW). Outputs p',
// m', v' per parameter are new versions of the same bytes. If finite is 0, nothing is written. With {copies} each
// parameter has one more value, a 16-bit copy of p', which the update writes too. With {split} p is bf16 and each
// parameter has one more value, u8[2 n]: the lower halves of the fp32 numbers whose upper halves are in p
// (base/split_f32.h). The update writes both.

namespace {

class Adamw final : public Update {
 public:
  std::string_view name() const override { return "adamw"; }
  bool is_element_wise() const override { return true; }

 protected:
  int values_per_parameter(const OpView& op) const override { return 4 + copies(op); }
  double flops_per_element() const override { return 15.0; }
};

}  // namespace

const OpSchema& adamw_op() {
  static const Adamw op;
  return op;
}

// lion(lr, step, clip, finite, p_0, g_0, m_0, p_1, ...) {beta1, beta2, weight_decay}: one update of every parameter
// of a group in place (Chen et al., arXiv 2302.06675). Outputs p' and m' per parameter are new versions of the same
// bytes. If finite is 0, nothing is written. With {copies} each parameter has one more value, a 16-bit copy of p',
// which the update writes too.

namespace {

class Lion final : public Update {
 public:
  std::string_view name() const override { return "lion"; }
  bool is_element_wise() const override { return true; }

 protected:
  int values_per_parameter(const OpView& op) const override { return 3 + copies(op); }
  double flops_per_element() const override { return 9.0; }
};

}  // namespace

const OpSchema& lion_op() {
  static const Lion op;
  return op;
}

// adagrad(lr, step, clip, finite, p_0, g_0, v_0, p_1, ...) {lr_decay, epsilon, weight_decay}: one update of every
// parameter of a group in place (Duchi et al., JMLR 2011, as torch.optim.Adagrad). Outputs p' and v' per parameter
// are new versions of the same bytes. If finite is 0, nothing is written. With {copies} each parameter has one more
// value, a 16-bit copy of p', which the update writes too.

namespace {

class Adagrad final : public Update {
 public:
  std::string_view name() const override { return "adagrad"; }
  bool is_element_wise() const override { return true; }

 protected:
  int values_per_parameter(const OpView& op) const override { return 3 + copies(op); }
  double flops_per_element() const override { return 9.0; }
};

}  // namespace

const OpSchema& adagrad_op() {
  static const Adagrad op;
  return op;
}

// sgd_8bit(lr, step, clip, finite, p_0, g_0, b_0, b_absmax_0, p_1, ...) {momentum, nesterov, weight_decay,
// part_rows}: sgd with its momentum in 8 bits, stored like the moments of adamw_8bit below. With {copies} each
// parameter has one more value, a 16-bit copy of p', which the update writes too.

namespace {

class Sgd8Bit final : public Update {
 public:
  std::string_view name() const override { return "sgd_8bit"; }
  OpWork work() const override { return OpWork::kUpdateOfCodes; }

 protected:
  int values_per_parameter(const OpView& op) const override { return 4 + copies(op); }
  double flops_per_element() const override { return 35.0; }
};

}  // namespace

const OpSchema& sgd_8bit_op() {
  static const Sgd8Bit op;
  return op;
}

// adamw_8bit(lr, step, clip, finite, p_0, g_0, m_0, m_absmax_0, v_0, v_absmax_0, p_1, ...) {beta1, beta2, epsilon,
// weight_decay, part_rows}: one update of every parameter of a group in place, with moments in 8 bits (Dettmers et
// al., arXiv 2110.02861): a code per element, and an fp32 maximum per block of 256 elements of a part. Outputs are
// new versions of the same bytes. If finite is 0, nothing is written. With {copies} each parameter has one more
// value, a 16-bit copy of p', which the update writes too.

namespace {

class Adamw8Bit final : public Update {
 public:
  std::string_view name() const override { return "adamw_8bit"; }
  OpWork work() const override { return OpWork::kUpdateOfCodes; }

 protected:
  int values_per_parameter(const OpView& op) const override { return 6 + copies(op); }
  double flops_per_element() const override { return 60.0; }
};

}  // namespace

const OpSchema& adamw_8bit_op() {
  static const Adamw8Bit op;
  return op;
}

// lion_8bit(lr, step, clip, finite, p_0, g_0, m_0, m_absmax_0, p_1, ...) {beta1, beta2, weight_decay, part_rows}:
// lion with its moment in 8 bits, stored like the moments of adamw_8bit above. With {copies} each parameter has one
// more value, a 16-bit copy of p', which the update writes too.

namespace {

class Lion8Bit final : public Update {
 public:
  std::string_view name() const override { return "lion_8bit"; }
  OpWork work() const override { return OpWork::kUpdateOfCodes; }

 protected:
  int values_per_parameter(const OpView& op) const override { return 4 + copies(op); }
  double flops_per_element() const override { return 35.0; }
};

}  // namespace

const OpSchema& lion_8bit_op() {
  static const Lion8Bit op;
  return op;
}

// adagrad_8bit(lr, step, clip, finite, p_0, g_0, v_0, v_absmax_0, p_1, ...) {lr_decay, epsilon, weight_decay,
// part_rows}: adagrad with its sums in 8 bits, stored like the moments of adamw_8bit above. With {copies} each
// parameter has one more value, a 16-bit copy of p', which the update writes too.

namespace {

class Adagrad8Bit final : public Update {
 public:
  std::string_view name() const override { return "adagrad_8bit"; }
  OpWork work() const override { return OpWork::kUpdateOfCodes; }

 protected:
  int values_per_parameter(const OpView& op) const override { return 4 + copies(op); }
  double flops_per_element() const override { return 40.0; }
};

}  // namespace

const OpSchema& adagrad_8bit_op() {
  static const Adagrad8Bit op;
  return op;
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
                   "'{}' does not list rows of parts", text);
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
