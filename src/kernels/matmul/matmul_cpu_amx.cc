#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "device/cpu/amx_tiles.h"
#include "device/cpu/cpu_features.h"
#include "device/cpu/parallel.h"
#include "kernels/matmul/bf16_parts_amx.h"
#include "kernels/matmul/matmul.h"

namespace plimsoll {
namespace {

// The columns and terms of B that are multiplied at a time. All threads together split them into bf16 parts once; then each thread splits
// rows of A and multiplies them with all of these columns.
struct Piece {
  int64_t column = 0, columns = 0;
  int64_t term = 0, terms = 0;
};

class AmxMatmul final : public PreparedMatmul {
 public:
  explicit AmxMatmul(const MatmulProblem& problem)
      : problem_(problem),
        blocks_(matmul_amx_blocks(problem)),
        scratch_bytes_(matmul_scratch_bytes(problem)) {
    PLIMSOLL_CHECK(may_use_amx_tiles(), "the operating system does not allow this process to use AMX tiles");
  }
  void run(const MatmulArgs& args) override;
  void pack_b(ConstView, std::span<std::byte>, std::span<std::byte>) override {
    PLIMSOLL_CHECK(false,
                   "matrix products on AMX tiles do not support a matrix B that was packed in advance");
  }
  std::string description() const override { return "AMX tiles, six products of bf16 parts"; }

 private:
  void add_bias(const MatmulArgs& args, const Piece& piece, int64_t row, int64_t end) const;
  void split_b(const MatmulArgs& args, const Piece& piece) const;
  void multiply_rows(const MatmulArgs& args, const Piece& piece, int64_t row, std::byte* a_parts) const;
  void multiply_block(const MatmulArgs& args, int64_t row, int64_t column, PartsProduct product) const;

  MatmulProblem problem_;
  AmxBlocks blocks_;
  int64_t scratch_bytes_ = 0;
};

void AmxMatmul::run(const MatmulArgs& args) {
  check_matmul_args(problem_, args, scratch_bytes_);
  const int64_t tasks = (problem_.m + blocks_.rows - 1) / blocks_.rows;
  Piece piece;
  for (piece.column = 0; piece.column < problem_.n; piece.column += blocks_.columns) {
    piece.columns = std::min(blocks_.columns, problem_.n - piece.column);
    for (piece.term = 0; piece.term < problem_.k; piece.term += blocks_.terms) {
      piece.terms = std::min(blocks_.terms, problem_.k - piece.term);
      split_b(args, piece);
      parallel_for(tasks, [&](int64_t task, int thread) {
        std::byte* a_parts = args.scratch.data() + blocks_.b_bytes + thread * blocks_.a_bytes;
        multiply_rows(args, piece, task * blocks_.rows, a_parts);
      });
    }
  }
}

// Adds the bias to rows row .. end - 1 of C, in the columns of `piece`, which are the ones that are being computed.
void AmxMatmul::add_bias(const MatmulArgs& args, const Piece& piece, int64_t row, int64_t end) const {
  float* c = args.c.as<float>();
  const float* bias = args.bias.as<float>();
  for (int64_t i = row; i < end; ++i) {
    for (int64_t j = piece.column; j < piece.column + piece.columns; ++j) c[i * problem_.n + j] += bias[j];
  }
}

void AmxMatmul::split_b(const MatmulArgs& args, const Piece& piece) const {
  const bool transposed = problem_.trans_b == Transpose::kYes;
  const int64_t stride = transposed ? problem_.k : problem_.n;
  const int64_t block_bytes = parts_steps(piece.terms) * kPartsStepBytes;
  parallel_for((piece.columns + kPartsBlock - 1) / kPartsBlock, [&](int64_t block, int) {
    const int64_t column = piece.column + block * kPartsBlock;
    const int64_t at = transposed ? column * stride + piece.term : piece.term * stride + column;
    split_columns_amx({.from = args.b.as<float>() + at,
                       .stride = stride,
                       .term_layout = transposed ? TermLayout::kAdjacent : TermLayout::kStrided,
                       .count = problem_.n - column,
                       .terms = piece.terms},
                      args.scratch.data() + block * block_bytes);
  });
}

void AmxMatmul::multiply_rows(const MatmulArgs& args, const Piece& piece, int64_t row,
                              std::byte* a_parts) const {
  const bool transposed = problem_.trans_a == Transpose::kYes;
  const int64_t stride = transposed ? problem_.m : problem_.k;
  const int64_t steps = parts_steps(piece.terms);
  const int64_t block_bytes = steps * kPartsStepBytes;
  const int64_t end = std::min(problem_.m, row + blocks_.rows);
  for (int64_t i = row; i < end; i += kPartsBlock) {
    split_rows_amx(
        {.from = args.a.as<float>() + (transposed ? piece.term * stride + i : i * stride + piece.term),
         .stride = stride,
         .term_layout = transposed ? TermLayout::kStrided : TermLayout::kAdjacent,
         .count = problem_.m - i,
         .terms = piece.terms},
        a_parts + (i - row) / kPartsBlock * block_bytes);
  }
  const bool is_first = piece.term == 0;
  const bool adds = args.accumulate == Accumulate::kAdd || !is_first;
  if (adds && is_first && args.bias) add_bias(args, piece, row, end);
  const PartsStart start = adds ? PartsStart::kStored : args.bias ? PartsStart::kBias : PartsStart::kZero;
  configure_amx_tiles();
  for (int64_t j = 0; j < piece.columns; j += kPartsBlock) {
    for (int64_t i = row; i < end; i += kPartsBlock) {
      multiply_block(args, i, piece.column + j,
                     {.a = a_parts + (i - row) / kPartsBlock * block_bytes,
                      .b = args.scratch.data() + j / kPartsBlock * block_bytes,
                      .steps = steps,
                      .start = start});
    }
  }
  release_amx_tiles();
}

// Multiplies a block of 32 x 32 elements of C. A block that extends past the edge of C is computed in a copy.
void AmxMatmul::multiply_block(const MatmulArgs& args, int64_t row, int64_t column,
                               PartsProduct product) const {
  float* c = args.c.as<float>() + row * problem_.n + column;
  const int64_t rows = std::min(kPartsBlock, problem_.m - row);
  const int64_t columns = std::min(kPartsBlock, problem_.n - column);
  product.c = c;
  product.ldc = problem_.n;
  if (args.bias) product.bias = args.bias.as<float>() + column;
  if (rows == kPartsBlock && columns == kPartsBlock) return multiply_parts_amx(product);
  alignas(64) std::array<float, kPartsBlock* kPartsBlock> whole = {};
  alignas(64) std::array<float, kPartsBlock> bias = {};
  const auto row_bytes = static_cast<size_t>(columns) * sizeof(float);
  if (product.start == PartsStart::kStored) {
    for (int64_t i = 0; i < rows; ++i)
      std::memcpy(&whole[static_cast<size_t>(i * kPartsBlock)], c + i * problem_.n, row_bytes);
  }
  if (product.start == PartsStart::kBias) std::memcpy(bias.data(), product.bias, row_bytes);
  product.c = whole.data();
  product.ldc = kPartsBlock;
  product.bias = bias.data();
  multiply_parts_amx(product);
  for (int64_t i = 0; i < rows; ++i)
    std::memcpy(c + i * problem_.n, &whole[static_cast<size_t>(i * kPartsBlock)], row_bytes);
}

}  // namespace

std::unique_ptr<PreparedMatmul> prepare_matmul_amx(const MatmulProblem& problem) {
  return std::make_unique<AmxMatmul>(problem);
}

}  // namespace plimsoll
