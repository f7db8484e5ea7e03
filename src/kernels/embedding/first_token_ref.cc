#include "kernels/embedding/first_token.h"

namespace plimsoll {

void first_token_fwd_ref(const FirstTokenFwdArgs& args) {
  const int32_t* cu_seqlens = args.cu_seqlens.as<int32_t>();
  for (int64_t b = 0; b < args.B; ++b) {
    const int64_t first = cu_seqlens[b];
    for (int64_t c = 0; c < args.C; ++c) {
      args.out.store(b * args.C + c, first < cu_seqlens[b + 1] ? args.x.load(first * args.C + c) : 0.0);
    }
  }
}

void first_token_bwd_ref(const FirstTokenBwdArgs& args) {
  const int32_t* cu_seqlens = args.cu_seqlens.as<int32_t>();
  for (int64_t i = 0; i < args.T * args.C; ++i) args.d_x.store(i, 0.0);
  for (int64_t b = 0; b < args.B; ++b) {
    const int64_t first = cu_seqlens[b];
    if (first == cu_seqlens[b + 1]) continue;
    for (int64_t c = 0; c < args.C; ++c) args.d_x.store(first * args.C + c, args.d_out.load(b * args.C + c));
  }
}

}  // namespace plimsoll
