// Linear layers of few rows, x w^T + bias + addend, such as those of a decoding step. Reading w once takes most of their time. A block
// computes tiles of 16 columns. The terms of the sums (the elements of a row of w) are divided into groups of 32, which the warps process
// in turn. A warp copies groups of w into its part of the block's shared memory, several groups ahead of the one that it multiplies and
// across the end of a tile (PTX ISA, "cp.async"). Tensor cores multiply 16 columns with eight rows of x (mma m16n8k16, "Warp-level matrix
// instructions"). The order in which an instruction adds the terms does not matter, so the eight neighbouring terms that a thread loads are
// used in two instructions without being rearranged. The warps' sums are added in order, and the result is rounded once after the bias. If
// no preceding launch writes w, a block copies the first groups of w while the preceding launches are still running (early_launch.cuh), so
// that reading weights does not pause between two products.
//
// Layers with very many or very few columns are divided differently (Division): each warp computes whole tiles, which needs no exchange
// between warps, or several blocks divide the terms of one tile, so that more multiprocessors read w and x.
//
// Up to eight rows of x are copied to the block's shared memory, if they fit. More rows are copied only if the layer has enough columns
// that each block computes several tiles; otherwise they are read through the cache, because copying them first takes longer.
//
// With a norm before the layer (norm_linear.h), each block normalizes the rows of x, and the first block writes their sums with the
// residual. With a gated linear unit after the layer, a tile has eight columns of the gate and the eight columns that this part of the gate
// multiplies.
#include <cooperative_groups.h>

#include <algorithm>

#include "base/check.h"
#include "kernels/element_wise/cuda/attributes.cuh"
#include "kernels/element_wise/cuda/early_launch.cuh"
#include "kernels/element_wise/cuda/gelu.cuh"
#include "kernels/element_wise/cuda/reductions.cuh"
#include "kernels/element_wise/cuda/vectors.cuh"
#include "kernels/matmul/few_rows_cuda.h"

namespace plimsoll {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
// States where the matrix product reads the rows of x. kInPlace: from device memory. kStaged: from a copy in shared memory. kNormalized:
// from shared memory, to which the normalized rows were written.
enum class Rows : uint8_t { kInPlace, kStaged, kNormalized };

// The number of thread blocks per multiprocessor, and the number of groups of 32 terms of w that a warp copies ahead. Measured on an H100
// (linear_cuda_bench few) with the matrix products of Llama-3.2-1B and GPT-2 with 1, 8 and 32 rows: 12 groups are faster than 6 if x has at
// most eight rows or was copied to shared memory. If more rows are read from device memory, the shared memory for 12 groups would leave too
// little of the L1 cache for x. With one row, an H200 generates 1105 tokens/s of Llama-3.2-1B with 14 groups, 1090 with 12 and 1088 with 16.
template <int kTiles, Rows kRows>
inline constexpr bool kReadsCache = kTiles > 1 && kRows == Rows::kInPlace;
template <int kTiles, Rows kRows>
inline constexpr int kBlocksPerMultiprocessor = kReadsCache<kTiles, kRows> ? 2 : 1;
template <int kTiles, Rows kRows>
inline constexpr int kGroupsAhead = kReadsCache<kTiles, kRows> ? 6
                                    : kTiles == 1              ? 14
                                                               : 12;
// More than eight rows of x are copied to shared memory only if each block computes at least this number of tiles. Without the copy, the
// blocks read x through the L1 cache, which is small because it shares its memory with the shared memory of two blocks; the output layer of
// GPT-2 with 32 rows would read most of x from the L2 cache again for each tile.
constexpr int kTilesToStage = 4;
// The number of unused elements after each row of x in shared memory. They place neighbouring rows in different banks.
constexpr int kFewRowsPadding = 32;
// The shared memory of a multiprocessor that thread blocks may use. The rest is L1 cache.
constexpr int64_t kFewRowsSharedBytes = 200 << 10;
constexpr int kColumns = 16;        // number of rows of w, and therefore columns of y, per tile
constexpr int kRowsPerProduct = 8;  // number of rows of x that one mma instruction multiplies
constexpr int kTerms = 32;          // number of terms per group: eight for each of four threads
static_assert(kTerms == kCudaFewRowsTerms);
// The distance in floats between two rows of sums in shared memory. It lets the 32 threads of a warp write to different banks.
constexpr int kSumStride = 20;

// States how a layer is divided. kBlocks: a block computes a tile, and its warps divide the terms. kWarps: each warp computes whole tiles.
// kClusters: the kBlocksPerCluster blocks of a cluster compute a tile, and all their warps divide the terms.
enum class Division : uint8_t { kBlocks, kWarps, kClusters };
constexpr int kBlocksPerCluster = 4;

struct FewRowsArgs {
  const void* x;
  const void* w;
  cuda::AnyFloats bias;
  const void* addend;  // matrix of the size of y that is added to the rounded result; may be null or y itself
  void* y;
  int rows, columns, terms;  // `columns` is the number of columns of y
  int64_t y_stride;
  bool constant_w;  // true if no preceding launch that may still run writes w (early_launch.cuh)
  LayerEnd end;
  Activation activation;
  // The remaining members are the operands of the norm.
  NormKind norm;
  const void* residual;
  cuda::AnyFloats norm_bias, gain, beta;
  void* sum;
  float eps;
};

// Executes one mma.m16n8k16 instruction. Compute capability 7.5 has neither this instruction nor bf16; the code for it only traps, and the
// kernel is never launched there.
template <typename T>
__device__ __forceinline__ void multiply(float (&sums)[4], uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3,
                                         uint32_t x0, uint32_t x1) {
#if __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(w0), "r"(w1), "r"(w2), "r"(w3), "r"(x0), "r"(x1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(w0), "r"(w1), "r"(w2), "r"(w3), "r"(x0), "r"(x1));
  }
#else
  __trap();
#endif
}

