#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "device/cpu/parallel.h"
#include "kernels/element_wise/operands.h"
#include "kernels/embedding/first_token.h"

namespace plimsoll {
namespace {

// Copies a row if the types are equal. Otherwise converts it element by element, which is fast enough because there are only a few rows.
void move_row(ConstView from, int64_t from_row, View to, int64_t to_row, int64_t C) {
  if (from.dtype == to.dtype) {
    const auto row_bytes = static_cast<size_t>(C * dtype_bytes(to.dtype));
    std::memcpy(static_cast<char*>(to.data) + static_cast<size_t>(to_row) * row_bytes,
                static_cast<const char*>(from.data) + static_cast<size_t>(from_row) * row_bytes, row_bytes);
    return;
  }
  for (int64_t c = 0; c < C; ++c) to.store(to_row * C + c, from.load(from_row * C + c));
}

void zero_rows(View view, int64_t begin, int64_t end, int64_t C) {
  const auto row_bytes = static_cast<size_t>(C * dtype_bytes(view.dtype));
  std::memset(static_cast<char*>(view.data) + static_cast<size_t>(begin) * row_bytes, 0,
              static_cast<size_t>(end - begin) * row_bytes);
}

void check_operands(const char* kernel, ConstView from, ConstView to, ConstView cu_seqlens) {
  fast_type_of(kernel, {{"input", from}});
  fast_type_of(kernel, {{"output", to}});
  PLIMSOLL_CHECK(cu_seqlens && cu_seqlens.dtype == DType::kI32, "{}: cu_seqlens must be present and i32",
                 kernel);
}

}  // namespace

void first_token_fwd_cpu(const FirstTokenFwdArgs& args) {
  check_operands("first_token_fwd_cpu", args.x, args.out, args.cu_seqlens);
  const int32_t* cu_seqlens = args.cu_seqlens.as<int32_t>();
  for (int64_t b = 0; b < args.B; ++b) {
    if (cu_seqlens[b] < cu_seqlens[b + 1]) {
      move_row(args.x, row_of_sequence(cu_seqlens, b, args.row), args.out, b, args.C);
    } else {
      zero_rows(args.out, b, b + 1, args.C);
    }
  }
}

void first_token_bwd_cpu(const FirstTokenBwdArgs& args) {
  check_operands("first_token_bwd_cpu", args.d_out, args.d_x, args.cu_seqlens);
  const int32_t* cu_seqlens = args.cu_seqlens.as<int32_t>();
  constexpr int64_t kRowsPerTask = 64;
  parallel_for((args.T + kRowsPerTask - 1) / kRowsPerTask, [&](int64_t task, int) {
    zero_rows(args.d_x, task * kRowsPerTask, std::min(args.T, (task + 1) * kRowsPerTask), args.C);
  });
  for (int64_t b = 0; b < args.B; ++b) {
    if (cu_seqlens[b] == cu_seqlens[b + 1]) continue;
    move_row(args.d_out, b, args.d_x, row_of_sequence(cu_seqlens, b, args.row), args.C);
  }
}

}  // namespace plimsoll
