#include "kernels/embedding/cuda/embedding_bwd.cuh"

#include <algorithm>

#include "kernels/element_wise/cuda/attributes.cuh"
#include "kernels/embedding/cuda/pieces.cuh"

namespace plimsoll::cuda {
namespace {

// Returns the number of tokens per piece for the kernel that loads gradient rows into registers. The number is doubled, up to
// kMostLoadedTokens, until there are at most 1024 pieces. These occupy every multiprocessor, and the sums of the pieces have few bytes
// compared with the data that is read.
int tokens_of_loaded_piece(int64_t T) {
  int64_t tokens = kEmbeddingPiece;
  while (tokens < kMostLoadedTokens && ceil_div(T, tokens) > 1024) tokens *= 2;
  return static_cast<int>(tokens);
}

// Returns the number of tokens per piece for the kernel that copies gradient rows to shared memory. It is chosen such that an H100 sums all
// pieces at the same time. Measured on an H200 with 65536 x 1024 elements in bf16: 70.5 us for a table of 30522 rows and 36.9 us for one of
// 512 rows. With twice as many pieces the times are 77.8 us and 37.8 us.
int tokens_of_copied_piece(int64_t T) {
  const int64_t tokens = ceil_div(T, kCopiedPieces * kEmbeddingPiece) * kEmbeddingPiece;
  return static_cast<int>(std::clamp<int64_t>(tokens, kEmbeddingPiece, int64_t{kMostCopiedTokens}));
}

}  // namespace

void launch_embedding_bwd(const EmbeddingBwd& operands, CudaStream stream) {
  if (operands.num_rows <= 0 || operands.C <= 0) return;
  const bool packs =
      operands.C % 4 == 0 && aligned_to_packs({operands.d_x.data, operands.d_table, operands.partials});
  const bool long_packs = packs && operands.C * dtype_bytes(operands.d_x.dtype) % 16 == 0;
  // Uses bulk copies where they are possible. They are faster than loads, because the rows of d_x are scattered in memory.
  const bool copies = long_packs && device_attribute<cudaDevAttrComputeCapabilityMajor>() >= 9;
  const Pieces pieces{
      .sorted = operands.sorted,
      .partials = operands.partials,
      .stride = (operands.C + 3) / 4 * 4,
      .T = operands.T,
      .C = operands.C,
      .padding_id = operands.padding_id,
      .tokens = copies ? tokens_of_copied_piece(operands.T) : tokens_of_loaded_piece(operands.T),
      .d_table = operands.d_table,
      .first_row = operands.first_row,
      .num_rows = operands.num_rows,
      .add = operands.add};
  with_cuda_type(operands.d_x.dtype, [&](auto type) {
    using X = decltype(type);
    const auto* d_x = static_cast<const X*>(operands.d_x.data);
    // The kernel for tables of two rows is used only for 16-bit types. In fp32, on an H200 with 65536 x 1024 elements, it reaches 84.8 % of
    // the rate of a copy, and the kernels that sum pieces reach 93.8 %.
    if constexpr (sizeof(X) == 2) {
      if (long_packs && operands.V <= kTwoRows) return launch_two_rows(operands, d_x, stream);
    }
    if (copies) {
      launch_copied_pieces(pieces, d_x, stream);
    } else {
      launch_loaded_pieces(pieces, d_x, packs, stream);
    }
    launch_join(pieces, packs, stream);
  });
}

}  // namespace plimsoll::cuda