// Returns the cache policy of copies of w: the L2 cache replaces their lines first, because a decoding step reads w once. The rows of x, the
// KV cache and the page table then stay in the L2 cache. On an H200, Llama-3.2-1B with one prompt generates 1050 instead of 1023 tokens/s
// and GPT-2 3450 instead of 3300.
__device__ __forceinline__ uint64_t read_once_policy() {
  uint64_t policy = 0;
#if __CUDA_ARCH__ >= 800
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
#endif
  return policy;
}
// Starts to copy 16 bytes of w to shared memory. The copy bypasses the L1 cache, because no other block of this multiprocessor reads the
// same bytes.
__device__ __forceinline__ void start_copy(uint4* to, const void* from, [[maybe_unused]] uint64_t policy) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from), "l"(policy));
#endif
}
// Combines the copies that were started since the last call into a set, for which wait_for_sets() can wait. A set may be empty.
__device__ __forceinline__ void end_set() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;");
#endif
}
// Waits until all sets of this thread's copies except the last kSets are complete.
template <int kSets>
__device__ __forceinline__ void wait_for_sets() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kSets) : "memory");
#endif
}

// Applies an activation function to one element.
template <typename T>
__device__ __forceinline__ float activate(Activation activation, float x) {
  switch (activation) {
    case Activation::kGelu:
      return cuda::ErfGelu<T>::value(x);
    case Activation::kGeluTanh:
      return cuda::TanhGelu<T>::value(x);
    case Activation::kRelu:
      return cuda::Relu<T>::value(x);
    case Activation::kSilu:
      return cuda::Silu<T>::value(x);
    case Activation::kTanh:
      return cuda::Tanh<T>::value(x);
  }
  return x;
}

// Normalizes the only row of x as normalize_rows() does, with the same bits, and stores it in shared memory. Each thread has at most one
// vector of the row. It loads the vector and the parameters of the norm at once and keeps them in registers, so that the threads wait for
// memory only once.
template <typename T>
__device__ void normalize_one_row(const FewRowsArgs& args, T* to) {
  constexpr int kN = cuda::kPack<T>;
  __shared__ alignas(16) float slots[2][kWarps];
  static_assert(kWarps == 8);
  const auto row_sum = [&](float value, float* of_warps) {
    value = cuda::warp_sum(value);
    if (threadIdx.x == 0) of_warps[threadIdx.y] = value;
    __syncthreads();
    const float4 low = *reinterpret_cast<const float4*>(of_warps);
    const float4 high = *reinterpret_cast<const float4*>(of_warps + 4);
    return low.x + low.y + low.z + low.w + high.x + high.y + high.z + high.w;
  };
  const int at = static_cast<int>(threadIdx.y * 32 + threadIdx.x) * kN;
  const bool has_vector = at < args.terms;
  float s[kN] = {}, gain[kN] = {}, beta[kN] = {};
  if (has_vector) {
    const auto x = cuda::load_raw<T, kN>(static_cast<const T*>(args.x) + at);
    cuda::Raw<T, kN> residual = {};
    float bias[kN] = {};
    if (args.residual != nullptr) {
      residual = cuda::load_raw<T, kN>(static_cast<const T*>(args.residual) + at);
      args.norm_bias.load_or_zero<kN>(at, bias);
    }
    args.gain.load<kN>(at, gain);
    args.beta.load_or_zero<kN>(at, beta);
    cuda::unpack<T, kN>(x, s);
    if (args.residual != nullptr) {
      float other[kN];
      cuda::unpack<T, kN>(residual, other);
#pragma unroll
      for (int i = 0; i < kN; ++i) s[i] = s[i] + bias[i] + other[i];
    }
    const cuda::Raw<T, kN> rounded = cuda::pack<T, kN>(s);
    if (args.sum != nullptr && blockIdx.x == 0)
      cuda::store_raw<T, kN>(static_cast<T*>(args.sum) + at, rounded);
    cuda::unpack<T, kN>(rounded, s);
  }
  const auto columns = static_cast<float>(args.terms);
  float mean = 0.0f, squares = 0.0f;
  if (args.norm == NormKind::kLayer) {
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < kN; ++i) total += s[i];
    mean = row_sum(total, slots[0]) / columns;
  }
