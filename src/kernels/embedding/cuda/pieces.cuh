// The sorted tokens of a gradient of embeddings in pieces of equal length, and what their sums become. Only
// for .cu files. Thread-safe: no state.
#pragma once

#include "kernels/embedding/cuda/embedding_bwd.cuh"

namespace plimsoll::cuda {

// The two sums that a piece may leave to be joined: of its first id, which came from the piece before, and of
// its last, which goes on in the next.
inline constexpr int kFirstSum = 0;
inline constexpr int kLastSum = 1;

// The compiler takes a store of 16 bytes apart into four where several branches end in it, and the cache then
// gets four times as many; __stwb stays whole.
template <int N>
__device__ __forceinline__ void store_sum(float* to, const float (&sum)[N]) {
  if constexpr (N == 4) {
    __stwb(reinterpret_cast<float4*>(to), make_float4(sum[0], sum[1], sum[2], sum[3]));
  } else {
    store_floats<float, N>(to, sum);
  }
}

// All tokens are sorted and cut into pieces whatever rows are wanted, so that an id's sum is taken in one
// order.
struct Pieces {
  SortedTokens sorted;
  float* partials;  // [pieces, 2, stride]
  int64_t stride;
  int64_t T, C, V;
  int tokens;  // of a piece
  float* d_table;
  int64_t first_row, num_rows;  // of the table: what d_table holds
  AddFlag add;

  int64_t count() const { return ceil_div(T, tokens); }
  __device__ __forceinline__ float* partial(int64_t piece, int sum) const {
    return partials + (piece * 2 + sum) * stride;
  }
  __device__ __forceinline__ bool wants(int32_t id) const {
    return id >= first_row && id < first_row + num_rows;
  }
  // The whole sum of an id, N columns of it.
  template <int N>
  __device__ __forceinline__ void write_row(int32_t id, int64_t c, bool adds, float (&sum)[N]) const {
    if (!wants(id)) return;
    float* row = d_table + (id - first_row) * C + c;
    if (adds) {
      float old[N];
      load_floats<float, N>(row, old);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += old[i];
    }
    store_sum<N>(row, sum);
  }
};

// Adds up the sums of the ids that lie in several pieces. `packs`: whether four columns may be read at once.
void launch_join(const Pieces& pieces, bool packs, CudaStream stream);

}  // namespace plimsoll::cuda
