// adamw(lr, step, clip, finite, p_0, g_0, m_0, v_0, p_1, ...) {beta1, beta2, epsilon, weight_decay}: one update of
// every parameter of a group in place (Loshchilov and Hutter, arXiv 1711.05101, as torch.optim.AdamW). Outputs p',
// m', v' per parameter are new versions of the same bytes. If finite is 0, nothing is written. With {copies} each
// parameter has one more value, a 16-bit copy of p', which the update writes too. With {split} p is bf16 and each
// parameter has one more value, u8[2 n]: the lower halves of the fp32 numbers whose upper halves are in p
// (base/split_f32.h). The update writes both.
#include "graph/ops/ops.h"
#include "graph/ops/update.h"

namespace plimsoll {
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

}  // namespace plimsoll