#pragma unroll
  for (int i = 0; i < kN; ++i) squares = fmaf(s[i] - mean, s[i] - mean, squares);
  const float rstd = 1.0f / sqrtf(row_sum(has_vector ? squares : 0.0f, slots[1]) / columns + args.eps);
  if (!has_vector) return;
#pragma unroll
  for (int i = 0; i < kN; ++i) s[i] = fmaf((s[i] - mean) * rstd, gain[i], beta[i]);
  cuda::store_floats<T, kN>(to + at, s);
}

// Normalizes the rows of x and stores them in shared memory, where the beginnings of two rows are `stride` elements apart. One to eight
// warps process a row. A thread reads and writes the same vectors of a row in all passes over it, so the passes need no barrier between
// them.
template <typename T>
__device__ void normalize_rows(const FewRowsArgs& args, T* rows, int stride) {
  constexpr int kN = cuda::kPack<T>;
  constexpr int kBatch = 4;  // number of vectors that a thread loads before it uses the first one
  __shared__ float slots[2][kWarps];
  const int thread = static_cast<int>(threadIdx.y * 32 + threadIdx.x);
  const int warps = args.rows >= 8 ? 1 : (args.rows > 2 ? (args.rows > 4 ? 1 : 2) : (args.rows > 1 ? 4 : 8));
  const int threads = 32 * warps, rows_at_once = kWarps / warps;
  const int group = thread / threads, own = thread % threads;
  // Returns the sum of `value` over all threads that process the same row.
  const auto row_sum = [&](float value, float* of_warps) {
    value = cuda::warp_sum(value);
    if (warps == 1) return value;
    if (threadIdx.x == 0) of_warps[threadIdx.y] = value;
    __syncthreads();
    float total = 0.0f;
    for (int i = 0; i < warps; ++i) total += of_warps[group * warps + i];
    return total;
  };
  const auto columns = static_cast<float>(args.terms);
  for (int first = 0; first < args.rows; first += rows_at_once) {
    // Threads without a row must also call row_sum(), because it contains barriers.
    const int row = first + group;
    const int end = row < args.rows ? args.terms : 0;
    const int64_t begin = int64_t{row} * args.terms;
    T* to = rows + row * stride;
    float total = 0.0f, squares = 0.0f;
    for (int c = own * kN; c < end; c += kBatch * threads * kN) {
      cuda::Raw<T, kN> x[kBatch] = {}, residual[kBatch] = {};
#pragma unroll
      for (int u = 0; u < kBatch; ++u) {
        const int at = c + u * threads * kN;
        if (at >= end) continue;
        x[u] = cuda::load_raw<T, kN>(static_cast<const T*>(args.x) + begin + at);
        if (args.residual != nullptr)
          residual[u] = cuda::load_raw<T, kN>(static_cast<const T*>(args.residual) + begin + at);
      }
#pragma unroll
      for (int u = 0; u < kBatch; ++u) {
        const int at = c + u * threads * kN;
        if (at >= end) continue;
        float s[kN];
        cuda::unpack<T, kN>(x[u], s);
        if (args.residual != nullptr) {
          float other[kN], bias[kN];
          cuda::unpack<T, kN>(residual[u], other);
          args.norm_bias.load_or_zero<kN>(at, bias);
#pragma unroll
          for (int i = 0; i < kN; ++i) s[i] = s[i] + bias[i] + other[i];
        }
        const cuda::Raw<T, kN> rounded = cuda::pack<T, kN>(s);
        cuda::store_raw<T, kN>(to + at, rounded);
        if (args.sum != nullptr && blockIdx.x == 0)
          cuda::store_raw<T, kN>(static_cast<T*>(args.sum) + begin + at, rounded);
        cuda::unpack<T, kN>(rounded, s);
#pragma unroll
        for (int i = 0; i < kN; ++i) {
          total += s[i];
          squares = fmaf(s[i], s[i], squares);
        }
      }
    }
    float mean = 0.0f;
    if (args.norm == NormKind::kLayer) {
      mean = row_sum(total, slots[0]) / columns;
      squares = 0.0f;
      for (int c = own * kN; c < end; c += threads * kN) {
        float s[kN];
        cuda::load_floats<T, kN>(to + c, s);
#pragma unroll
        for (int i = 0; i < kN; ++i) squares = fmaf(s[i] - mean, s[i] - mean, squares);
      }
    }
    const float rstd = 1.0f / sqrtf(row_sum(squares, slots[1]) / columns + args.eps);
    for (int c = own * kN; c < end; c += threads * kN) {
      float s[kN], gain[kN], beta[kN];
      cuda::load_floats<T, kN>(to + c, s);
      args.gain.load<kN>(c, gain);
      args.beta.load_or_zero<kN>(c, beta);
#pragma unroll
      for (int i = 0; i < kN; ++i) s[i] = fmaf((s[i] - mean) * rstd, gain[i], beta[i]);
      cuda::store_floats<T, kN>(to + c, s);
    }
    if (warps > 1) __syncthreads();  // all threads must have read `slots` before the next row writes to them
  }
}

