// Divides the sorted tokens of an embedding gradient into pieces of equal length, and stores the sums of pieces. Only for .cu files.
// Thread-safe: no state.
#pragma once

#include "kernels/element_wise/cuda/early_launch.cuh"
#include "kernels/embedding/cuda/embedding_bwd.cuh"

namespace plimsoll::cuda {

// A piece stores up to two sums for join_pieces.cu, at these indices: the sum of its first id, if the previous piece also contains tokens
// with this id, and the sum of its last id, if the next piece also does.
inline constexpr int kFirstSum = 0;
inline constexpr int kLastSum = 1;

// Stores a sum of N columns. Four floats are stored by __stwb. The compiler splits an ordinary store of four floats into four stores if
// several branches lead to it, and the cache then receives four times as many stores. It never splits __stwb.
template <int N>
__device__ __forceinline__ void store_sum(float* to, const float (&sum)[N]) {
  if constexpr (N == 4) {
    __stwb(reinterpret_cast<float4*>(to), make_float4(sum[0], sum[1], sum[2], sum[3]));
  } else {
    store_floats<float, N>(to, sum);
  }
}

// The division of the sorted tokens into pieces of equal length. It does not depend on which rows of the table d_table contains, so that
// the gradient rows of the tokens with an id are always added in the same order.
struct Pieces {
  SortedTokens sorted;
  float* partials;  // the sums that join_pieces.cu adds, shape [pieces, 2, stride]
  int64_t stride;
  int64_t T, C;
  int64_t padding_id;
  int tokens;  // number of tokens per piece
  float* d_table;
  int64_t first_row, num_rows;  // the range of rows of the table that d_table contains
  AddFlag add;

  __host__ __device__ int64_t count() const { return (T + tokens - 1) / tokens; }
  __device__ __forceinline__ float* partial(int64_t piece, int sum) const {
    return partials + (piece * 2 + sum) * stride;
  }
  // Returns true if the gradient of an id must be computed: if d_table contains the row of the id, and the id is not the padding id.
  // Returns false for the id of unused rows.
  __device__ __forceinline__ bool wants(int32_t id) const {
    return id >= first_row && id < first_row + num_rows && id != padding_id;
  }
  // Returns true if row first_row + `row` of the table has a token whose gradient is added to it.
  __device__ __forceinline__ bool has_token(int64_t row) const {
    const int64_t id = first_row + row;
    int64_t low = 0, high = T;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (sorted.id(middle) < id) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < T && sorted.id(low) == id && id != padding_id;
  }
  // Writes N columns of the complete sum of an id to d_table. Requires: wants() is true for the id.
  template <int N>
  __device__ __forceinline__ void write_row(int32_t id, int64_t c, bool adds, float (&sum)[N]) const {
    float* row = d_table + (id - first_row) * C + c;
    if (adds) {
      float old[N];
      load_floats<float, N>(row, old);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += old[i];
    }
    store_sum<N>(row, sum);
  }
  // Stores the sum of an id after its last token in the piece has been added. If a neighbouring piece also contains tokens with the id, the
  // sum is stored for join_pieces.cu: as the first sum of this piece if the previous piece contains such tokens, otherwise as the last sum
  // of this piece. Requires: wants() is true for the id.
  template <int N>
  __device__ __forceinline__ void finish_id(int64_t piece, int32_t id, bool from_before, bool goes_on,
                                            bool adds, int64_t c, float (&sum)[N]) const {
    if (from_before || goes_on) {
      store_sum<N>(partial(piece, from_before ? kFirstSum : kLastSum) + c, sum);
    } else {
      write_row<N>(id, c, adds, sum);
    }
  }
};

// Sum the pieces and, unless the gradient is added to the table, write zeros to the rows without a token. launch_copied_pieces() reads the
// rows of d_x with bulk copies. It requires compute capability 9.0, pieces of at most kMostCopiedTokens tokens, and rows of d_x and of the
// table that begin and end at multiples of 16 bytes.
template <typename X>
void launch_loaded_pieces(const Pieces& pieces, const X* d_x, bool packs, CudaStream stream);
template <typename X>
void launch_copied_pieces(const Pieces& pieces, const X* d_x, CudaStream stream);
inline constexpr int kMostLoadedTokens = 128;
inline constexpr int kMostCopiedTokens = 256;
// The number of pieces that an H100 sums at the same time: four on each of its 132 multiprocessors.
inline constexpr int64_t kCopiedPieces = 528;

// Adds up the sums of each id whose tokens are in several pieces. `packs` states whether the alignment permits to read four columns at
// once.
void launch_join(const Pieces& pieces, bool packs, CudaStream stream);

}  // namespace plimsoll::cuda
