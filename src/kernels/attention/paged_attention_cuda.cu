// Attention over the pages of a KV cache on a GPU. A thread block computes one new row over one part of the positions that it sees, for up
// to kMostHeads query heads that read the same keys. Each of its warps reads several keys at a time, a few lanes per key, and updates
// a running softmax. The sums of the warps are joined in shared memory. If a sequence is divided into several parts, the blocks of all
// parts of a row form a cluster and join them through their shared memories (CUDA C++ Programming Guide, "Distributed Shared Memory"), or a
// second kernel joins them.
//
// The kernels are launched early (early_launch.cuh): they start before the previous launch has ended and wait for it later. No launch that
// can still be running writes cu_seqlens, lengths or page_table, or the pages before the one that contains the first new token of a
// sequence. The kernels therefore read all of these before they wait.
#include <cooperative_groups.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "device/cuda/cuda_error.h"
#include "kernels/attention/paged_attention.h"
#include "kernels/element_wise/cuda/early_launch.cuh"
#include "kernels/element_wise/cuda/vectors.cuh"

namespace plimsoll {
namespace paged {
namespace {

constexpr int kJoinThreads = 128;  // number of threads per block of join_kernel
// The number of warps of a thread block of part_kernel: kWarps if the sequences are divided into parts or if there are many rows, and
// kWarpsUndivided if there are few rows and one block computes a row over its whole sequence.
constexpr int kWarps = 4;
constexpr int kWarpsUndivided = 8;
// The number of thread blocks that must fit on a multiprocessor, which limits the registers per thread. Decoding steps have a few hundred
// thread blocks, and a second wave of blocks would take as long as the first one.
template <int kHeads, int kBlockWarps>
inline constexpr int kBlocks = kHeads == 1 || kBlockWarps == kWarps ? 3 : 1;
constexpr float kLog2E = 1.44269504f;

struct KernelArgs {
  const void* qkv = nullptr;
  const void* cache = nullptr;
  const int32_t* cu_seqlens = nullptr;
  const int32_t* page_table = nullptr;
  const int32_t* lengths = nullptr;
  void* o = nullptr;
  float* results = nullptr;  // result of each part, shape [T, parts, H, D]; null if there is one part
  float* lse = nullptr;      // lse of each part in base 2 (log2 of the sum of 2^score), shape [T, parts, H]
  float scale = 1.0f;        // factor of the scores, multiplied by log2(e)
  int sequences = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int page_shift = 0;  // log2 of the number of tokens per page
  int max_pages = 0, window = 0, parts = 0;
  int part_size = 0;  // number of positions per part of a sequence
};

// The sequence that a row belongs to (-1 for a tail row, which belongs to none) and the position of the row in it.
struct Row {
  int sequence = -1;
  int position = 0;
  int first_new = 0;  // position of the first new token of the sequence
};

// Finds the sequence of row t. It first tries sequence t, which is the result in a decoding step, in which every sequence has one row; this
// takes only one round of loads. Otherwise it counts the sequences that end at or before t. Each lane counts some of them, so all loads are
// in flight at once, while a binary search would wait for memory once per step. All threads of a warp must call it.
__device__ Row find_row(const int32_t* cu_seqlens, const int32_t* lengths, int sequences, int t) {
  const int guess = min(t, sequences - 1);
  const int guess_length = lengths[guess], guess_end = cu_seqlens[guess + 1];
  if (cu_seqlens[guess] == t && guess_end == t + 1) return {guess, guess_length - 1, guess_length - 1};
  int before = 0;
  for (int i = static_cast<int>(threadIdx.x) % 32; i < sequences; i += 32)
    before += cu_seqlens[i + 1] <= t ? 1 : 0;
  for (int mask = 16; mask > 0; mask /= 2) before += __shfl_xor_sync(0xffffffffu, before, mask);
  const int sequence = before;
  if (sequence == sequences) return {};
  const int length = lengths[sequence], end = cu_seqlens[sequence + 1];
  return {sequence, length - (end - t), length - (end - cu_seqlens[sequence])};
}

// The range of positions first .. end - 1 that are in one part of the sequence and that a row sees.
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

// The running softmax of one query head over the keys that one group of lanes reads.
template <int kElements>
struct Sums {
  float largest = -INFINITY;  // the largest score so far, in base 2
  float total = 0.0f;         // the sum of 2^(score - largest)
  float o[kElements] = {};

