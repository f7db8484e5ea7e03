#include "kernels/element_wise/cuda/reductions.cuh"
#include "kernels/embedding/cuda/embedding_bwd.cuh"

namespace plimsoll::cuda {
namespace {

// One pass sorts by a digit of 8 bits. A block places 4096 tokens; to know where, each block counts the
// digits of all tokens by itself, which for the numbers of tokens of a batch costs less than another launch.
constexpr int kBits = 8;
constexpr int kDigits = 1 << kBits;
constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / 32;
constexpr int kRounds = 4;  // of 32 tokens that a warp places
constexpr int kTokens = kThreads * kRounds;
constexpr int kAhead = 4;  // keys that a thread loads before it counts the first
static_assert(kThreads >= kDigits);

struct SortPass {
  const int32_t* ids;     // of the tokens in the order before this pass
  const int32_t* tokens;  // null in the first pass: 0, 1, 2, ...
  SortedTokens to;
  int64_t T;
  int64_t V;
  int64_t padding_id;
  Integer num_tokens;
  int shift;
};

__device__ __forceinline__ int32_t key_of(const SortPass& a, int64_t i, int64_t num_tokens) {
  if (a.tokens != nullptr) return a.ids[i];
  if (i >= num_tokens) return static_cast<int32_t>(a.V);
  const int32_t id = a.ids[i];
  return id == a.padding_id ? static_cast<int32_t>(a.V) : id;
}
__device__ __forceinline__ int digit_of(int32_t key, int shift) {
  return (key >> shift) & (kDigits - 1);
}

// Exclusive sums of values over the threads of the block.
__device__ __forceinline__ int exclusive_sum(int value, int* warp_sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  int sum = value;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const int below = __shfl_up_sync(kWholeWarp, sum, distance);
    if (lane >= distance) sum += below;
  }
  if (lane == 31) warp_sums[warp] = sum;
  __syncthreads();
  for (int other = 0; other < warp; ++other) sum += warp_sums[other];
  return sum - value;
}

// Counts the digits of all tokens into `all`, and of those before `begin` into `before`. Integers: the order
// of the additions does not matter.
__device__ __forceinline__ void count_digits(const SortPass& a, int64_t begin, int64_t num_tokens, int* all,
                                             int* before) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int64_t base = 0; base < a.T; base += kThreads * kAhead) {
    int32_t keys[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const int64_t i = base + u * kThreads + threadIdx.x;
      keys[u] = i < a.T ? key_of(a, i, num_tokens) : 0;
    }
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const int64_t i = base + u * kThreads + threadIdx.x;
      const unsigned present = __ballot_sync(kWholeWarp, i < a.T);
      if (i >= a.T) continue;
      const int digit = digit_of(keys[u], a.shift);
      // Equal digits of a warp are counted at once: a batch has one token type, or few.
      const unsigned equal = __match_any_sync(present, digit);
      if ((equal & ((1u << lane) - 1u)) == 0) {
        atomicAdd(&all[digit], __popc(equal));
        // A block's tokens begin at a multiple of a warp's.
        if (i < begin) atomicAdd(&before[digit], __popc(equal));
      }
    }
  }
}

__global__ void __launch_bounds__(kThreads) sort_pass_kernel(const __grid_constant__ SortPass a) {
  __shared__ int all[kDigits], before[kDigits], of_warp[kWarps][kDigits], warp_sums[kWarps];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int warp = thread / 32;
  const int64_t num_tokens = a.num_tokens.get();
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kTokens;
  if (thread < kDigits) {
    all[thread] = 0;
    before[thread] = 0;
    for (int w = 0; w < kWarps; ++w) of_warp[w][thread] = 0;
  }
  __syncthreads();
  count_digits(a, begin, num_tokens, all, before);
  // Each warp's tokens, round by round: how many of the same digit the warp had before a token.
  int32_t keys[kRounds];
  int rank[kRounds];
#pragma unroll
  for (int round = 0; round < kRounds; ++round) {
    const int64_t i = begin + (warp * kRounds + round) * 32 + lane;
    const unsigned present = __ballot_sync(kWholeWarp, i < a.T);
    keys[round] = 0;
    rank[round] = 0;
    if (i < a.T) {
      keys[round] = key_of(a, i, num_tokens);
      const int digit = digit_of(keys[round], a.shift);
      const unsigned equal = __match_any_sync(present, digit);
      const unsigned lower = equal & ((1u << lane) - 1u);
      rank[round] = of_warp[warp][digit] + __popc(lower);
      __syncwarp(present);
      if (lower == 0) of_warp[warp][digit] += __popc(equal);
    }
    __syncwarp();
  }
  __syncthreads();
  // Where the block's tokens of a digit begin, and each warp's among them.
  int next = exclusive_sum(thread < kDigits ? all[thread] : 0, warp_sums);
  if (thread < kDigits) {
    next += before[thread];
    for (int w = 0; w < kWarps; ++w) {
      const int count = of_warp[w][thread];
      of_warp[w][thread] = next;
      next += count;
    }
  }
  __syncthreads();
#pragma unroll
  for (int round = 0; round < kRounds; ++round) {
    const int64_t i = begin + (warp * kRounds + round) * 32 + lane;
    if (i >= a.T) continue;
    const int place = of_warp[warp][digit_of(keys[round], a.shift)] + rank[round];
    a.to.ids[place] = keys[round];
    a.to.tokens[place] = a.tokens != nullptr ? a.tokens[i] : static_cast<int32_t>(i);
  }
}

}  // namespace

SortedTokens launch_sort_by_id(const EmbeddingBwd& operands, const SortedTokens (&halves)[2],
                               CudaStream stream) {
  SortPass pass{.ids = operands.ids,
                .tokens = nullptr,
                .to = halves[0],
                .T = operands.T,
                .V = operands.V,
                .padding_id = operands.padding_id,
                .num_tokens = operands.num_tokens,
                .shift = 0};
  const auto blocks = static_cast<unsigned>(ceil_div(operands.T, kTokens));
  SortedTokens result = halves[0];
  // The largest key is V.
  for (int turn = 0; pass.shift == 0 || (operands.V >> pass.shift) > 0; ++turn, pass.shift += kBits) {
    pass.to = halves[turn % 2];
    sort_pass_kernel<<<blocks, kThreads, 0, stream>>>(pass);
    PLIMSOLL_CHECK_LAUNCH("sort_by_id");
    result = pass.to;
    pass.ids = result.ids;
    pass.tokens = result.tokens;
  }
  return result;
}

}  // namespace plimsoll::cuda