// The shared memory of a thread block. The rows of x, if they are copied, follow it.
template <int kTiles, Rows kRows>
struct Shared {
  uint4 w[kWarps][kGroupsAhead<kTiles, kRows>][2][32];  // w: per group of terms, two vectors for each thread
  float sums[2][kWarps][kRowsPerProduct * kTiles][kSumStride];
};

// Copies the rows of x to shared memory. Each thread loads several vectors before it stores the first one.
template <typename T>
__device__ void stage_rows(const FewRowsArgs& args, T* to, int stride) {
  constexpr int kN = cuda::kPack<T>;
  constexpr int kBatch = 8;
  const int packs = args.terms / kN, all = args.rows * packs;
  for (int i = static_cast<int>(threadIdx.y * 32 + threadIdx.x); i < all; i += kBatch * kThreads) {
    cuda::Raw<T, kN> raw[kBatch];
#pragma unroll
    for (int u = 0; u < kBatch; ++u) {
      const int at = i + u * kThreads;
      if (at < all) raw[u] = cuda::load_raw<T, kN>(static_cast<const T*>(args.x) + int64_t{at} * kN);
    }
#pragma unroll
    for (int u = 0; u < kBatch; ++u) {
      const int at = i + u * kThreads;
      if (at < all) cuda::store_raw<T, kN>(to + at / packs * stride + at % packs * kN, raw[u]);
    }
  }
}

// Waits until all threads of the cluster have called this function. Their writes to shared memory are then visible to all of them.
__device__ __forceinline__ void wait_for_cluster() {
#if __CUDA_ARCH__ >= 900
  cooperative_groups::this_cluster().sync();
#else
  __trap();
#endif
}
// Returns the sum of the values that the blocks of the cluster have at the same place of their shared memory, added in the order of the
// blocks.
template <int kBlocks>
__device__ __forceinline__ float sum_of_cluster([[maybe_unused]] float* place) {
  float total = 0.0f;
#if __CUDA_ARCH__ >= 900
  const auto cluster = cooperative_groups::this_cluster();
#pragma unroll
  for (unsigned block = 0; block < kBlocks; ++block) total += *cluster.map_shared_rank(place, block);
#endif
  return total;
}

