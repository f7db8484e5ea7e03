// Attention over pages on a GPU. A block computes one part of one row's positions for up to kMostHeads query heads that share their keys:
// each of its four warps reads several keys at a time, a few lanes per key, and keeps a running softmax. The warps' sums are joined in
// shared memory. If sequences have several parts, a second kernel joins the parts.
#include <algorithm>
#include <cmath>

#include "device/cuda/cuda_error.h"
#include "kernels/attention/paged_attention.h"
#include "kernels/element_wise/cuda/early_launch.cuh"
#include "kernels/element_wise/cuda/vectors.cuh"

namespace plimsoll {
namespace paged {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr float kLog2E = 1.44269504f;

struct KernelArgs {
  const void* qkv = nullptr;
  const void* cache = nullptr;
  const int32_t* cu_seqlens = nullptr;
  const int32_t* page_table = nullptr;
  const int32_t* lengths = nullptr;
  void* o = nullptr;
  float* results = nullptr;  // [T, parts, H, D]; null if there is one part
  float* lse = nullptr;      // [T, parts, H], of base 2
  float scale = 1.0f;        // times log2(e)
  int sequences = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int page_size = 0, max_pages = 0, window = 0, parts = 0;
  int part_size = 0;  // positions of a part
};

// The place of a row: its sequence, or -1 for a tail row, and its position in the sequence.
struct Row {
  int sequence = -1;
  int position = 0;
};

// Requires: all threads of a warp call it. Each lane counts some sequences that end at or before t: these loads wait for memory
// once, those of a binary search once per step.
__device__ Row find_row(const int32_t* cu_seqlens, const int32_t* lengths, int sequences, int t) {
  int before = 0;
  for (int i = static_cast<int>(threadIdx.x) % 32; i < sequences; i += 32)
    before += cu_seqlens[i + 1] <= t ? 1 : 0;
  for (int mask = 16; mask > 0; mask /= 2) before += __shfl_xor_sync(0xffffffffu, before, mask);
  const int sequence = before;
  if (sequence == sequences) return {};
  return {sequence, lengths[sequence] - (cu_seqlens[sequence + 1] - t)};
}

// The positions first .. end - 1 of a part that a row sees.
struct Keys {
  int first = 0;
  int end = 0;
};
__device__ Keys keys_of_part(const KernelArgs& args, int position, int part) {
  const int seen = args.window > 0 ? max(0, position - args.window + 1) : 0;
  const int begin = part * args.part_size;
  return {max(seen, begin), min(position + 1, begin + args.part_size)};
}

template <typename T>
__device__ void store(void* o, int64_t at, float value) {
  const float one[1] = {value};
  cuda::store_raw<T, 1>(static_cast<T*>(o) + at, cuda::pack<T, 1>(one));
}

// The running softmax of one query head over the keys of some lanes.
template <int kElements>
struct Sums {
  float largest = -INFINITY;  // the largest score, in base 2
  float total = 0.0f;         // the sum of 2^(score - largest)
  float o[kElements] = {};

