#include "kernels/element_wise/dropout.h"

namespace plimsoll {

void dropout_fwd_ref(const DropoutFwdArgs& args) {
  PLIMSOLL_CHECK(args.p >= 0.0 && args.p < 1.0, "dropout probability {} is not in [0, 1)", args.p);
  const uint32_t threshold = dropout_threshold(args.p);
  const double scale = static_cast<double>(dropout_scale(args.p));
  for (int64_t i = 0; i < args.n; ++i) {
    const bool kept = random_half(args.where, static_cast<uint64_t>(i)) >= threshold;
    args.y.store(i, args.x.load(i) * (kept ? scale : 0.0));
  }
}

}  // namespace plimsoll