// Computes the layer. kTiles is the number of rows of x divided by eight, rounded up.
template <typename T, int kTiles, Rows kRows, Division kDivision>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor<kTiles, kRows>)
    linear_few_rows_kernel(const __grid_constant__ FewRowsArgs args) {
  extern __shared__ uint4 dynamic_shared[];
  constexpr int kAhead = kGroupsAhead<kTiles, kRows>;
  auto& shared = *reinterpret_cast<Shared<kTiles, kRows>*>(dynamic_shared);
  [[maybe_unused]] T* own_rows = reinterpret_cast<T*>(&shared + 1);
  cuda::let_next_launch_begin();
  if (!args.constant_w) cuda::wait_for_launch_before();
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  const int group = lane / 4, quarter = lane % 4;
  const bool is_gated = args.end == LayerEnd::kGlu;
  const int columns_of_tile = is_gated ? kColumns / 2 : kColumns;
  const int tiles = (args.columns + columns_of_tile - 1) / columns_of_tile;
  const int rows_of_w = is_gated ? 2 * args.columns : args.columns;
  // This warp computes the tiles first_tile, first_tile + tile_step, and so on. Of each tile it multiplies every kGroupStep-th group of 32
  // terms, starting with first_group.
  constexpr bool kOwnsTiles = kDivision == Division::kWarps;
  constexpr int kParts = kDivision == Division::kClusters ? kBlocksPerCluster : 1;
  constexpr int kGroupStep = kOwnsTiles ? 1 : kWarps;
  const int block = static_cast<int>(blockIdx.x) / kParts, blocks = static_cast<int>(gridDim.x) / kParts;
  [[maybe_unused]] const int part = static_cast<int>(blockIdx.x) % kParts;
  const int first_tile = kOwnsTiles ? block * kWarps + warp : block,
            tile_step = kOwnsTiles ? blocks * kWarps : blocks;
  const int all_groups = args.terms / kTerms, groups = all_groups * (part + 1) / kParts;
  const int first_group = all_groups * part / kParts + (kOwnsTiles ? 0 : warp);

  // `source` states what this thread copies next: the tile, the number of the group of 32 terms, and the two rows of w. A thread whose
  // column is after the last one of y copies the row of w of the last column instead; its sums are not stored.
  struct {
    int tile, at;
    const T* w[2];
  } source{first_tile, first_group, {}};
  const auto find_rows = [&] {
    const int first = source.tile * columns_of_tile + group;
    const int second = is_gated ? args.columns + first : first + kColumns / 2;
    const auto* w = static_cast<const T*>(args.w) + 8 * quarter;
    source.w[0] = w + int64_t{min(first, args.columns - 1)} * args.terms;
    source.w[1] = w + int64_t{min(second, rows_of_w - 1)} * args.terms;
  };
  find_rows();
  const uint64_t policy = read_once_policy();
  const auto copy_next = [&](int slot) {
    // All tiles have the same groups of terms. A warp that multiplies no group of the first tile therefore copies nothing for any tile.
    if (source.tile < tiles && source.at < groups) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
        start_copy(&shared.w[warp][slot][half][lane], source.w[half] + source.at * kTerms, policy);
      source.at += kGroupStep;
      if (source.at >= groups) {
        source.at = first_group;
        source.tile += tile_step;
        find_rows();
      }
    }
    end_set();
  };
#pragma unroll
  for (int slot = 0; slot < kAhead - 1; ++slot) copy_next(slot);
  if (args.bias.data != nullptr && warp == 0 && lane == 0)
    cuda::prefetch_to_l2(args.bias.address(int64_t{first_tile} * columns_of_tile));
  if constexpr (kRows == Rows::kNormalized) {
    for (int c = 8 * (warp * 32 + lane); c < args.terms; c += 8 * kThreads) {
      for (const cuda::AnyFloats* operand : {&args.gain, &args.beta, &args.norm_bias}) {
        if (operand->data != nullptr) cuda::prefetch_to_l2(operand->address(c));
      }
    }
  }
  cuda::wait_for_launch_before();

  const T* rows = static_cast<const T*>(args.x);
  int stride = args.terms;
  if constexpr (kRows != Rows::kInPlace) {
    stride += kFewRowsPadding;
    if constexpr (kRows == Rows::kNormalized) {
      if (args.rows == 1 && args.terms <= kThreads * cuda::kPack<T>) {
        normalize_one_row<T>(args, own_rows);
      } else {
        normalize_rows<T>(args, own_rows, stride);
      }
    } else {
      stage_rows<T>(args, own_rows, stride);
    }
    __syncthreads();
    rows = own_rows;
  }
  const T* x[kTiles];
#pragma unroll
  for (int i = 0; i < kTiles; ++i)
    x[i] = rows + int64_t{min(kRowsPerProduct * i + group, args.rows - 1)} * stride + 8 * quarter;

  int slot = 0;
  int buffer = 0;