  __device__ void add(float score, const float (&v)[kElements]) {
    const float next = fmaxf(largest, score);
    const float kept = exp2f(largest - next), weight = exp2f(score - next);
    total = total * kept + weight;
#pragma unroll
    for (int i = 0; i < kElements; ++i) o[i] = o[i] * kept + weight * v[i];
    largest = next;
  }
  // Adds the sums of the lane whose number differs in the bits of `mask`.
  __device__ void join_lane(int mask) {
    const float other_largest = __shfl_xor_sync(0xffffffffu, largest, mask);
    const float other_total = __shfl_xor_sync(0xffffffffu, total, mask);
    const float next = fmaxf(largest, other_largest);
    const float kept = largest == -INFINITY ? 0.0f : exp2f(largest - next);
    const float added = other_largest == -INFINITY ? 0.0f : exp2f(other_largest - next);
    total = total * kept + other_total * added;
#pragma unroll
    for (int i = 0; i < kElements; ++i) o[i] = o[i] * kept + __shfl_xor_sync(0xffffffffu, o[i], mask) * added;
    largest = next;
  }
};

// kPack elements are loaded at a time, kLanes lanes share a key, each has kPacks packs of it, and a block has kHeads query heads.
template <typename T, int kPack, int kLanes, int kPacks, int kHeads>
__global__ void __launch_bounds__(kThreads) part_kernel(KernelArgs args) {
  cuda::begin_early_launch();
  constexpr int kElements = kPack * kPacks;
  constexpr int kKeysPerWarp = 32 / kLanes;
  // Keys that a lane loads before it uses the first: decoding waits for memory most of the time.
  constexpr int kBatch = kPacks == 1 ? 4 : 1;
  __shared__ float shared_o[kWarps][kHeads][kElements * kLanes];
  __shared__ float shared_largest[kWarps][kHeads], shared_total[kWarps][kHeads];

  const int t = static_cast<int>(blockIdx.z), part = static_cast<int>(blockIdx.x);
  const int group = args.heads / args.kv_heads, chunks = (group + kHeads - 1) / kHeads;
  const int kv_head = static_cast<int>(blockIdx.y) / chunks;
  const int first_of_group = static_cast<int>(blockIdx.y) % chunks * kHeads;
  const int num_heads = min(kHeads, group - first_of_group);
  const int head = kv_head * group + first_of_group;
  const Row row = find_row(args.cu_seqlens, args.lengths, args.sequences, t);
  if (row.sequence < 0) {
    if (part > 0) return;
    for (int i = static_cast<int>(threadIdx.x); i < num_heads * args.head_dim; i += kThreads) {
      store<T>(args.o, (int64_t{t} * args.heads + head) * args.head_dim + i, 0.0f);
    }
    return;
  }
  const Keys keys = keys_of_part(args, row.position, part);
  if (keys.first >= keys.end) return;

  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int key = lane / kLanes, sub = lane % kLanes;
  // Element i of this lane is element_of(i / kPack) + i % kPack of a head.
  const auto element_of = [&](int i) { return (i * kLanes + sub) * kPack; };
  using Pack = cuda::Raw<T, kPack>;
  const auto load_packs = [&](const T* from, Pack(&packs)[kPacks]) {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      if (element_of(i) < args.head_dim) packs[i] = cuda::load_raw<T, kPack>(from + element_of(i));
    }
  };
  const auto unpack_head = [&](const Pack(&packs)[kPacks], float(&x)[kElements]) {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      float values[kPack] = {};
      if (element_of(i) < args.head_dim) cuda::unpack<T, kPack>(packs[i], values);
#pragma unroll
      for (int n = 0; n < kPack; ++n) x[i * kPack + n] = values[n];
    }
  };

  float q[kHeads][kElements] = {};
  const int64_t row_width = int64_t{args.heads + 2 * args.kv_heads} * args.head_dim;
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    if (h < num_heads) {
      Pack packs[kPacks] = {};
      load_packs(static_cast<const T*>(args.qkv) + t * row_width + int64_t{head + h} * args.head_dim, packs);
      unpack_head(packs, q[h]);
    }
#pragma unroll
    for (int i = 0; i < kElements; ++i) q[h][i] *= args.scale;
  }

  Sums<kElements> sums[kHeads];
  const int32_t* pages = args.page_table + int64_t{row.sequence} * args.max_pages;
  const int64_t token_width = int64_t{args.kv_heads} * args.head_dim;
  constexpr int kApart = kWarps * kKeysPerWarp;
  for (int first = keys.first + warp * kKeysPerWarp; first < keys.end; first += kBatch * kApart) {
    Pack k_packs[kBatch][kPacks] = {}, v_packs[kBatch][kPacks] = {};
#pragma unroll
    for (int u = 0; u < kBatch; ++u) {
      const int j = first + u * kApart + key;
      if (j >= keys.end) continue;
      const int64_t slot = int64_t{pages[j / args.page_size]} * 2 * args.page_size + j % args.page_size;
      const T* from =
          static_cast<const T*>(args.cache) + slot * token_width + int64_t{kv_head} * args.head_dim;
      load_packs(from, k_packs[u]);
      load_packs(from + args.page_size * token_width, v_packs[u]);
    }
#pragma unroll
    for (int u = 0; u < kBatch; ++u) {
      if (first + u * kApart >= keys.end) continue;  // the same for all lanes of the warp
      const bool is_key = first + u * kApart + key < keys.end;
      float k[kElements], v[kElements];
      unpack_head(k_packs[u], k);
      unpack_head(v_packs[u], v);
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        float score = 0.0f;
#pragma unroll
        for (int i = 0; i < kElements; ++i) score += q[h][i] * k[i];
#pragma unroll
        for (int mask = 1; mask < kLanes; mask *= 2) score += __shfl_xor_sync(0xffffffffu, score, mask);
        if (is_key) sums[h].add(score, v);
      }
    }
  }

