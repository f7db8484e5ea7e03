#include "kernels/embedding/cuda/embedding_bwd.cuh"

#include <algorithm>

#include "kernels/element_wise/cuda/attributes.cuh"
#include "kernels/embedding/cuda/pieces.cuh"

namespace plimsoll::cuda {
namespace {

// Pieces so long that a large batch has 1024 of them: enough to keep every multiprocessor busy, few enough
// that their sums are little beside what is read.
int tokens_of_loaded_piece(int64_t T) {
  int64_t tokens = kEmbeddingPiece;
  while (tokens < kMostLoadedTokens && ceil_div(T, tokens) > 1024) tokens *= 2;
  return static_cast<int>(tokens);
}

// Pieces that an H100 adds up all at once. Of a table with few rows, whose gradient is read more than
// written, twice as many. 65536 x 1024 on an H200, pieces alone: 30522 rows 70 us in bf16 with 528 and 75
// with 1024; 512 rows 40 and 38.
int tokens_of_copied_piece(int64_t T, int64_t V) {
  constexpr int64_t kTokensOfFrequentRow = 16;
  const int64_t pieces = T >= kTokensOfFrequentRow * V ? 2 * kFewPieces : kFewPieces;
  const int64_t tokens = ceil_div(T, pieces * kEmbeddingPiece) * kEmbeddingPiece;
  return static_cast<int>(std::clamp<int64_t>(tokens, kEmbeddingPiece, int64_t{kMostCopiedTokens}));
}

// Rows of d_x that lie apart come faster by bulk copies; of tables with so few rows nearly all lie together.
constexpr int64_t kRowsThatLieTogether = 16;

bool copies_rows(const EmbeddingBwd& operands, bool packs) {
  return packs && operands.V > kRowsThatLieTogether &&
         operands.C * dtype_bytes(operands.d_x.dtype) % 16 == 0 &&
         device_attribute<cudaDevAttrComputeCapabilityMajor>() >= 9;
}

}  // namespace

void launch_embedding_bwd(const EmbeddingBwd& operands, CudaStream stream) {
  if (operands.num_rows <= 0 || operands.C <= 0) return;
  const bool packs =
      operands.C % 4 == 0 && aligned_to_packs({operands.d_x.data, operands.d_table, operands.partials});
  const bool copies = copies_rows(operands, packs);
  const Pieces pieces{
      .sorted = operands.sorted,
      .partials = operands.partials,
      .stride = (operands.C + 3) / 4 * 4,
      .T = operands.T,
      .C = operands.C,
      .padding_id = operands.padding_id,
      .tokens = copies ? tokens_of_copied_piece(operands.T, operands.V) : tokens_of_loaded_piece(operands.T),
      .d_table = operands.d_table,
      .first_row = operands.first_row,
      .num_rows = operands.num_rows,
      .add = operands.add};
  with_cuda_type(operands.d_x.dtype, [&](auto type) {
    using X = decltype(type);
    const auto* d_x = static_cast<const X*>(operands.d_x.data);
    if (copies) {
      launch_copied_pieces(pieces, d_x, stream);
    } else {
      launch_loaded_pieces(pieces, d_x, packs, stream);
    }
  });
  launch_join(pieces, packs, stream);
}

}  // namespace plimsoll::cuda
