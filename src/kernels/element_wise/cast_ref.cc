#include "kernels/element_wise/cast.h"

namespace plimsoll {

void cast_fwd_ref(const CastFwdArgs& args) {
  for (int64_t i = 0; i < args.n; ++i) args.y.store(i, args.x.load(i));
}

}  // namespace plimsoll
