// sgd_8bit(lr, step, clip, finite, p_0, g_0, b_0, b_absmax_0, p_1, ...) {momentum, nesterov, weight_decay,
// part_rows}: sgd with its momentum in 8 bits, stored like the moments of adamw_8bit (graph/ops/adamw_8bit_op.cc). With
// {copies} each parameter has one more value, a 16-bit copy of p', which the update writes too.
#include "graph/ops/ops.h"
#include "graph/ops/update.h"

namespace plimsoll {
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

}  // namespace plimsoll
