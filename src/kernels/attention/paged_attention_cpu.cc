// Attention over the pages of a KV cache on the CPU. Reading keys and values limits the speed of a decoding step. Each is therefore read
// only once, in the order of memory: for each part of kPagedPart positions first the keys of all heads, then the values. Up to kPagedRows
// new rows of a sequence are computed in the same pass over the keys.
#include "device/cpu/simd_targets.h"
// foreach_target.h includes this file once per instruction set, by this name, which must be defined before any Highway header.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/paged_attention_cpu.cc"
#include "hwy/foreach_target.h"
// highway.h must be included after foreach_target.h.
#include "hwy/highway.h"
#include "kernels/attention/attention_rows-inl.h"
#include "kernels/attention/attention_tiles-inl.h"

#ifndef PLIMSOLL_PAGED_ATTENTION_CPU_TYPES_
#define PLIMSOLL_PAGED_ATTENTION_CPU_TYPES_
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "device/cpu/parallel.h"
#include "kernels/attention/attention_schedule.h"
#include "kernels/attention/paged_attention.h"

namespace plimsoll {
namespace {

// One task of a thread: adjacent new rows of one sequence, and the scratch memory of the thread.
struct PagedTask {
  const PagedAttentionArgs& args;
  const int32_t* pages;  // the row of page_table that belongs to the sequence
  int64_t first_row;     // index in the batch of the first row of the task
  int64_t num_rows;      // number of rows of the task, at most kPagedRows
  int64_t position;      // position in the sequence of the first row of the task
  float* scratch;

  // Return the range of positions first_key(i) .. end_key(i) - 1 that row i of the task sees.
  int64_t first_key(int64_t i) const {
    const int64_t window = args.dims.window;
    return window > 0 ? std::max<int64_t>(0, position + i - window + 1) : 0;
  }
  int64_t end_key(int64_t i) const { return position + i + 1; }

  int64_t q_stride() const { return args.dims.heads * attention_padded_dim(args.dims.head_dim); }
  float* q() const { return scratch; }
  float* scores(int64_t row, int64_t head) const {
    return q() + paged_attention_q_floats(args.dims) + (row * args.dims.heads + head) * kPagedScoreStride;
  }
  float* part_result(int64_t row) const {
    return scores(kPagedRows, 0) + row * paged_attention_result_floats(args.dims);
  }
  float* result(int64_t row) const { return part_result(kPagedRows + row); }
};

// The result of a row, or of a row and one part of its sequence: pointers into scratch memory.
struct PagedResult {
  PagedResult(const PagedAttentionDims& dims, float* floats)
      : o(floats), lse(floats + dims.heads * attention_padded_dim(dims.head_dim)), sum(lse + dims.heads) {}
  float* o;    // array [H][padded D]: the sum of values, weighted by probabilities
  float* lse;  // array [H]: the largest lse of the parts so far; -infinity if they contain no visible key
  float* sum;  // array [H]: the sum of the weights of the parts so far
};

// The keys of one part of the sequence that at least one row of the task sees. Their number is rounded up to a multiple of four by
// repeating the last key.
struct PartKeys {
  int64_t first = 0;                // position in the sequence of the key of offsets[0]
  int64_t count = 0;                // number of keys, a multiple of four
  int64_t offsets[kPagedPart + 4];  // offsets of the keys in the cache, in elements
};

void find_keys(const PagedTask& task, int64_t part, PartKeys* keys) {
  const PagedAttentionDims& dims = task.args.dims;
  const int64_t begin = std::max(part * kPagedPart, task.first_key(0) / 4 * 4);
  const int64_t end = std::min((part + 1) * kPagedPart, task.end_key(task.num_rows - 1));
  keys->first = begin;
  keys->count = attention_round_up(end - begin, 4);
  const auto page_size = static_cast<int32_t>(dims.page_size);
  for (int64_t i = 0; i < keys->count; ++i) {
    const auto j = static_cast<int32_t>(std::min(begin + i, end - 1));
    keys->offsets[i] = cache_element(dims, task.pages[j / page_size], 0, j % page_size);
  }
}

}  // namespace
}  // namespace plimsoll
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// Loads a vector of elements of a head, starting at element d. Elements after the end of the head are zero.
template <typename T>
HWY_INLINE FloatVec load_head(const T* from, int64_t d, int64_t head_dim) {
  if (HWY_LIKELY(d + lanes() <= head_dim)) return load_floats(from + d);
  float elements[hn::MaxLanes(Floats())] = {};
  for (int64_t i = 0; d + i < head_dim; ++i) elements[i] = load_one(from + d + i);
  return hn::LoadU(Floats(), elements);
}

