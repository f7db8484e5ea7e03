#include "kernels/element_wise/add.h"
#include "kernels/element_wise/cast.h"

namespace plimsoll {

void add_fwd_ref(const AddFwdArgs& args) {
  for (int64_t i = 0; i < args.n; ++i) args.c.store(i, args.a.load(i) + args.b.load(i));
}

void accumulate_ref(const AccumulateArgs& args) {
  if (args.accumulate == Accumulate::kAdd) {
    add_fwd_ref(args);
  } else {
    cast_fwd_ref({.x = args.b, .y = args.c, .n = args.n});
  }
}

void bias_add_fwd_ref(const BiasAddFwdArgs& args) {
  for (int64_t t = 0; t < args.T; ++t) {
    for (int64_t c = 0; c < args.C; ++c) {
      args.y.store(t * args.C + c, args.x.load(t * args.C + c) + args.b.load(c));
    }
  }
}

void bias_grad_ref(const BiasGradArgs& args) {
  for (int64_t c = 0; c < args.C; ++c) {
    double sum = 0.0;
    for (int64_t t = 0; t < args.T; ++t) sum += args.d_y.load(t * args.C + c);
    args.d_b.store(c, args.accumulate == Accumulate::kAdd ? args.d_b.load(c) + sum : sum);
  }
}

}  // namespace plimsoll