#pragma unroll 1
  for (int tile = first_tile; tile < tiles; tile += tile_step, buffer ^= 1) {
    float acc[kTiles][4] = {};
#pragma unroll 2
    for (int at = first_group; at < groups; at += kGroupStep) {
      uint4 x_terms[kTiles];
#pragma unroll
      for (int i = 0; i < kTiles; ++i) x_terms[i] = *reinterpret_cast<const uint4*>(x[i] + at * kTerms);
      wait_for_sets<kAhead - 2>();  // no barrier is needed: a thread reads only what it copied itself
      const uint4 low = shared.w[warp][slot][0][lane], high = shared.w[warp][slot][1][lane];
      copy_next((slot + kAhead - 1) % kAhead);
      slot = (slot + 1) % kAhead;
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        multiply<T>(acc[i], low.x, high.x, low.y, high.y, x_terms[i].x, x_terms[i].y);
        multiply<T>(acc[i], low.z, high.z, low.w, high.w, x_terms[i].z, x_terms[i].w);
      }
    }

    const int first = tile * columns_of_tile;
    // Stores one element of y. `gate` is the sum for its column. `value`, which is used only for a gated unit, is the sum for the column
    // that the gate multiplies.
    const auto store = [&](int row, int column, float gate, float value) {
      const auto with_bias = [&](float sum, int row_of_w) {
        return args.bias.data == nullptr ? sum : sum + args.bias.at(row_of_w);
      };
      float y[1] = {with_bias(gate, first + column)};
      if (args.end != LayerEnd::kProduct) y[0] = activate<T>(args.activation, y[0]);
      if (is_gated) y[0] *= with_bias(value, args.columns + first + column);
      const int64_t at = row * args.y_stride + first + column;
      if (args.addend != nullptr) {
        // The result is rounded before the addition, as if the product were stored and the addend added by another op.
        float addend[1], rounded[1];
        cuda::load_floats<T, 1>(static_cast<const T*>(args.addend) + at, addend);
        cuda::unpack<T, 1>(cuda::pack<T, 1>(y), rounded);
        y[0] = rounded[0] + addend[0];
      }
      cuda::store_floats<T, 1>(static_cast<T*>(args.y) + at, y);
    };
    if constexpr (kOwnsTiles) {
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const int row = kRowsPerProduct * i + 2 * quarter + k % 2, column = group + 8 * (k / 2);
          if (row < args.rows && column < columns_of_tile && first + column < args.columns)
            store(row, column, acc[i][k], acc[i][2 + k % 2]);
        }
      }
    } else {
      auto& sums = shared.sums[buffer];
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
#pragma unroll
        for (int k = 0; k < 4; ++k)
          sums[warp][kRowsPerProduct * i + 2 * quarter + k % 2][group + 8 * (k / 2)] = acc[i][k];
      }
      // The sums of the next tile are written to the other of two buffers, so one barrier per tile is enough.
      __syncthreads();
      const auto sum_of_block = [&](int row, int column) {
        float total = 0.0f;
#pragma unroll
        for (int other = 0; other < kWarps; ++other) total += sums[other][row][column];
        return total;
      };
      if constexpr (kParts > 1) {
        // Each block overwrites the sums of its first warp with the sums over all its warps, which the other blocks of the cluster then
        // read. The old value of an element is read only by the thread that overwrites it, so no barrier is needed in between.
        for (int i = warp * 32 + lane; i < kColumns * args.rows; i += kThreads)
          sums[0][i / kColumns][i % kColumns] = sum_of_block(i / kColumns, i % kColumns);
        wait_for_cluster();
      }
      const auto sum_of = [&](int row, int column) {
        if constexpr (kParts > 1) return sum_of_cluster<kParts>(&sums[0][row][column]);
        return sum_of_block(row, column);
      };
      for (int i = part * kThreads + warp * 32 + lane; i < columns_of_tile * args.rows;
           i += kParts * kThreads) {
        const int row = i / columns_of_tile, column = i % columns_of_tile;
        if (first + column >= args.columns) continue;
        store(row, column, sum_of(row, column), is_gated ? sum_of(row, column + kColumns / 2) : 0.0f);
      }
    }
  }
  if constexpr (kParts > 1) wait_for_cluster();  // other blocks may still read the shared memory of this one
}

// Returns the number of columns of y per tile.
int columns_per_tile(LayerEnd end) {
  return end == LayerEnd::kGlu ? kColumns / 2 : kColumns;
}