// Prefetches the keys (or values) j + kFetchAhead .. j + kFetchAhead + 3 of one head. The hardware does not prefetch them, because the
// tokens of a head are far apart in memory and the pages of a sequence are in any order.
inline constexpr int64_t kFetchAhead = 8;
template <typename T>
HWY_INLINE void fetch_keys(const T* cache, const PartKeys& keys, int64_t j, int64_t head_dim) {
  if (j + kFetchAhead + 4 > keys.count) return;
  for (int64_t n = 0; n < 4; ++n) {
    const char* row = reinterpret_cast<const char*>(cache + keys.offsets[j + kFetchAhead + n]);
    for (int64_t byte = 0; byte < head_dim * static_cast<int64_t>(sizeof(T)); byte += 64)
      __builtin_prefetch(row + byte, 0, 3);
  }
}

// Adds up the lanes of each of four vectors and stores the four sums.
#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void store_sums(const FloatVec (&v)[4], float* to) {
  for (int i = 0; i < 4; ++i) to[i] = hn::GetLane(v[i]);
}
#else
template <class D, class V>
HWY_INLINE void store_block_sums(D d, V v, float* to) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    hn::StoreU(v, d, to);
  } else {
    const hn::Half<D> half;
    store_block_sums(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), to);
  }
}
HWY_INLINE void store_sums(const FloatVec (&v)[4], float* to) {
  const Floats df;
  const hn::Repartition<uint64_t, Floats> d64;
  const auto v01 = hn::Add(hn::InterleaveLower(df, v[0], v[1]), hn::InterleaveUpper(df, v[0], v[1]));
  const auto v23 = hn::Add(hn::InterleaveLower(df, v[2], v[3]), hn::InterleaveUpper(df, v[2], v[3]));
  const auto low = hn::InterleaveLower(d64, hn::BitCast(d64, v01), hn::BitCast(d64, v23));
  const auto high = hn::InterleaveUpper(d64, hn::BitCast(d64, v01), hn::BitCast(d64, v23));
  store_block_sums(df, hn::Add(hn::BitCast(df, low), hn::BitCast(df, high)), to);
}
#endif

// The number of query heads whose dot products with four keys are accumulated in registers at the same time, limited by the number of
// registers.
#if HWY_TARGET <= HWY_AVX3
inline constexpr int kMostQueries = 4;
#else
inline constexpr int kMostQueries = 2;
#endif

// Computes the dot products of kQueries adjacent query heads with four keys.
template <int kQueries, typename T>
HWY_INLINE void score_tile(const float* q, const T* const (&k)[4], int64_t head_dim, float* scores) {
  const int64_t row = attention_padded_dim(head_dim);
  FloatVec sums[kQueries][4];
  HWY_UNROLL(4)
  for (int i = 0; i < kQueries; ++i) {
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) sums[i][j] = hn::Zero(Floats());
  }
  for (int64_t d = 0; d < head_dim; d += lanes()) {
    FloatVec keys[4];
    HWY_UNROLL(4)
    for (int j = 0; j < 4; ++j) keys[j] = load_head(k[j], d, head_dim);
    HWY_UNROLL(4)
    for (int i = 0; i < kQueries; ++i) {
      const FloatVec query = hn::LoadU(Floats(), q + i * row + d);
      HWY_UNROLL(4)
      for (int j = 0; j < 4; ++j) sums[i][j] = hn::MulAdd(query, keys[j], sums[i][j]);
    }
  }
  HWY_UNROLL(4)
  for (int i = 0; i < kQueries; ++i) store_sums(sums[i], scores + i * kPagedScoreStride);
}

