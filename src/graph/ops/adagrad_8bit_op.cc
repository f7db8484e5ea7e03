// adagrad_8bit(lr, step, clip, finite, p_0, g_0, v_0, v_absmax_0, p_1, ...) {lr_decay, epsilon, weight_decay,
// part_rows}: adagrad with its sums in 8 bits, stored like the moments of adamw_8bit (graph/ops/adamw_8bit_op.cc). With
// {copies} each parameter has one more value, a 16-bit copy of p', which the update writes too.
#include "graph/ops/ops.h"
#include "graph/ops/update.h"

namespace plimsoll {
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

}  // namespace plimsoll
