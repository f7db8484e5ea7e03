#include "kernels/element_wise/column_range.h"

namespace plimsoll {

void columns_fwd_ref(const ColumnsFwdArgs& args) {
  for (int64_t t = 0; t < args.T; ++t) {
    for (int64_t k = 0; k < args.K; ++k) {
      args.y.store(t * args.K + k, args.scale * args.x.load(t * args.N + args.first + k));
    }
  }
}

void add_columns_fwd_ref(const AddColumnsFwdArgs& args) {
  for (int64_t t = 0; t < args.T; ++t) {
    for (int64_t n = 0; n < args.N; ++n) {
      const bool inside = n >= args.first && n < args.first + args.K;
      const double added = inside ? args.y.load(t * args.K + n - args.first) : 0.0;
      args.z.store(t * args.N + n, args.x.load(t * args.N + n) + added);
    }
  }
}

}  // namespace plimsoll