// Chooses how a layer is divided. The choice does not depend on the number of rows within 1 to 8 and within 9 to 32, so that the bits of a
// row do not depend on it either. Measured on an H200 (linear_cuda_bench few, with early launches): 768 columns of 3072 terms take 7.4 us
// with blocks, 6.0 us with clusters of two and 5.0 us with clusters of four for 32 rows, but 3.0 us with blocks and 3.5 us with clusters of
// two for one row. With 768 terms clusters are slower for 32 rows too (3.5 instead of 2.7 us).
template <int kTiles>
Division division_of(const FewRowsArgs& args) {
  constexpr int kTermsForClusters = 2048;
  const int multiprocessors = cuda::device_attribute<cudaDevAttrMultiProcessorCount>();
  const int columns_of_tile = columns_per_tile(args.end);
  const int tiles = (args.columns + columns_of_tile - 1) / columns_of_tile;
  // Warps compute whole tiles if each warp gets several, and if at most a tenth of their time is lost because the tiles
  // cannot be divided evenly.
  const int warps = kWarps * multiprocessors, rounds = (tiles + warps - 1) / warps;
  if (rounds > 1 && int64_t{10} * tiles >= int64_t{9} * rounds * warps) return Division::kWarps;
  const bool has_clusters = kTiles > 1 && cuda::device_attribute<cudaDevAttrComputeCapabilityMajor>() >= 9;
  return has_clusters && 2 * tiles <= multiprocessors && args.terms >= kTermsForClusters ? Division::kClusters
                                                                                         : Division::kBlocks;
}

template <typename T, int kTiles, Rows kRows, Division kDivision>
void launch_division(const FewRowsArgs& args, int64_t shared_bytes, CudaStream stream) {
  const auto kernel = linear_few_rows_kernel<T, kTiles, kRows, kDivision>;
  static const cudaError_t allowed = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                          static_cast<int>(kFewRowsSharedBytes));
  PLIMSOLL_CUDA(allowed);
  constexpr int kTilesAtOnce = kDivision == Division::kWarps ? kWarps : 1;
  constexpr int kParts = kDivision == Division::kClusters ? kBlocksPerCluster : 1;
  const int columns_at_once = kTilesAtOnce * columns_per_tile(args.end);
  const int resident =
      kBlocksPerMultiprocessor<kTiles, kRows> * cuda::device_attribute<cudaDevAttrMultiProcessorCount>();
  const int clusters = std::min((args.columns + columns_at_once - 1) / columns_at_once, resident / kParts);
  cuda::launch_early(kernel,
                     {.grid = dim3(static_cast<unsigned>(clusters * kParts)),
                      .block = dim3(32, kWarps),
                      .shared_bytes = shared_bytes,
                      .cluster = kParts},
                     stream, args);
}

template <typename T, int kTiles, Rows kRows>
void launch_rows(const FewRowsArgs& args, int64_t shared_bytes, CudaStream stream) {
  const Division division = division_of<kTiles>(args);
  if (division == Division::kWarps)
    return launch_division<T, kTiles, kRows, Division::kWarps>(args, shared_bytes, stream);
  // Clusters compute only layers of so few columns that the rows of x are not copied to shared memory (kTilesToStage), so the kernel for
  // clusters is compiled only for kInPlace.
  if constexpr (kTiles > 1 && kRows == Rows::kInPlace) {
    if (division == Division::kClusters)
      return launch_division<T, kTiles, kRows, Division::kClusters>(args, shared_bytes, stream);
  }
  launch_division<T, kTiles, kRows, Division::kBlocks>(args, shared_bytes, stream);
}

// Returns the bytes of shared memory of a thread block if the rows of x are copied there.
template <typename T, int kTiles, Rows kRows>
int64_t bytes_with_rows(const FewRowsArgs& args) {
  return static_cast<int64_t>(sizeof(Shared<kTiles, kRows>)) +
         int64_t{args.terms + kFewRowsPadding} * args.rows * static_cast<int64_t>(sizeof(T));
}

