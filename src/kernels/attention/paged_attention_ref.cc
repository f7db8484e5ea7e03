#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/attention/attention_schedule.h"
#include "kernels/attention/paged_attention.h"

namespace plimsoll {
namespace {

void check_dims(const PagedAttentionDims& dims) {
  const bool are_sizes =
      dims.tokens >= 0 && dims.sequences >= 0 && dims.heads >= 1 && dims.kv_heads >= 1 && dims.head_dim >= 1;
  const bool are_pages =
      dims.num_pages >= 0 && dims.page_size >= 1 && dims.max_pages >= 0 && dims.window >= 0;
  PLIMSOLL_CHECK(
      are_sizes && are_pages && dims.heads % dims.kv_heads == 0,
      "the sizes of paged attention must not be negative, heads, head size and page size must be at least 1, "
      "and the heads of keys must divide the query heads, but there are {} tokens, {} sequences, {} query "
      "heads, {} heads of keys, head size {}, {} pages of {} tokens, {} pages per sequence, window {}",
      dims.tokens, dims.sequences, dims.heads, dims.kv_heads, dims.head_dim, dims.num_pages, dims.page_size,
      dims.max_pages, dims.window);
}

void check_integers(ConstView view, const char* name) {
  PLIMSOLL_CHECK(view && view.dtype == DType::kI32, "{} must be present and i32", name);
}

template <typename Args>
void check_operands(const Args& args) {
  check_dims(args.dims);
  PLIMSOLL_CHECK(args.qkv && args.cache && args.qkv.dtype == args.cache.dtype,
                 "qkv and the cache must not be null and must have the same type, but are {} and {}",
                 dtype_name(args.qkv.dtype), dtype_name(args.cache.dtype));
  check_integers(args.cu_seqlens, "cu_seqlens");
  check_integers(args.page_table, "page_table");
  check_integers(args.lengths, "lengths");
}

// Checks the lengths of the sequences that have new rows, and the numbers of all pages that contain their tokens.
template <typename Args>
void check_sequences(const Args& args) {
  const PagedAttentionDims& dims = args.dims;
  const int32_t* cu_seqlens = args.cu_seqlens.template as<int32_t>();
  PLIMSOLL_CHECK(cu_seqlens[0] == 0 && cu_seqlens[dims.sequences] <= dims.tokens);
  for (int64_t b = 0; b < dims.sequences; ++b) {
    const AttentionSequence rows = attention_sequence(cu_seqlens, b);
    PLIMSOLL_CHECK(rows.count >= 0 && rows.count <= dims.longest,
                   "a sequence may have 0 to {} new rows, but sequence {} has {}", dims.longest, b,
                   rows.count);
    if (rows.count == 0) continue;
    const int64_t length = args.lengths.template as<int32_t>()[b];
    PLIMSOLL_CHECK(length >= rows.count && length <= dims.max_pages * dims.page_size,
                   "the tokens of a sequence must include its new tokens and fit into its pages, but "
                   "sequence {} has {} tokens, {} of which are new, and at most {} pages of {} tokens",
                   b, length, rows.count, dims.max_pages, dims.page_size);
    const int32_t* pages = args.page_table.template as<int32_t>() + b * dims.max_pages;
    for (int64_t i = 0; i * dims.page_size < length; ++i) {
      PLIMSOLL_CHECK(pages[i] >= 0 && pages[i] < dims.num_pages,
                     "entry {} of the page table of sequence {} is {}, but there are {} pages", i, b,
                     pages[i], dims.num_pages);
    }
  }
}

}  // namespace

void check_paged_device_args(const AppendKvArgs& args) {
  check_operands(args);
  if (args.copy_from) check_integers(args.copy_from, "copy_from");
}
void check_paged_args(const AppendKvArgs& args) {
  check_paged_device_args(args);
  check_sequences(args);
  for (int64_t b = 0; args.copy_from && b < args.dims.sequences; ++b) {
    const int32_t page = args.copy_from.as<int32_t>()[b];
    PLIMSOLL_CHECK(page >= -1 && page < args.dims.num_pages,
                   "sequence {} is to copy page {}, but there are {} pages", b, page, args.dims.num_pages);
  }
}
void check_paged_device_args(const PagedAttentionArgs& args, int64_t scratch_bytes) {
  check_operands(args);
  PLIMSOLL_CHECK(args.o && args.o.dtype == args.qkv.dtype,
                 "o must not be null and must have the type of qkv, but is {}", dtype_name(args.o.dtype));
  PLIMSOLL_CHECK(std::isfinite(args.scale) && args.scale > 0,
                 "the scale of paged attention must be positive and finite, but is {}", args.scale);
  PLIMSOLL_CHECK(args.scratch_bytes >= scratch_bytes && (args.scratch || scratch_bytes == 0),
                 "paged attention needs {} bytes of scratch memory, but has {}", scratch_bytes,
                 args.scratch_bytes);
}
void check_paged_args(const PagedAttentionArgs& args, int64_t scratch_bytes) {
  check_paged_device_args(args, scratch_bytes);
  check_sequences(args);
}

void append_kv_ref(const AppendKvArgs& args) {
  check_paged_args(args);
  const PagedAttentionDims& dims = args.dims;
  const int32_t* cu_seqlens = args.cu_seqlens.as<int32_t>();
  const int64_t width = dims.kv_heads * dims.head_dim;
  const int64_t row_width = dims.heads * dims.head_dim + 2 * width;
  for (int64_t b = 0; b < dims.sequences; ++b) {
    const AttentionSequence rows = attention_sequence(cu_seqlens, b);
    if (rows.count == 0) continue;
    const int32_t* pages = args.page_table.as<int32_t>() + b * dims.max_pages;
    const int64_t start = args.lengths.as<int32_t>()[b] - rows.count;
    const int32_t source = args.copy_from ? args.copy_from.as<int32_t>()[b] : -1;
    for (int64_t part = 0; part < 2; ++part) {
      for (int64_t i = 0; source >= 0 && i < start % dims.page_size * width; ++i) {
        args.cache.store(cache_element(dims, pages[start / dims.page_size], part, 0) + i,
                         args.cache.load(cache_element(dims, source, part, 0) + i));
      }
      for (int64_t i = 0; i < rows.count; ++i) {
        const int64_t t = start + i;
        const int64_t from = (rows.first + i) * row_width + dims.heads * dims.head_dim + part * width;
        const int64_t to = cache_element(dims, pages[t / dims.page_size], part, t % dims.page_size);
        for (int64_t d = 0; d < width; ++d) args.cache.store(to + d, args.qkv.load(from + d));
      }
    }
  }
}

void paged_attention_ref(const PagedAttentionArgs& args) {
  const PagedAttentionDims& dims = args.dims;
  check_paged_args(args, paged_attention_ref_scratch_bytes(dims));
  const int32_t* cu_seqlens = args.cu_seqlens.as<int32_t>();
  double* p = static_cast<double*>(args.scratch.data);
  const int64_t width = dims.heads * dims.head_dim;
  const int64_t row_width = width + 2 * dims.kv_heads * dims.head_dim;
  for (int64_t b = 0; b < dims.sequences; ++b) {
    const AttentionSequence rows = attention_sequence(cu_seqlens, b);
    const int32_t* pages = args.page_table.as<int32_t>() + b * dims.max_pages;
    for (int64_t i = 0; i < rows.count; ++i) {
      const int64_t t = args.lengths.as<int32_t>()[b] - rows.count + i;
      const int64_t first = dims.window > 0 ? std::max<int64_t>(0, t - dims.window + 1) : 0;
      for (int64_t h = 0; h < dims.heads; ++h) {
        const int64_t column = h / (dims.heads / dims.kv_heads) * dims.head_dim;
        const auto element = [&](int64_t part, int64_t j) {
          return cache_element(dims, pages[j / dims.page_size], part, j % dims.page_size) + column;
        };
        for (int64_t j = first; j <= t; ++j) {
          double dot = 0;
          for (int64_t d = 0; d < dims.head_dim; ++d) {
            dot += args.qkv.load((rows.first + i) * row_width + h * dims.head_dim + d) *
                   args.cache.load(element(0, j) + d);
          }
          p[j] = args.scale * dot;
        }
        const double largest = *std::max_element(p + first, p + t + 1);
        double sum = 0;
        for (int64_t j = first; j <= t; ++j) sum += p[j] = std::exp(p[j] - largest);
        for (int64_t d = 0; d < dims.head_dim; ++d) {
          double o = 0;
          for (int64_t j = first; j <= t; ++j) o += p[j] * args.cache.load(element(1, j) + d);
          args.o.store((rows.first + i) * width + h * dims.head_dim + d, o / sum);
        }
      }
    }
  }
  for (int64_t i = cu_seqlens[dims.sequences] * width; i < dims.tokens * width; ++i) args.o.store(i, 0);
}

}  // namespace plimsoll