// Computes the scores of all rows and query heads of the task with the keys of one part of the sequence.
template <typename T>
void compute_scores(const PagedTask& task, const PartKeys& keys) {
  const PagedAttentionDims& dims = task.args.dims;
  const int64_t row = attention_padded_dim(dims.head_dim);
  const int64_t group = dims.heads / dims.kv_heads;
  const T* cache = task.args.cache.as<T>();
  for (int64_t j = 0; j < keys.count; j += 4) {
    for (int64_t g = 0; g < dims.kv_heads; ++g) {
      const T* k[4];
      for (int n = 0; n < 4; ++n) k[n] = cache + keys.offsets[j + n] + g * dims.head_dim;
      fetch_keys(cache + g * dims.head_dim, keys, j, dims.head_dim);
      for (int64_t i = 0; i < task.num_rows; ++i) {
        const float* q = task.q() + i * task.q_stride() + g * group * row;
        float* scores = task.scores(i, g * group) + j;
        int64_t h = 0;
        if constexpr (kMostQueries == 4) {
          for (; h + 4 <= group; h += 4) {
            score_tile<4>(q + h * row, k, dims.head_dim, scores + h * kPagedScoreStride);
          }
        }
        for (; h + 2 <= group; h += 2) {
          score_tile<2>(q + h * row, k, dims.head_dim, scores + h * kPagedScoreStride);
        }
        if (h < group) score_tile<1>(q + h * row, k, dims.head_dim, scores + h * kPagedScoreStride);
      }
    }
  }
}

// Replaces the scores of a row and head by probabilities, which are zero for keys that the row does not see. Returns the log-sum-exp of the
// scores.
inline float paged_softmax(float* scores, int64_t first, int64_t end, int64_t count, float scale) {
  const Floats df;
  if (first >= end) {
    std::fill(scores, scores + count, 0.0f);
    return -std::numeric_limits<float>::infinity();
  }
  std::fill(scores, scores + first, 0.0f);
  // The softmax starts its vectors at the first key that this row sees. Keys before it, which only other rows of the task see, therefore do
  // not affect the bits of the result.
  const SoftmaxRow softmax = softmax_row(scores + first, 0, end - first, count - first, scale, nullptr);
  for (int64_t c = first; c < end; c += lanes()) {
    hn::StoreU(hn::Mul(hn::LoadU(df, scores + c), hn::Set(df, softmax.inverse_sum)), df, scores + c);
  }
  return softmax.lse;
}

// Adds four values, weighted by their probabilities, to the results of all rows of the task and of all query heads that share the values'
// head. Processes kVectors vectors of each value, starting at element d.
template <int kVectors, typename T>
HWY_INLINE void add_value_tile(const PagedTask& task, const T* const (&v)[4], int64_t head, int64_t j,
                               int64_t d) {
  const Floats df;
  const PagedAttentionDims& dims = task.args.dims;
  const int64_t row = attention_padded_dim(dims.head_dim);
  const int64_t group = dims.heads / dims.kv_heads;
  FloatVec values[kVectors][4];
  HWY_UNROLL(2)
  for (int i = 0; i < kVectors; ++i) {
    HWY_UNROLL(4)
    for (int n = 0; n < 4; ++n) values[i][n] = load_head(v[n], d + i * lanes(), dims.head_dim);
  }
  for (int64_t r = 0; r < task.num_rows; ++r) {
    const float* p = task.scores(r, head) + j;
    float* o = task.part_result(r) + head * row + d;
    for (int64_t h = 0; h < group; ++h) {
      FloatVec sums[kVectors];
      HWY_UNROLL(2)
      for (int i = 0; i < kVectors; ++i) sums[i] = hn::LoadU(df, o + h * row + i * lanes());
      HWY_UNROLL(4)
      for (int n = 0; n < 4; ++n) {
        const FloatVec weight = hn::Set(df, p[h * kPagedScoreStride + n]);
        HWY_UNROLL(2)
        for (int i = 0; i < kVectors; ++i) sums[i] = hn::MulAdd(weight, values[i][n], sums[i]);
      }
      HWY_UNROLL(2)
      for (int i = 0; i < kVectors; ++i) hn::StoreU(sums[i], df, o + h * row + i * lanes());
    }
  }
}