template <typename T, int kTiles>
void launch_tiles(const FewRowsArgs& args, bool has_norm, CudaStream stream) {
  if constexpr (kTiles == 1) {
    if (has_norm) {
      return launch_rows<T, kTiles, Rows::kNormalized>(
          args, bytes_with_rows<T, kTiles, Rows::kNormalized>(args), stream);
    }
  }
  const int64_t with_rows = bytes_with_rows<T, kTiles, Rows::kStaged>(args);
  const int64_t columns_to_stage = kTiles == 1 ? 0
                                               : int64_t{kTilesToStage} * kColumns *
                                                     cuda::device_attribute<cudaDevAttrMultiProcessorCount>();
  if (with_rows <= kFewRowsSharedBytes && args.columns >= columns_to_stage)
    return launch_rows<T, kTiles, Rows::kStaged>(args, with_rows, stream);
  launch_rows<T, kTiles, Rows::kInPlace>(args, sizeof(Shared<kTiles, Rows::kInPlace>), stream);
}

void launch(DType dtype, const FewRowsArgs& args, bool has_norm, CudaStream stream) {
  const auto with_type = [&](auto type) {
    using T = decltype(type);
    if (args.rows <= kRowsPerProduct) return launch_tiles<T, 1>(args, has_norm, stream);
    if (args.rows <= 2 * kRowsPerProduct) return launch_tiles<T, 2>(args, has_norm, stream);
    launch_tiles<T, 4>(args, has_norm, stream);
  };
  dtype == DType::kBF16 ? with_type(__nv_bfloat16{}) : with_type(__half{});
}

class FewRowsProduct final : public CudaMatmul {
 public:
  FewRowsProduct(const MatmulProblem& problem, SecondOperand w) : problem_(problem), w_(w) {}

  void run(const MatmulArgs& args, const int32_t* accumulate, CudaStream stream) override {
    PLIMSOLL_CHECK(accumulate == nullptr,
                   "the kernel for matrix products of few rows cannot add to its output");
    PLIMSOLL_CHECK(cuda::aligned_to_packs({args.a.data, args.b.data}),
                   "the operands of a matrix product of few rows must be aligned to 16 bytes");
    if (problem_.m <= 0) return;
    FewRowsArgs few{};
    few.x = args.a.data;
    few.w = args.b.data;
    few.bias = cuda::any_floats(args.bias);
    few.addend = args.addend.data;
    few.y = args.c.data;
    few.rows = static_cast<int>(problem_.m);
    few.columns = static_cast<int>(problem_.n);
    few.terms = static_cast<int>(problem_.k);
    few.y_stride = problem_.c_stride == 0 ? problem_.n : problem_.c_stride;
    few.constant_w = w_ == SecondOperand::kConstant;
    launch(problem_.a, few, false, stream);
  }
  std::string description() const override { return "linear_few_rows_cuda"; }

 private:
  MatmulProblem problem_;
  SecondOperand w_;
};

}  // namespace

std::unique_ptr<CudaMatmul> prepare_few_rows_matmul_cuda(const MatmulProblem& problem, SecondOperand b) {
  PLIMSOLL_CHECK(linear_few_rows_fit(problem),
                 "the kernel for matrix products of few rows does not support the product {} x {} x {} "
                 "(linear_few_rows_fit())",
                 problem.m, problem.n, problem.k);
  return std::make_unique<FewRowsProduct>(problem, b);
}

void norm_linear_few_rows_cuda(const NormLinearProblem& problem, const NormLinearArgs& args, NormIs norm,
                               SecondOperand w, CudaStream stream) {
  PLIMSOLL_CHECK(cuda::aligned_to_packs({args.x.data, args.residual.data, args.sum.data, args.w.data}),
                 "the operands of a matrix product of few rows must be aligned to 16 bytes");
  const MatmulProblem& product = problem.product;
  if (product.m <= 0) return;
  FewRowsArgs few{};
  few.x = args.x.data;
  few.w = args.w.data;
  few.bias = cuda::any_floats(args.bias);
  few.y = args.y.data;
  few.rows = static_cast<int>(product.m);
  few.columns = static_cast<int>(problem.outputs());
  few.terms = static_cast<int>(product.k);
  few.y_stride = problem.outputs();
  few.constant_w = w == SecondOperand::kConstant;
  few.end = problem.end;
  few.activation = problem.activation;
  if (norm == NormIs::kPartOfLayer) {
    few.norm = problem.norm;
    few.residual = args.residual.data;
    few.norm_bias = cuda::any_floats(args.norm_bias);
    few.gain = cuda::any_floats(args.gain);
    few.beta = cuda::any_floats(args.beta);
    few.sum = args.sum.data;
    few.eps = static_cast<float>(args.eps);
  }
  launch(product.a, few, norm == NormIs::kPartOfLayer, stream);
}

}  // namespace plimsoll
