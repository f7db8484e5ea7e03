#include "kernels/attention/attention_schedule.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <numeric>

namespace plimsoll {
namespace {

void check_dims(const AttentionDims& dims, const AttentionOptions& options) {
  PLIMSOLL_CHECK(dims.tokens >= 0 && dims.sequences >= 0 && dims.heads >= 1 && dims.head_dim >= 1,
                 "the sizes of attention must not be negative, with at least one head of at least one "
                 "element, but they are {} tokens, {} sequences and {} heads of size {}",
                 dims.tokens, dims.sequences, dims.heads, dims.head_dim);
  PLIMSOLL_CHECK(dims.kv_heads >= 0 && dims.heads % dims.num_kv_heads() == 0 && dims.window >= 0,
                 "the number of heads of keys must divide the number of query heads, and the window must not "
                 "be negative, but there are {} query heads, {} heads of keys and a window of {}",
                 dims.heads, dims.kv_heads, dims.window);
  PLIMSOLL_CHECK(dims.longest >= 0 && dims.longest <= kAttentionLongest,
                 "the longest sequence of attention may have at most {} rows, but has {}", kAttentionLongest,
                 dims.longest);
  PLIMSOLL_CHECK(std::isfinite(options.scale) && options.scale > 0,
                 "the scale of attention must be positive and finite, but is {}", options.scale);
  PLIMSOLL_CHECK(options.dropout >= 0 && options.dropout < 1,
                 "the dropout probability of attention must be in [0, 1), but is {}", options.dropout);
}

void check_lengths(const AttentionDims& dims, ConstView cu_seqlens_B) {
  const int32_t* cu_seqlens = cu_seqlens_B.as<int32_t>();
  PLIMSOLL_CHECK(cu_seqlens != nullptr && cu_seqlens[0] == 0,
                 "cu_seqlens must not be null and must start with 0");
  for (int64_t b = 0; b < dims.sequences; ++b) {
    const int64_t count = attention_sequence(cu_seqlens, b).count;
    PLIMSOLL_CHECK(count >= 0 && count <= dims.longest, "sequence {} has {} rows, but must have 0 to {}", b,
                   count, dims.longest);
  }
  PLIMSOLL_CHECK(cu_seqlens[dims.sequences] <= dims.tokens,
                 "cu_seqlens ends at row {}, but the tensors have only {} rows", cu_seqlens[dims.sequences],
                 dims.tokens);
}

void check_rows(const AttentionDims& dims, int64_t heads, ConstView view, int64_t row_stride, DType dtype,
                const char* name) {
  PLIMSOLL_CHECK(
      view.dtype == dtype && is_floating(dtype),
      "attention: all tensors must have one floating-point type, but {} is {} and the first tensor is {}",
      name, dtype_name(view.dtype), dtype_name(dtype));
  PLIMSOLL_CHECK(view || dims.tokens == 0, "attention: {} is null", name);
  PLIMSOLL_CHECK(row_stride >= heads * dims.head_dim,
                 "attention: the rows of {} are {} elements apart, but {} heads of {} elements need {}", name,
                 row_stride, heads, dims.head_dim, heads * dims.head_dim);
}

void check_scratch(const View& scratch, int64_t has, int64_t needs) {
  PLIMSOLL_CHECK(has >= needs && (scratch || needs == 0),
                 "attention needs {} bytes of scratch memory, but has {}", needs, has);
}

}  // namespace

void check_attention_args(const AttentionFwdArgs& args, int64_t scratch_bytes) {
  check_attention_device_args(args, scratch_bytes);
  check_lengths(args.dims, args.cu_seqlens);
}

void check_attention_args(const AttentionBwdArgs& args, int64_t scratch_bytes) {
  check_attention_device_args(args, scratch_bytes);
  check_lengths(args.dims, args.cu_seqlens);
}

void check_attention_device_args(const AttentionFwdArgs& args, int64_t scratch_bytes) {
  check_dims(args.dims, args.options);
  const DType dtype = args.q.view.dtype;
  check_rows(args.dims, args.dims.heads, args.q.view, args.q.row_stride, dtype, "q");
  check_rows(args.dims, args.dims.num_kv_heads(), args.k.view, args.k.row_stride, dtype, "k");
  check_rows(args.dims, args.dims.num_kv_heads(), args.v.view, args.v.row_stride, dtype, "v");
  check_rows(args.dims, args.dims.heads, args.o, args.dims.heads * args.dims.head_dim, dtype, "o");
  PLIMSOLL_CHECK(!args.lse || args.lse.dtype == DType::kF32, "attention: lse must be f32, but is {}",
                 dtype_name(args.lse.dtype));
  check_scratch(args.scratch, args.scratch_bytes, scratch_bytes);
}

void check_attention_device_args(const AttentionBwdArgs& args, int64_t scratch_bytes) {
  check_dims(args.dims, args.options);
  const DType dtype = args.q.view.dtype;
  const int64_t columns = args.dims.heads * args.dims.head_dim;
  check_rows(args.dims, args.dims.heads, args.q.view, args.q.row_stride, dtype, "q");
  check_rows(args.dims, args.dims.num_kv_heads(), args.k.view, args.k.row_stride, dtype, "k");
  check_rows(args.dims, args.dims.num_kv_heads(), args.v.view, args.v.row_stride, dtype, "v");
  check_rows(args.dims, args.dims.heads, args.o, columns, dtype, "o");
  check_rows(args.dims, args.dims.heads, args.lse, columns, DType::kF32, "lse");
  check_rows(args.dims, args.dims.heads, args.d_o, columns, dtype, "d_o");
  check_rows(args.dims, args.dims.heads, args.d_q.view, args.d_q.row_stride, dtype, "d_q");
  check_rows(args.dims, args.dims.num_kv_heads(), args.d_k.view, args.d_k.row_stride, dtype, "d_k");
  check_rows(args.dims, args.dims.num_kv_heads(), args.d_v.view, args.d_v.row_stride, dtype, "d_v");
  check_scratch(args.scratch, args.scratch_bytes, scratch_bytes);
}

void check_cpu_type(DType dtype) {
  PLIMSOLL_CHECK(dtype == DType::kF32 || dtype == DType::kBF16,
                 "attention on a CPU supports f32 and bf16, not {}", dtype_name(dtype));
}

AttentionCpuScratch lay_out_scratch(const AttentionDims& dims, const int32_t* cu_seqlens,
                                    const View& scratch) {
  const std::span<int32_t> order(static_cast<int32_t*>(scratch.data), static_cast<size_t>(dims.sequences));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [cu_seqlens](int32_t a, int32_t b) {
    const int64_t length_a = attention_sequence(cu_seqlens, a).count;
    const int64_t length_b = attention_sequence(cu_seqlens, b).count;
    return length_a != length_b ? length_a > length_b : a < b;
  });
  return {order, static_cast<float*>(scratch.data) + attention_order_bytes(dims) / 4};
}

int64_t heads_of_task(const AttentionDims& dims, int threads) {
  const int64_t heads = std::clamp<int64_t>(dims.sequences * dims.heads / (4 * threads), 1, dims.heads);
  return attention_round_up(heads, dims.group_heads());
}

void clear_rows(const Rows& rows, int64_t columns, int64_t first, int64_t end) {
  const int64_t element = dtype_bytes(rows.view.dtype);
  for (int64_t t = first; t < end; ++t) {
    std::memset(static_cast<std::byte*>(rows.view.data) + t * rows.row_stride * element, 0,
                static_cast<size_t>(columns * element));
  }
}

void clear_gradient_tails(const AttentionBwdArgs& args, int64_t first) {
  const AttentionDims& dims = args.dims;
  clear_rows(args.d_q, dims.heads * dims.head_dim, first, dims.tokens);
  clear_rows(args.d_k, dims.num_kv_heads() * dims.head_dim, first, dims.tokens);
  clear_rows(args.d_v, dims.num_kv_heads() * dims.head_dim, first, dims.tokens);
}

}  // namespace plimsoll