#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
#pragma unroll
    for (int mask = kLanes; mask < 32; mask *= 2) sums[h].join_lane(mask);
    if (key != 0) continue;
    if (sub == 0) {
      shared_largest[warp][h] = sums[h].largest;
      shared_total[warp][h] = sums[h].total;
    }
#pragma unroll
    for (int i = 0; i < kElements; ++i) shared_o[warp][h][element_of(i / kPack) + i % kPack] = sums[h].o[i];
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < num_heads * args.head_dim; i += kThreads) {
    const int h = i / args.head_dim, d = i % args.head_dim;
    float largest = -INFINITY;
    for (int w = 0; w < kWarps; ++w) largest = fmaxf(largest, shared_largest[w][h]);
    float total = 0.0f, o = 0.0f;
    for (int w = 0; w < kWarps; ++w) {
      const float weight = exp2f(shared_largest[w][h] - largest);  // 0 for a warp without keys
      total += weight * shared_total[w][h];
      o += weight * shared_o[w][h][d];
    }
    if (args.results == nullptr) {
      store<T>(args.o, (int64_t{t} * args.heads + head + h) * args.head_dim + d, o / total);
      continue;
    }
    const int64_t at = (int64_t{t} * args.parts + part) * args.heads + head + h;
    args.results[at * args.head_dim + d] = o / total;
    if (d == 0) args.lse[at] = largest + log2f(total);
  }
}

// Joins the parts of a row and head, from the first one to the last one.
template <typename T>
__global__ void __launch_bounds__(kThreads) join_kernel(KernelArgs args) {
  cuda::begin_early_launch();
  const int head = static_cast<int>(blockIdx.x), t = static_cast<int>(blockIdx.y);
  const Row row = find_row(args.cu_seqlens, args.lengths, args.sequences, t);
  if (row.sequence < 0) return;  // part_kernel has cleared the row
  const int seen = args.window > 0 ? max(0, row.position - args.window + 1) : 0;
  const int first = seen / args.part_size, last = row.position / args.part_size;
  const int64_t start = int64_t{t} * args.parts * args.heads + head;
  float largest = -INFINITY;
  for (int part = first; part <= last; ++part)
    largest = fmaxf(largest, args.lse[start + int64_t{part} * args.heads]);
  for (int d = static_cast<int>(threadIdx.x); d < args.head_dim; d += kThreads) {
    float total = 0.0f, o = 0.0f;
    for (int part = first; part <= last; ++part) {
      const int64_t at = start + int64_t{part} * args.heads;
      const float weight = exp2f(args.lse[at] - largest);
      total += weight;
      o += weight * args.results[at * args.head_dim + d];
    }
    store<T>(args.o, (int64_t{t} * args.heads + head) * args.head_dim + d, o / total);
  }
}

template <typename T, int kPack, int kLanes, int kPacks, int kHeads>
void launch_parts(const KernelArgs& args, int tokens, CudaStream stream) {
  const int group = args.heads / args.kv_heads;
  const dim3 grid(static_cast<unsigned>(args.parts),
                  static_cast<unsigned>(args.kv_heads * ((group + kHeads - 1) / kHeads)),
                  static_cast<unsigned>(tokens));
  cuda::launch_early(part_kernel<T, kPack, kLanes, kPacks, kHeads>, {grid, dim3(kThreads)}, stream, args);
  if (args.results == nullptr) return;
  const dim3 rows(static_cast<unsigned>(args.heads), static_cast<unsigned>(tokens));
  cuda::launch_early(join_kernel<T>, {rows, dim3(kThreads)}, stream, args);
}

constexpr int kMostHeads = 4;

template <typename T, int kPack, int kLanes, int kPacks>
void launch_heads(const KernelArgs& args, int tokens, CudaStream stream) {
  if (args.heads == args.kv_heads) return launch_parts<T, kPack, kLanes, kPacks, 1>(args, tokens, stream);
  launch_parts<T, kPack, kLanes, kPacks, kMostHeads>(args, tokens, stream);
}