// Sets the results of the rows to the sum of the values of one part of the sequence, weighted by the probabilities.
template <typename T>
void add_values(const PagedTask& task, const PartKeys& keys) {
  const PagedAttentionDims& dims = task.args.dims;
  const int64_t row = attention_padded_dim(dims.head_dim);
  const int64_t group = dims.heads / dims.kv_heads;
  const T* values = task.args.cache.as<T>() + cache_element(dims, 0, 1, 0);
  for (int64_t i = 0; i < task.num_rows; ++i) {
    std::fill(task.part_result(i), task.part_result(i) + dims.heads * row, 0.0f);
  }
  for (int64_t j = 0; j < keys.count; j += 4) {
    for (int64_t g = 0; g < dims.kv_heads; ++g) {
      const T* v[4];
      for (int n = 0; n < 4; ++n) v[n] = values + keys.offsets[j + n] + g * dims.head_dim;
      fetch_keys(values + g * dims.head_dim, keys, j, dims.head_dim);
      int64_t d = 0;
      for (; d + lanes() < dims.head_dim; d += 2 * lanes()) add_value_tile<2>(task, v, g * group, j, d);
      if (d < dims.head_dim) add_value_tile<1>(task, v, g * group, j, d);
    }
  }
}

template <typename T>
void compute_part_of(const PagedTask& task, int64_t part) {
  const PagedAttentionDims& dims = task.args.dims;
  PartKeys keys;
  find_keys(task, part, &keys);
  compute_scores<T>(task, keys);
  for (int64_t i = 0; i < task.num_rows; ++i) {
    const int64_t first = std::clamp<int64_t>(task.first_key(i) - keys.first, 0, keys.count);
    const int64_t end = std::clamp<int64_t>(task.end_key(i) - keys.first, 0, keys.count);
    const PagedResult result(dims, task.part_result(i));
    for (int64_t h = 0; h < dims.heads; ++h) {
      result.lse[h] =
          paged_softmax(task.scores(i, h), first, end, keys.count, static_cast<float>(task.args.scale));
      result.sum[h] = 1.0f;
    }
  }
  add_values<T>(task, keys);
}

// Computes the results of one part of the sequence for all rows of the task and stores them in part_result(). Requires: load_queries() was
// called.
void compute_part(const PagedTask& task, int64_t part) {
  if (task.args.cache.dtype == DType::kBF16) return compute_part_of<BF16>(task, part);
  compute_part_of<float>(task, part);
}

template <typename T>
void load_queries_of(const PagedTask& task) {
  const PagedAttentionDims& dims = task.args.dims;
  const int64_t row_width = (dims.heads + 2 * dims.kv_heads) * dims.head_dim;
  for (int64_t i = 0; i < task.num_rows; ++i) {
    pack_rows(task.args.qkv.as<T>() + (task.first_row + i) * row_width, dims.head_dim, dims.heads,
              dims.head_dim, task.q() + i * task.q_stride());
  }
}

void load_queries(const PagedTask& task) {
  if (task.args.qkv.dtype == DType::kBF16) return load_queries_of<BF16>(task);
  load_queries_of<float>(task);
}

// Adds the result of a part of the sequence to the joined result of the parts before it.
void join_results(const PagedAttentionDims& dims, float* part_floats, float* floats) {
  const Floats df;
  const int64_t row = attention_padded_dim(dims.head_dim);
  const PagedResult part(dims, part_floats);
  const PagedResult result(dims, floats);
  for (int64_t h = 0; h < dims.heads; ++h) {
    if (std::isinf(part.lse[h])) continue;
    const float largest = std::max(part.lse[h], result.lse[h]);
    const float kept = std::exp(result.lse[h] - largest);
    const float added = std::exp(part.lse[h] - largest);
    for (int64_t d = 0; d < row; d += lanes()) {
      const FloatVec before = hn::Mul(hn::LoadU(df, result.o + h * row + d), hn::Set(df, kept));
      hn::StoreU(hn::MulAdd(hn::LoadU(df, part.o + h * row + d), hn::Set(df, added), before), df,
                 result.o + h * row + d);
    }
    result.sum[h] = result.sum[h] * kept + added;
    result.lse[h] = largest;
  }
}

