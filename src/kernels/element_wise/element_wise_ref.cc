#include "kernels/element_wise/activation.h"

#include "kernels/element_wise/add.h"
#include "kernels/element_wise/cast.h"
#include "kernels/element_wise/column_range.h"
#include "kernels/element_wise/dropout.h"
#include "kernels/element_wise/scale_shift.h"

namespace plimsoll {

void tanh_fwd_ref(const ActivationFwdArgs& args) {
  for (int64_t i = 0; i < args.n; ++i) args.y.store(i, std::tanh(args.x.load(i)));
}

void relu_fwd_ref(const ActivationFwdArgs& args) {
  for (int64_t i = 0; i < args.n; ++i) {
    const double x = args.x.load(i);
    args.y.store(i, x <= 0.0 ? 0.0 : x);
  }
}

void tanh_bwd_ref(const ActivationBwdArgs& args) {
  for (int64_t i = 0; i < args.n; ++i) {
    const double y = args.y.load(i);
    args.d_x.store(i, args.d_y.load(i) * (1.0 - y * y));
  }
}

void relu_bwd_ref(const ActivationBwdArgs& args) {
  for (int64_t i = 0; i < args.n; ++i) args.d_x.store(i, args.y.load(i) > 0.0 ? args.d_y.load(i) : 0.0);
}

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

void cast_fwd_ref(const CastFwdArgs& args) {
  for (int64_t i = 0; i < args.n; ++i) args.y.store(i, args.x.load(i));
}

void copy_ref(const CopyArgs& args) {
  for (int64_t i = 0; i < args.bytes; ++i) args.to[i] = args.from[i];
}

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

void dropout_fwd_ref(const DropoutFwdArgs& args) {
  PLIMSOLL_CHECK(args.p >= 0.0 && args.p < 1.0, "the dropout probability must be in [0, 1), but is {}",
                 args.p);
  const uint32_t threshold = dropout_threshold(args.p);
  const double scale = static_cast<double>(dropout_scale(args.p));
  for (int64_t i = 0; i < args.n; ++i) {
    const bool kept = random_half(args.where, static_cast<uint64_t>(args.columns.number_of(i))) >= threshold;
    args.y.store(i, args.x.load(i) * (kept ? scale : 0.0));
  }
}

void scale_shift_fwd_ref(const ScaleShiftFwdArgs& args) {
  for (int64_t t = 0; t < args.T; ++t) {
    for (int64_t c = 0; c < args.C; ++c) {
      const int64_t i = t * args.C + c;
      args.y.store(i, args.x_hat.load(i) * args.gain.load(c) + (args.bias ? args.bias.load(c) : 0.0));
    }
  }
}

void scale_shift_bwd_ref(const ScaleShiftBwdArgs& args) {
  const bool add = args.accumulate == Accumulate::kAdd;
  for (int64_t c = 0; c < args.C; ++c) {
    double d_gain = add ? args.d_gain.load(c) : 0.0;
    double d_bias = add && args.d_bias ? args.d_bias.load(c) : 0.0;
    const double gain = args.gain.load(c);
    for (int64_t t = 0; t < args.T; ++t) {
      const int64_t i = t * args.C + c;
      const double d_y = args.d_y.load(i);
      d_gain += d_y * args.x_hat.load(i);
      d_bias += d_y;
      args.d_x_hat.store(i, d_y * gain);
    }
    args.d_gain.store(c, d_gain);
    if (args.d_bias) args.d_bias.store(c, d_bias);
  }
}

}  // namespace plimsoll