bool is_aligned(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % 16 == 0;
}

template <typename T>
void launch(const KernelArgs& args, int tokens, CudaStream stream) {
  constexpr int kPack = cuda::kPack<T>;
  const int packs = args.head_dim / kPack;
  if (args.head_dim % kPack != 0 || !is_aligned(args.qkv) || !is_aligned(args.cache)) {
    return launch_heads<T, 1, 32, static_cast<int>(kPagedCudaHeadDim) / 32>(args, tokens, stream);
  }
  if (packs <= 8) return launch_heads<T, kPack, 8, 1>(args, tokens, stream);
  if (packs <= 16) return launch_heads<T, kPack, 16, 1>(args, tokens, stream);
  if (packs <= 32) return launch_heads<T, kPack, 32, 1>(args, tokens, stream);
  // A head of up to kPagedCudaHeadDim elements: only fp32 has more than 32 packs.
  if constexpr (kPack * 32 < kPagedCudaHeadDim) launch_heads<T, kPack, 32, 2>(args, tokens, stream);
}

struct AppendArgs {
  const void* qkv = nullptr;
  void* cache = nullptr;
  const int32_t* cu_seqlens = nullptr;
  const int32_t* page_table = nullptr;
  const int32_t* lengths = nullptr;
  const int32_t* copy_from = nullptr;
  int sequences = 0, page_size = 0, max_pages = 0;
  int q_units = 0, token_units = 0;  // units of q, and of k (and v), in a row of qkv
};

// Threads of a block that appends: as many as copy most of a page's tokens at once.
constexpr int kAppendThreads = 512;

// Copies `count` units with a block. Each thread loads several units before it stores the first.
template <typename Unit>
__device__ void copy_units(const Unit* __restrict__ from, Unit* __restrict__ to, int count) {
  constexpr int kUnits = 4;
  for (int first = static_cast<int>(threadIdx.x); first < count; first += kUnits * kAppendThreads) {
    Unit units[kUnits];
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      if (first + u * kAppendThreads < count) units[u] = from[first + u * kAppendThreads];
    }
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      if (first + u * kAppendThreads < count) to[first + u * kAppendThreads] = units[u];
    }
  }
}

// A block writes k and v of one row; the block of the first new row of a sequence also copies the tokens of a shared page. Unit is
// the type that is copied at a time.
template <typename Unit>
__global__ void __launch_bounds__(kAppendThreads) append_kernel(AppendArgs args) {
  cuda::begin_early_launch();
  const int t = static_cast<int>(blockIdx.x);
  const Row row = find_row(args.cu_seqlens, args.lengths, args.sequences, t);
  if (row.sequence < 0) return;
  const int32_t* pages = args.page_table + int64_t{row.sequence} * args.max_pages;
  auto* cache = static_cast<Unit*>(args.cache);
  const int64_t part_units = int64_t{args.page_size} * args.token_units;
  Unit* page = cache + int64_t{pages[row.position / args.page_size]} * 2 * part_units;
  const auto* from =
      static_cast<const Unit*>(args.qkv) + int64_t{t} * (args.q_units + 2 * args.token_units) + args.q_units;
  const int slot = row.position % args.page_size;
  for (int part = 0; part < 2; ++part) {
    copy_units(from + part * args.token_units, page + part * part_units + int64_t{slot} * args.token_units,
               args.token_units);
  }
  if (args.copy_from == nullptr || t != args.cu_seqlens[row.sequence]) return;
  const int source = args.copy_from[row.sequence];
  if (source < 0) return;
  const int units = slot * args.token_units;
  const Unit* shared = cache + int64_t{source} * 2 * part_units;
  copy_units(shared, page, units);
  copy_units(shared + part_units, page + part_units, units);
}

template <typename Unit>
void launch_append(AppendArgs args, int64_t q_bytes, int64_t token_bytes, int64_t tokens, CudaStream stream) {
  args.q_units = static_cast<int>(q_bytes / static_cast<int64_t>(sizeof(Unit)));
  args.token_units = static_cast<int>(token_bytes / static_cast<int64_t>(sizeof(Unit)));
  cuda::launch_early(append_kernel<Unit>, {dim3(static_cast<unsigned>(tokens)), dim3(kAppendThreads)}, stream,
                     args);
}

}  // namespace
}  // namespace paged