// Divides the joined result of a row by the sum of its weights and stores it as row t of o.
void store_result(const PagedAttentionArgs& args, float* floats, int64_t t) {
  const PagedAttentionDims& dims = args.dims;
  const PagedResult result(dims, floats);
  for (int64_t h = 0; h < dims.heads; ++h) result.sum[h] = 1.0f / result.sum[h];
  const int64_t at = t * dims.heads * dims.head_dim;
  if (args.o.dtype == DType::kBF16) {
    unpack_rows(result.o, dims.heads, dims.head_dim, result.sum, 1, args.o.as<BF16>() + at, dims.head_dim);
  } else {
    unpack_rows(result.o, dims.heads, dims.head_dim, result.sum, 1, args.o.as<float>() + at, dims.head_dim);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
namespace {

HWY_EXPORT(compute_part);
HWY_EXPORT(load_queries);
HWY_EXPORT(join_results);
HWY_EXPORT(store_result);

// Divides the new rows of each sequence into blocks of up to kPagedRows adjacent rows. For each block, calls body(task, index) for every
// `index` from 0 to tasks_per_block - 1. The calls run on all threads.
template <typename Body>
void for_row_blocks(const PagedAttentionArgs& args, int64_t tasks_per_block, const Body& body) {
  const PagedAttentionDims& dims = args.dims;
  const int32_t* cu_seqlens = args.cu_seqlens.as<int32_t>();
  const int64_t blocks = (dims.longest + kPagedRows - 1) / kPagedRows;
  float* scratch = static_cast<float*>(args.scratch.data);
  parallel_for(dims.sequences * blocks * tasks_per_block, [&](int64_t index, int thread) {
    const int64_t b = index / tasks_per_block / blocks;
    const int64_t first = index / tasks_per_block % blocks * kPagedRows;
    const AttentionSequence rows = attention_sequence(cu_seqlens, b);
    if (first >= rows.count) return;
    const PagedTask task{args,
                         args.page_table.as<int32_t>() + b * dims.max_pages,
                         rows.first + first,
                         std::min(kPagedRows, rows.count - first),
                         args.lengths.as<int32_t>()[b] - rows.count + first,
                         scratch + thread * paged_attention_thread_floats(dims)};
    body(task, index % tasks_per_block);
  });
}

// Returns true if at least one row of the task sees a key of this part of the sequence.
bool sees_part(const PagedTask& task, int64_t part) {
  return part * kPagedPart < task.end_key(task.num_rows - 1) && (part + 1) * kPagedPart > task.first_key(0);
}

// Computes each block of rows in one task, which processes all parts of the sequence one after another.
void compute_whole_sequences(const PagedAttentionArgs& args) {
  const PagedAttentionDims& dims = args.dims;
  const int64_t floats = paged_attention_result_floats(dims);
  for_row_blocks(args, 1, [&](const PagedTask& task, int64_t) {
    HWY_DYNAMIC_DISPATCH(load_queries)(task);
    bool is_first = true;
    for (int64_t part = task.first_key(0) / kPagedPart; sees_part(task, part); ++part) {
      HWY_DYNAMIC_DISPATCH(compute_part)(task, part);
      for (int64_t i = 0; i < task.num_rows; ++i) {
        if (is_first) {
          std::memcpy(task.result(i), task.part_result(i), static_cast<size_t>(floats) * 4);
        } else {
          HWY_DYNAMIC_DISPATCH(join_results)(dims, task.part_result(i), task.result(i));
        }
      }
      is_first = false;
    }
    for (int64_t i = 0; i < task.num_rows; ++i) {
      HWY_DYNAMIC_DISPATCH(store_result)(args, task.result(i), task.first_row + i);
    }
  });
}

// Computes each block of rows in one task per part of the sequence. The tasks store their results in scratch memory; afterwards the results
// are joined in the order of the parts.
void compute_parts_of_sequences(const PagedAttentionArgs& args) {
  const PagedAttentionDims& dims = args.dims;
  const int64_t parts = paged_attention_parts(dims);
  const int64_t floats = paged_attention_result_floats(dims);
  float* stored =
      static_cast<float*>(args.scratch.data) + num_threads() * paged_attention_thread_floats(dims);
  for_row_blocks(args, parts, [&](const PagedTask& task, int64_t part) {
    if (!sees_part(task, part)) return;
    HWY_DYNAMIC_DISPATCH(load_queries)(task);
    HWY_DYNAMIC_DISPATCH(compute_part)(task, part);
    for (int64_t i = 0; i < task.num_rows; ++i) {
      float* to = stored + ((task.first_row + i) * parts + part) * floats;
      std::memcpy(to, task.part_result(i), static_cast<size_t>(floats) * 4);
    }
  });
  for_row_blocks(args, 1, [&](const PagedTask& task, int64_t) {
    for (int64_t i = 0; i < task.num_rows; ++i) {
      const int64_t first = task.first_key(0) / kPagedPart;
      float* of_row = stored + (task.first_row + i) * parts * floats;
      for (int64_t part = first + 1; sees_part(task, part); ++part) {
        HWY_DYNAMIC_DISPATCH(join_results)(dims, of_row + part * floats, of_row + first * floats);
      }
      HWY_DYNAMIC_DISPATCH(store_result)(args, of_row + first * floats, task.first_row + i);
    }
  });
}

}  // namespace

void paged_attention_cpu(const PagedAttentionArgs& args) {
  const PagedAttentionDims& dims = args.dims;
  const int threads = num_threads();
  check_paged_args(args, paged_attention_cpu_scratch_bytes(dims, threads));
  check_cpu_type(args.qkv.dtype);
  if (paged_attention_divides_sequences(dims, threads)) {
    compute_parts_of_sequences(args);
  } else {
    compute_whole_sequences(args);
  }
  const int64_t columns = dims.heads * dims.head_dim;
  clear_rows({args.o, columns}, columns, args.cu_seqlens.as<int32_t>()[dims.sequences], dims.tokens);
}

void append_kv_cpu(const AppendKvArgs& args) {
  check_paged_args(args);
  check_cpu_type(args.qkv.dtype);
  const PagedAttentionDims& dims = args.dims;
  const int32_t* cu_seqlens = args.cu_seqlens.as<int32_t>();
  const int64_t element = dtype_bytes(args.qkv.dtype);
  const int64_t width = dims.kv_heads * dims.head_dim * element;
  const int64_t row_width = dims.heads * dims.head_dim * element + 2 * width;
  const auto* qkv = static_cast<const std::byte*>(args.qkv.data);
  auto* cache = static_cast<std::byte*>(args.cache.data);
  parallel_for(dims.sequences, [&](int64_t b, int) {
    const AttentionSequence rows = attention_sequence(cu_seqlens, b);
    if (rows.count == 0) return;
    const int32_t* pages = args.page_table.as<int32_t>() + b * dims.max_pages;
    const int64_t start = args.lengths.as<int32_t>()[b] - rows.count;
    const int32_t source = args.copy_from ? args.copy_from.as<int32_t>()[b] : -1;
    for (int64_t part = 0; part < 2; ++part) {
      if (source >= 0 && start % dims.page_size > 0) {
        std::memcpy(cache + cache_element(dims, pages[start / dims.page_size], part, 0) * element,
                    cache + cache_element(dims, source, part, 0) * element,
                    static_cast<size_t>(start % dims.page_size * width));
      }
      for (int64_t i = 0; i < rows.count; ++i) {
        const int64_t t = start + i;
        std::memcpy(
            cache + cache_element(dims, pages[t / dims.page_size], part, t % dims.page_size) * element,
            qkv + (rows.first + i) * row_width + dims.heads * dims.head_dim * element + part * width,
            static_cast<size_t>(width));
      }
    }
  });
}

}  // namespace plimsoll
#endif
