// adamw_8bit(lr, step, clip, finite, p_0, g_0, m_0, m_absmax_0, v_0, v_absmax_0, p_1, ...) {beta1, beta2, epsilon,
// weight_decay, part_rows}: one update of every parameter of a group in place, with moments in 8 bits (Dettmers et
// al., arXiv 2110.02861): a code per element, and an fp32 maximum per block of 256 elements of a part. Outputs are
// new versions of the same bytes. If finite is 0, nothing is written. With {copies} each parameter has one more
// value, a 16-bit copy of p', which the update writes too.
#include "graph/ops/ops.h"
#include "graph/ops/update.h"

namespace plimsoll {
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

}  // namespace plimsoll
