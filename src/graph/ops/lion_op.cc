// lion(lr, step, clip, finite, p_0, g_0, m_0, p_1, ...) {beta1, beta2, weight_decay}: one update of every parameter
// of a group in place (Chen et al., arXiv 2302.06675). Outputs p' and m' per parameter are new versions of the same
// bytes. If finite is 0, nothing is written. With {copies} each parameter has one more value, a 16-bit copy of p',
// which the update writes too.
#include "graph/ops/ops.h"
#include "graph/ops/update.h"

namespace plimsoll {
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

}  // namespace plimsoll
