// sgd(lr, step, clip, finite, p_0, g_0, b_0?, ...) {momentum, nesterov, weight_decay}: one update as torch.optim.SGD
// makes it. Outputs are p' and, if momentum > 0, b' per parameter.
#include "graph/ops/ops.h"
#include "graph/ops/update.h"

namespace plimsoll {
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

}  // namespace plimsoll