  // Adds several keys at once, so that their exponentials are computed independently of each other. A key that must be ignored has the
  // score -infinity; its value is multiplied by 0 and must be finite. v_of(u, v) stores the value of key u in v.
  template <int kKeys, class VOf>
  __device__ void add(const float (&scores)[kKeys], const VOf& v_of) {
    float next = largest;
#pragma unroll
    for (int u = 0; u < kKeys; ++u) next = fmaxf(next, scores[u]);
    if (next == -INFINITY) return;
    const float kept = exp2f(largest - next);
    float weights[kKeys];
    total *= kept;
#pragma unroll
    for (int u = 0; u < kKeys; ++u) {
      weights[u] = exp2f(scores[u] - next);
      total += weights[u];
    }
#pragma unroll
    for (int i = 0; i < kElements; ++i) o[i] *= kept;
#pragma unroll
    for (int u = 0; u < kKeys; ++u) {
      float v[kElements];
      v_of(u, v);
#pragma unroll
      for (int i = 0; i < kElements; ++i) o[i] = fmaf(weights[u], v[i], o[i]);
    }
    largest = next;
  }
  // Joins the sums of this lane with those of another one: the lane whose number differs from this lane's number in the bits of `mask`.
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

// The first and the last part of the sequence that contain positions that a row sees.
struct Parts {
  int first = 0;
  int last = 0;
};
__device__ Parts parts_of(const KernelArgs& args, int position) {
  const int seen = args.window > 0 ? max(0, position - args.window + 1) : 0;
  return {seen / args.part_size, position / args.part_size};
}
// Joins the results of all parts of a sequence for one element of a row and head, in the order of the parts. lse_of(part) must return the
// lse of a part, and o_of(part) the element in its result.
template <class LseOf, class OOf>
__device__ float join_parts(const Parts& parts, const LseOf& lse_of, const OOf& o_of) {
  float largest = -INFINITY;
  for (int part = parts.first; part <= parts.last; ++part) largest = fmaxf(largest, lse_of(part));
  float total = 0.0f, o = 0.0f;
  for (int part = parts.first; part <= parts.last; ++part) {
    const float weight = exp2f(lse_of(part) - largest);
    total += weight;
    o += weight * o_of(part);
  }
  return o / total;
}

// Computes one row over one part of its sequence. A load reads kPack elements; kLanes lanes read one key, with kPacks loads per lane; a
// thread block computes kHeads query heads. With kCluster, the thread blocks of all parts of a row form a cluster, which joins their
// results.
template <typename T, int kPack, int kLanes, int kPacks, int kHeads, int kBlockWarps, bool kCluster>
__global__ void __launch_bounds__(32 * kBlockWarps, kBlocks<kHeads, kBlockWarps>)
    part_kernel(KernelArgs args) {
  constexpr int kThreads = 32 * kBlockWarps;
  cuda::let_next_launch_begin();
  constexpr int kElements = kPack * kPacks;
  constexpr int kKeysPerWarp = 32 / kLanes;
  // A lane loads a batch of kBatch keys before it uses the first of them. Decoding waits for memory most of the time, so that several loads
  // must be in flight.
  constexpr int kBatch = kPacks == 1 ? 4 : 1;
  __shared__ float shared_o[kBlockWarps][kHeads][kElements * kLanes];
  __shared__ float shared_largest[kBlockWarps][kHeads], shared_total[kBlockWarps][kHeads];

  const int t = static_cast<int>(blockIdx.z), part = static_cast<int>(blockIdx.x);
  const int group = args.heads / args.kv_heads, chunks = (group + kHeads - 1) / kHeads;
  const int kv_head = static_cast<int>(blockIdx.y) / chunks;
  const int first_of_group = static_cast<int>(blockIdx.y) % chunks * kHeads;
  const int num_heads = min(kHeads, group - first_of_group);
  const int head = kv_head * group + first_of_group;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int key = lane / kLanes, sub = lane % kLanes;
  constexpr int kApart = kBlockWarps * kKeysPerWarp;
  // The page numbers of this lane's first keys, read under the assumption that row t belongs to sequence t, as in a decoding step. They are
  // loaded together with what find_row() loads, because otherwise these loads would have to wait for its result.
  int guessed_pages[kBatch];
  const int guess = min(t, args.sequences - 1);
#pragma unroll
  for (int u = 0; u < kBatch; ++u) {
    const int j = part * args.part_size + warp * kKeysPerWarp + u * kApart + key;
    guessed_pages[u] =
        args.page_table[int64_t{guess} * args.max_pages + min(j >> args.page_shift, args.max_pages - 1)];
  }
  const Row row = find_row(args.cu_seqlens, args.lengths, args.sequences, t);
  if (row.sequence < 0) {
    cuda::wait_for_launch_before();
    if (part > 0) return;
    for (int i = static_cast<int>(threadIdx.x); i < num_heads * args.head_dim; i += kThreads) {
      store<T>(args.o, (int64_t{t} * args.heads + head) * args.head_dim + i, 0.0f);
    }
    return;
  }
  const Keys keys = keys_of_part(args, row.position, part);
  if (!kCluster && keys.first >= keys.end) return cuda::wait_for_launch_before();

  // Returns the index within a head of the first element of this lane's load i.
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

  const int32_t* pages = args.page_table + int64_t{row.sequence} * args.max_pages;
  const int64_t token_width = int64_t{args.kv_heads} * args.head_dim;
  // Keys before this position are in the pages before the one with the first new token. No launch that may still be running writes these
  // pages, so the keys can be read before wait_for_launch_before().
  const int num_kept = row.first_new >> args.page_shift << args.page_shift;
  const int first_of_warp = keys.first + warp * kKeysPerWarp;
  // For each key of a batch that this lane loads, its position in the KV cache in units of tokens. A page has page_size keys, then values.
  int slots[kBatch] = {};
  const auto slot_in = [&](int page_number, int j) {
    return ((2 * page_number - (j >> args.page_shift)) << args.page_shift) + j;
  };
  const auto find_slot = [&](int first, int u) {
    const int j = first + u * kApart + key;
    if (j < keys.end) slots[u] = slot_in(pages[j >> args.page_shift], j);
  };
  Pack k_packs[kBatch][kPacks] = {}, v_packs[kBatch][kPacks] = {};
  // Load key or value number `u` of the batch that starts at position `first`, unless its position is before `begin` or not before `end`.
  const auto load_from_page = [&](int first, int u, int begin, int end, int64_t in_page,
                                  Pack(&packs)[kPacks]) {
    const int j = first + u * kApart + key;
    if (j < begin || j >= end) return;
    load_packs(static_cast<const T*>(args.cache) + int64_t{slots[u] + in_page} * token_width +
                   int64_t{kv_head} * args.head_dim,
               packs);
  };
  const auto load_key = [&](int first, int u, int begin, int end) {
    load_from_page(first, u, begin, end, 0, k_packs[u]);
  };
  const auto load_value = [&](int first, int u, int begin, int end) {
    load_from_page(first, u, begin, end, 1 << args.page_shift, v_packs[u]);
  };
  const bool is_guessed = row.sequence == t && args.window == 0;
#pragma unroll
  for (int u = 0; u < kBatch; ++u) {
    if (is_guessed) {
      slots[u] = slot_in(guessed_pages[u], first_of_warp + u * kApart + key);
    } else {
      find_slot(first_of_warp, u);
    }
  }
#pragma unroll
  for (int u = 0; u < kBatch; ++u) {
    load_key(first_of_warp, u, 0, min(num_kept, keys.end));
    load_value(first_of_warp, u, 0, min(num_kept, keys.end));
  }
  cuda::wait_for_launch_before();
#pragma unroll
  for (int u = 0; u < kBatch; ++u) {
    load_key(first_of_warp, u, num_kept, keys.end);
    load_value(first_of_warp, u, num_kept, keys.end);
  }
  // A batch of keys is loaded while the batch before it is used. Its page numbers are loaded one batch earlier still, because the
  // addresses of the keys depend on them.
  constexpr int kStep = kBatch * kApart;
  if (first_of_warp + kStep < keys.end) {
#pragma unroll
    for (int u = 0; u < kBatch; ++u) find_slot(first_of_warp + kStep, u);
  }

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
  for (int first = first_of_warp; first < keys.end; first += kStep) {
    const bool has_next = first + kStep < keys.end;
    float scores[kHeads][kBatch];
#pragma unroll
    for (int u = 0; u < kBatch; ++u) {
#pragma unroll
      for (int h = 0; h < kHeads; ++h) scores[h][u] = -INFINITY;
      // All lanes of a warp skip the key together, because the condition does not depend on the lane.
      if (first + u * kApart >= keys.end) continue;
      const bool is_key = first + u * kApart + key < keys.end;
      float k[kElements];
      unpack_head(k_packs[u], k);
      if (has_next) load_key(first + kStep, u, 0, keys.end);
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        float score = 0.0f;
#pragma unroll
        for (int i = 0; i < kElements; ++i) score += q[h][i] * k[i];
#pragma unroll
        for (int mask = 1; mask < kLanes; mask *= 2) score += __shfl_xor_sync(0xffffffffu, score, mask);
        scores[h][u] = is_key ? score : -INFINITY;
      }
    }
#pragma unroll
    for (int h = 0; h < kHeads; ++h)
      sums[h].add(scores[h], [&](int u, float(&v)[kElements]) { unpack_head(v_packs[u], v); });
    if (!has_next) break;
#pragma unroll
    for (int u = 0; u < kBatch; ++u) {
      load_value(first + kStep, u, 0, keys.end);
      find_slot(first + 2 * kStep, u);
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
  [[maybe_unused]] __shared__ float part_o[kCluster ? kHeads : 1][kElements * kLanes];
  [[maybe_unused]] __shared__ float part_lse[kHeads];
  for (int i = static_cast<int>(threadIdx.x); i < num_heads * args.head_dim; i += kThreads) {
    const int h = i / args.head_dim, d = i % args.head_dim;
    float largest = -INFINITY;
    for (int w = 0; w < kBlockWarps; ++w) largest = fmaxf(largest, shared_largest[w][h]);
    float total = 0.0f, o = 0.0f;
    for (int w = 0; w < kBlockWarps; ++w) {
      // A warp without visible keys has weight 0, which also prevents NaN if no warp has a visible key.
      const float weight = shared_total[w][h] == 0.0f ? 0.0f : exp2f(shared_largest[w][h] - largest);
      total += weight * shared_total[w][h];
      o += weight * shared_o[w][h][d];
    }
    if constexpr (kCluster) {
      part_o[h][d] = o / total;
      if (d == 0) part_lse[h] = largest + log2f(total);
      continue;
    }
    if (args.results == nullptr) {
      store<T>(args.o, (int64_t{t} * args.heads + head + h) * args.head_dim + d, o / total);
      continue;
    }
    const int64_t at = (int64_t{t} * args.parts + part) * args.heads + head + h;
    args.results[at * args.head_dim + d] = o / total;
    if (d == 0) args.lse[at] = largest + log2f(total);
  }
#if __CUDA_ARCH__ >= 900
  if constexpr (kCluster) {
    const auto cluster = cooperative_groups::this_cluster();
    cluster.sync();
    const Parts parts = parts_of(args, row.position);
    for (int i = part * kThreads + static_cast<int>(threadIdx.x); i < num_heads * args.head_dim;
         i += args.parts * kThreads) {
      const int h = i / args.head_dim, d = i % args.head_dim;
      // Loads the results of all parts before it uses the first one, because each load from the shared memory of another block takes
      // hundreds of cycles.
      float lse[kPagedCudaJoinedParts], values[kPagedCudaJoinedParts];
#pragma unroll
      for (int of = 0; of < kPagedCudaJoinedParts; ++of) {
        if (of < parts.first || of > parts.last) continue;
        lse[of] = *cluster.map_shared_rank(&part_lse[h], of);
        values[of] = *cluster.map_shared_rank(&part_o[h][d], of);
      }
      float largest = -INFINITY, total = 0.0f, o = 0.0f;
#pragma unroll
      for (int of = 0; of < kPagedCudaJoinedParts; ++of) {
        if (of >= parts.first && of <= parts.last) largest = fmaxf(largest, lse[of]);
      }
#pragma unroll
      for (int of = 0; of < kPagedCudaJoinedParts; ++of) {
        if (of < parts.first || of > parts.last) continue;
        const float weight = exp2f(lse[of] - largest);
        total += weight;
        o += weight * values[of];
      }
      o /= total;
      store<T>(args.o, (int64_t{t} * args.heads + head + h) * args.head_dim + d, o);
    }
    cluster.sync();  // waits until the other blocks of the cluster have read this block's shared memory
  }
#endif
}

// Joins the results of all parts for one row and head, if part_kernel did not join them in a cluster.
template <typename T>
__global__ void __launch_bounds__(kJoinThreads) join_kernel(KernelArgs args) {
  cuda::let_next_launch_begin();
  const int head = static_cast<int>(blockIdx.x), t = static_cast<int>(blockIdx.y);
  const Row row = find_row(args.cu_seqlens, args.lengths, args.sequences, t);
  cuda::wait_for_launch_before();
  if (row.sequence < 0) return;  // the row belongs to no sequence, and part_kernel has written zeros to it
  const Parts parts = parts_of(args, row.position);
  const auto place = [&](int part) { return (int64_t{t} * args.parts + part) * args.heads + head; };
  for (int d = static_cast<int>(threadIdx.x); d < args.head_dim; d += kJoinThreads) {
    const float o = join_parts(
        parts, [&](int part) { return args.lse[place(part)]; },
        [&](int part) { return args.results[place(part) * args.head_dim + d]; });
    store<T>(args.o, (int64_t{t} * args.heads + head) * args.head_dim + d, o);
  }
}

template <typename T, int kPack, int kLanes, int kPacks, int kHeads>
void launch_parts(const KernelArgs& args, int tokens, CudaStream stream) {
  const int group = args.heads / args.kv_heads;
  const dim3 grid(static_cast<unsigned>(args.parts),
                  static_cast<unsigned>(args.kv_heads * ((group + kHeads - 1) / kHeads)),
                  static_cast<unsigned>(tokens));
  const auto launch = [&](auto warps, auto cluster) {
    constexpr int kBlockWarps = decltype(warps)::value;
    constexpr bool kCluster = decltype(cluster)::value;
    cuda::launch_early(part_kernel<T, kPack, kLanes, kPacks, kHeads, kBlockWarps, kCluster>,
                       {.grid = grid, .block = dim3(32 * kBlockWarps), .cluster = kCluster ? grid.x : 1},
                       stream, args);
  };
  using Warps = std::integral_constant<int, kWarps>;
  if (args.results == nullptr) {
    if (tokens <= kPagedCudaDividedRows)
      return launch(std::integral_constant<int, kWarpsUndivided>{}, std::false_type{});
    return launch(Warps{}, std::false_type{});
  }
  if (args.parts <= kPagedCudaJoinedParts && cuda::device_attribute<cudaDevAttrComputeCapabilityMajor>() >= 9)
    return launch(Warps{}, std::true_type{});
  launch(Warps{}, std::false_type{});
  const dim3 rows(static_cast<unsigned>(args.heads), static_cast<unsigned>(tokens));
  cuda::launch_early(join_kernel<T>, {rows, dim3(kJoinThreads)}, stream, args);
}

constexpr int kMostHeads = 4;
// If thread blocks of one query head each are at most this number per multiprocessor, they are all running at the same time.
constexpr int kBlocksOfOneHead = 2;

// Query heads that read the same keys are computed by one thread block, which reads the keys once, unless there are so few of them that
// blocks of one head finish sooner: on an H200, 32 query heads of 64 elements, 8 heads of keys and values and 64 to 320 positions of one
// sequence take 6.6 us with four heads per block.
template <typename T, int kPack, int kLanes, int kPacks>
void launch_heads(const KernelArgs& args, int tokens, CudaStream stream) {
  const int64_t blocks = int64_t{tokens} * args.heads * args.parts;
  if (args.heads == args.kv_heads ||
      blocks <= kBlocksOfOneHead * cuda::device_attribute<cudaDevAttrMultiProcessorCount>())
    return launch_parts<T, kPack, kLanes, kPacks, 1>(args, tokens, stream);
  launch_parts<T, kPack, kLanes, kPacks, kMostHeads>(args, tokens, stream);
}

// Returns log2 of the number of tokens per page. The kernels shift instead of dividing, because a division takes tens of instructions and a
// warp reads only few keys.
int page_shift_of(const PagedAttentionDims& dims) {
  PLIMSOLL_CHECK(dims.sequences >= 1, "rows of attention must belong to at least one sequence");
  PLIMSOLL_CHECK(dims.page_size >= 1 && std::has_single_bit(static_cast<uint64_t>(dims.page_size)),
                 "on a GPU, the number of tokens per page must be a power of two, but is {}", dims.page_size);
  return std::countr_zero(static_cast<uint64_t>(dims.page_size));
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
  // A key of more than 32 packs of kPack elements needs two loads per lane. Only fp32 heads can be that wide, so the code is compiled for
  // them only.
  if constexpr (kPack * 32 < kPagedCudaHeadDim) launch_heads<T, kPack, 32, 2>(args, tokens, stream);
}

struct AppendArgs {
  const void* qkv = nullptr;
  void* cache = nullptr;
  const int32_t* cu_seqlens = nullptr;
  const int32_t* page_table = nullptr;
  const int32_t* lengths = nullptr;
  const int32_t* copy_from = nullptr;
  int sequences = 0, page_shift = 0, max_pages = 0;
  int q_units = 0, token_units = 0;  // numbers of elements of type Unit in q and in k (or v) of a row
};

// The number of threads per block of append_kernel: enough to copy most of the tokens of a page with one load per thread.
constexpr int kAppendThreads = 512;

// The elements that one thread copies: element `first` and then every kAppendThreads-th one, up to kCount elements. All are loaded
// before the first one is stored. Their type Unit has 16 bytes if sizes and alignment allow it, otherwise it is one element of the
// tensor.
template <typename Unit>
struct Units {
  static constexpr int kCount = 4;
  Unit units[kCount];

  __device__ void load(const Unit* from, int first, int count) {
#pragma unroll
    for (int u = 0; u < kCount; ++u) {
      if (first + u * kAppendThreads < count) units[u] = from[first + u * kAppendThreads];
    }
  }
  __device__ void store(Unit* to, int first, int count) const {
#pragma unroll
    for (int u = 0; u < kCount; ++u) {
      if (first + u * kAppendThreads < count) to[first + u * kAppendThreads] = units[u];
    }
  }
};

// A key and a value that all threads of a block copy together. copy() copies the elements begin .. count - 1 of both.
template <typename Unit>
struct Pair {
  const Unit* from[2];
  Unit* to[2];

  __device__ void copy(int begin, int count) const {
    for (int first = begin + static_cast<int>(threadIdx.x); first < count;
         first += Units<Unit>::kCount * kAppendThreads) {
      Units<Unit> k, v;
      k.load(from[0], first, count);
      v.load(from[1], first, count);
      k.store(to[0], first, count);
      v.store(to[1], first, count);
    }
  }
};

// Writes k and v of one new row per thread block. The block of the first new row of a sequence also copies the earlier tokens of a shared
// page into the sequence's own page. The elements that are copied have type Unit.
template <typename Unit>
__global__ void __launch_bounds__(kAppendThreads) append_kernel(AppendArgs args) {
  cuda::let_next_launch_begin();
  const int t = static_cast<int>(blockIdx.x);
  const Row row = find_row(args.cu_seqlens, args.lengths, args.sequences, t);
  if (row.sequence < 0) return cuda::wait_for_launch_before();
  const int32_t* pages = args.page_table + int64_t{row.sequence} * args.max_pages;
  auto* cache = static_cast<Unit*>(args.cache);
  const int64_t part_units = int64_t{args.token_units} << args.page_shift;
  Unit* page = cache + int64_t{pages[row.position >> args.page_shift]} * 2 * part_units;
  const auto* from =
      static_cast<const Unit*>(args.qkv) + int64_t{t} * (args.q_units + 2 * args.token_units) + args.q_units;
  const int slot = row.position & ((1 << args.page_shift) - 1);
  const bool copies = args.copy_from != nullptr && t == args.cu_seqlens[row.sequence];
  const int source = copies ? args.copy_from[row.sequence] : -1;
  // Loads the first elements of the shared page before wait_for_launch_before(), because no running launch writes them.
  const int shared_units = source < 0 ? 0 : slot * args.token_units;
  const Unit* shared = cache + int64_t{max(source, 0)} * 2 * part_units;
  const Pair<Unit> shared_page{{shared, shared + part_units}, {page, page + part_units}};
  const int thread = static_cast<int>(threadIdx.x);
  Units<Unit> k, v;
  k.load(shared_page.from[0], thread, shared_units);
  v.load(shared_page.from[1], thread, shared_units);
  cuda::wait_for_launch_before();
  Unit* own = page + int64_t{slot} * args.token_units;
  Pair<Unit>{{from, from + args.token_units}, {own, own + part_units}}.copy(0, args.token_units);
  k.store(shared_page.to[0], thread, shared_units);
  v.store(shared_page.to[1], thread, shared_units);
  shared_page.copy(Units<Unit>::kCount * kAppendThreads, shared_units);
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
                 "paged attention on a GPU supports at most 65535 tokens, 65535 heads and a head size of {}, "
                 "but has {}, {} and {}",
                 kPagedCudaHeadDim, dims.tokens, dims.heads, dims.head_dim);
  if (dims.tokens == 0) return;
  const int64_t part_size = paged_attention_cuda_part(dims);
  const int64_t parts = std::max<int64_t>(1, paged_attention_cuda_parts(dims));
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
      .page_shift = paged::page_shift_of(dims),
      .max_pages = static_cast<int>(dims.max_pages),
      .window = static_cast<int>(dims.window),
      .parts = static_cast<int>(parts),
      .part_size = static_cast<int>(part_size)};
  const int tokens = static_cast<int>(dims.tokens);
  if (args.qkv.dtype == DType::kF32) return paged::launch<float>(kernel, tokens, stream);
  if (args.qkv.dtype == DType::kBF16) return paged::launch<__nv_bfloat16>(kernel, tokens, stream);
  PLIMSOLL_CHECK(args.qkv.dtype == DType::kF16, "paged attention on a GPU supports f32, bf16 and f16, not {}",
                 dtype_name(args.qkv.dtype));
  paged::launch<__half>(kernel, tokens, stream);
}

void append_kv_cuda(const AppendKvArgs& args, CudaStream stream) {
  const PagedAttentionDims& dims = args.dims;
  check_paged_device_args(args);
  const int64_t element = dtype_bytes(args.qkv.dtype);
  PLIMSOLL_CHECK(element == 2 || element == 4, "append_kv on a GPU supports elements of 2 or 4 bytes, not {}",
                 dtype_name(args.qkv.dtype));
  if (dims.tokens == 0) return;
  const paged::AppendArgs kernel{.qkv = args.qkv.data,
                                 .cache = args.cache.data,
                                 .cu_seqlens = args.cu_seqlens.as<int32_t>(),
                                 .page_table = args.page_table.as<int32_t>(),
                                 .lengths = args.lengths.as<int32_t>(),
                                 .copy_from = args.copy_from ? args.copy_from.as<int32_t>() : nullptr,
                                 .sequences = static_cast<int>(dims.sequences),
                                 .page_shift = paged::page_shift_of(dims),
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