void paged_attention_cuda(const PagedAttentionArgs& args, CudaStream stream) {
  const PagedAttentionDims& dims = args.dims;
  check_paged_device_args(args, paged_attention_cuda_scratch_bytes(dims));
  PLIMSOLL_CHECK(dims.head_dim <= kPagedCudaHeadDim && dims.tokens <= 65535 && dims.heads <= 65535,
                 "paged attention on a GPU of T={} H={} D={}", dims.tokens, dims.heads, dims.head_dim);
  if (dims.tokens == 0) return;
  const bool is_divided = dims.tokens <= kPagedCudaDividedRows;
  const int64_t positions = std::max<int64_t>(1, dims.max_pages * dims.page_size);
  const int64_t parts = is_divided ? std::max<int64_t>(1, paged_attention_cuda_parts(dims)) : 1;
  auto* results = parts > 1 ? static_cast<float*>(args.scratch.data) : nullptr;
  const paged::KernelArgs kernel{
      .qkv = args.qkv.data,
      .cache = args.cache.data,
      .cu_seqlens = args.cu_seqlens.as<int32_t>(),
      .page_table = args.page_table.as<int32_t>(),
      .lengths = args.lengths.as<int32_t>(),
      .o = args.o.data,
      .results = results,
      .lse = results == nullptr ? nullptr : results + dims.tokens * parts * dims.heads * dims.head_dim,
      .scale = static_cast<float>(args.scale) * paged::kLog2E,
      .sequences = static_cast<int>(dims.sequences),
      .heads = static_cast<int>(dims.heads),
      .kv_heads = static_cast<int>(dims.kv_heads),
      .head_dim = static_cast<int>(dims.head_dim),
      .page_size = static_cast<int>(dims.page_size),
      .max_pages = static_cast<int>(dims.max_pages),
      .window = static_cast<int>(dims.window),
      .parts = static_cast<int>(parts),
      .part_size = static_cast<int>(is_divided ? paged_attention_cuda_part(dims) : positions)};
  const int tokens = static_cast<int>(dims.tokens);
  if (args.qkv.dtype == DType::kF32) return paged::launch<float>(kernel, tokens, stream);
  if (args.qkv.dtype == DType::kBF16) return paged::launch<__nv_bfloat16>(kernel, tokens, stream);
  PLIMSOLL_CHECK(args.qkv.dtype == DType::kF16, "paged attention of {}", dtype_name(args.qkv.dtype));
  paged::launch<__half>(kernel, tokens, stream);
}

void append_kv_cuda(const AppendKvArgs& args, CudaStream stream) {
  const PagedAttentionDims& dims = args.dims;
  check_paged_device_args(args);
  const int64_t element = dtype_bytes(args.qkv.dtype);
  PLIMSOLL_CHECK(element == 2 || element == 4, "append_kv on a GPU of {}", dtype_name(args.qkv.dtype));
  if (dims.tokens == 0) return;
  const paged::AppendArgs kernel{.qkv = args.qkv.data,
                                 .cache = args.cache.data,
                                 .cu_seqlens = args.cu_seqlens.as<int32_t>(),
                                 .page_table = args.page_table.as<int32_t>(),
                                 .lengths = args.lengths.as<int32_t>(),
                                 .copy_from = args.copy_from ? args.copy_from.as<int32_t>() : nullptr,
                                 .sequences = static_cast<int>(dims.sequences),
                                 .page_size = static_cast<int>(dims.page_size),
                                 .max_pages = static_cast<int>(dims.max_pages)};
  const int64_t q_bytes = dims.heads * dims.head_dim * element,
                token_bytes = dims.kv_heads * dims.head_dim * element;
  if (q_bytes % 16 == 0 && token_bytes % 16 == 0 && paged::is_aligned(args.qkv.data) &&
      paged::is_aligned(args.cache.data)) {
    return paged::launch_append<uint4>(kernel, q_bytes, token_bytes, dims.tokens, stream);
  }
  if (element == 4) return paged::launch_append<uint32_t>(kernel, q_bytes, token_bytes, dims.tokens, stream);
  paged::launch_append<uint16_t>(kernel, q_bytes, token_bytes, dims.tokens, stream);
}

}  // namespace plimsoll
