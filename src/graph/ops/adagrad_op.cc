// adagrad(lr, step, clip, finite, p_0, g_0, v_0, p_1, ...) {lr_decay, epsilon, weight_decay}: one update of every
// parameter of a group in place (Duchi et al., JMLR 2011, as torch.optim.Adagrad). Outputs p' and v' per parameter
// are new versions of the same bytes. If finite is 0, nothing is written. With {copies} each parameter has one more
// value, a 16-bit copy of p', which the update writes too.
#include "graph/ops/ops.h"
#include "graph/ops/update.h"

namespace plimsoll {
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

}  // namespace plimsoll
