// The sizes of a matrix product and the memory that each implementation needs for it: the host-only part of
// the contract in matmul.h. Nothing here asks a library or the machine, so that a plan is the same
// everywhere. Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/dtype.h"
#include "hardware/cpu_isa.h"
#include "hardware/tuning_table.h"
#include "kernels/catalog/catalog.h"

namespace plimsoll {

enum class Transpose : uint8_t { kNo, kYes };
enum class MatmulBias : uint8_t { kNone, kRow };
// Whether run() may be asked to add to C, which costs a second compiled kernel; or adds another matrix of the
// size and type of C (linear_add, on a GPU).
enum class MatmulWrites : uint8_t { kOverwriteOnly, kOverwriteOrAdd, kAddend };
// Whether B is a plain row-major matrix or was brought into the implementation's own layout by pack_b().
enum class MatmulOperand : uint8_t { kPlain, kPacked };
// How products of fp32 operands are taken on a GPU: as they are; rounded to TF32; or as three TF32 products
// of their parts (split_tf32.h), with about the error of the first at a third of the speed of the second.
enum class Fp32Products : uint8_t { kF32, kTf32, kTf32x3 };
constexpr std::string_view fp32_products_name(Fp32Products products) {
  return products == Fp32Products::kF32 ? "fp32" : products == Fp32Products::kTf32 ? "tf32" : "tf32x3";
}

// The workspace that every product of cuBLASLt is given where nothing else is asked for: what NVIDIA advises
// for compute capability 9.0. It lies in the arena while the product runs.
inline constexpr int64_t kCublasLtWorkspaceBytes = int64_t{32} << 20;

// What takes a product on a CPU: the library, or, of fp32 operands on AMX tiles, our sums of products of
// their bf16 parts (bf16_parts_amx.h), within the same error bound.
enum class CpuProducts : uint8_t { kLibrary, kAmxParts };

// C[m, n] = op(A)[m, k] op(B)[k, n] (+ bias[n]); everything is row-major and dense. Requires: m, n, k >= 1.
// The three products of a linear layer y = x W^T + bias with x[T, K] and W[N, K]:
//   y[T, N]   = x W^T + bias      m = T, n = N, k = K, trans_b = kYes, bias = kRow
//   dX[T, K]  = dY W              m = T, n = K, k = N
//   dW[N, K] (+)= dY^T x          m = N, n = K, k = T, trans_a = kYes
struct MatmulProblem {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  Transpose trans_a = Transpose::kNo;  // A is stored [k, m]
  Transpose trans_b = Transpose::kNo;  // B is stored [n, k]
  DType a = DType::kF32;               // the type in which products are taken
  DType b = DType::kF32;               // f32 beside bf16 A: B is rounded to bf16 first (masters in fp32)
  DType c = DType::kF32;
  DType bias_dtype = DType::kF32;
  MatmulBias bias = MatmulBias::kNone;
  MatmulWrites writes = MatmulWrites::kOverwriteOnly;
  MatmulOperand b_operand = MatmulOperand::kPlain;
  int num_threads = 1;
  CpuIsa isa = CpuIsa::kBaseline;
  CpuProducts cpu_products = CpuProducts::kLibrary;
  int64_t workspace_bytes = kCublasLtWorkspaceBytes;  // on a GPU, for the library
};

// The problem as the catalog is asked about it: op "matmul", dtype = a, dims M, N, K and the options trans_a,
// trans_b, bias, b, c (element types as numbers), writes_add, b_packed; tf32x3 as 1 where fp32 operands
// may be split into TF32 parts; and workspace, the bytes of the library's on a GPU, where they are not
// kCublasLtWorkspaceBytes.
Problem matmul_catalog_problem(const MatmulProblem& problem);

// What the catalog prefers for the problem on a CPU, where no other kernel is asked for.
CpuProducts preferred_cpu_products(const MatmulProblem& problem);
// From so many rows, columns and terms on.
inline constexpr int64_t kAmxPartsMinSize = 64;

// How matmul_cpu_amx goes over a product. None of these grows when the product shrinks.
struct AmxBlocks {
  int64_t rows = 0;     // of A that a thread splits at a time
  int64_t columns = 0;  // of B that all threads split at a time
  int64_t terms = 0;    // of both
  int64_t a_bytes = 0;  // of parts of A, for each thread
  int64_t b_bytes = 0;  // of parts of B
};
AmxBlocks matmul_amx_blocks(const MatmulProblem& problem);

// Bytes of scratch: for kAmxParts those of the parts. For kLibrary what run() and pack_b() are given. It is a
// budget by design: matmul_packed_b_bytes where B is packed on the way, and a workspace for the library.
// prepare_matmul_cpu() verifies that the library keeps within it, and takes another way where it does not.
// The reference needs none.
int64_t matmul_scratch_bytes(const MatmulProblem& problem);

// Whether run() brings plain B into the library's layout first. For few rows of C that costs more than it
// saves: from 64 rows on it pays, and from 768 on where B is transposed and f32. Measured with oneDNN 2.6.3
// on a Xeon (family 6, model 207, AVX-512, 2 threads) over the layers of MiniLM and BERT-base: without
// packing a row-major B of 3072 columns runs at 45-50 instead of 150 GFLOP/s a core, because its rows fall
// into few sets of the cache.
bool matmul_packs_b(const MatmulProblem& problem);
inline constexpr int64_t kMatmulMinRowsToPack = 64;
inline constexpr int64_t kMatmulMinRowsToPackTransposed = 768;

// What the library of a CPU's products holds outside the arena, by the generation that the program is built
// with (oneDNN 2 or 3). Layers share compiled products, and width, depth and threads make no difference.
struct MatmulLibraryMemory {
  int64_t at_start_bytes =
      0;  // pages of the library that a first product touches, beyond those of oneDNN 2.6
  int64_t per_bucket_bytes = 0;  // code and tables compiled for the products of one bucket
};
MatmulLibraryMemory matmul_library_memory();

// Bytes of B in the library's layout: both dimensions rounded up to its largest block, 64.
int64_t matmul_packed_b_bytes(const MatmulProblem& problem);

// Bytes that the library may allocate by itself while run() works, and frees before run() returns.
int64_t matmul_library_bytes(const MatmulProblem& problem);

// The product as the tuning table knows it.
ProductKey product_key(const MatmulProblem& problem, Fp32Products fp32);

// Bytes of the split operands of a product by three TF32 products, each beginning at a multiple of 256; they
// lie in its scratch before the workspace.
int64_t tf32x3_operand_bytes(int64_t elements);
int64_t tf32x3_split_bytes(const MatmulProblem& problem);
// Below so many rows, columns or terms fp32 products are left to the card's plain units: splitting would cost
// more than it saves.
inline constexpr int64_t kTf32x3MinSize = 64;

// A linear layer, x[rows, terms] w[columns, terms]^T + bias, with GELU (linear_gelu.h) or without. `dtype` of
// x, w and y; `sm` is the card's compute capability, 90 for 9.0.
struct LinearProblem {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t terms = 0;
  DType dtype = DType::kBF16;
  int sm = 0;
  int64_t workspace_bytes = kCublasLtWorkspaceBytes;  // for the library, where it takes the product
};
// One with GELU as the catalog is asked about it: op "linear_gelu", dims T, N, K, and w, the type of w.
Problem linear_gelu_catalog_problem(const LinearProblem& problem);
// Whether the kernels of linear_cuda_wgmma.h compute it, in tiles of kLinearTileRows x kLinearTileColumns:
// any rows, columns that fill tiles, and at least kLinearLeastTerms terms, which come kLinearTerms at a time.
bool linear_sizes_fit(const LinearProblem& problem);
inline constexpr int64_t kLinearTileRows = 128;
inline constexpr int64_t kLinearTileColumns = 256;
inline constexpr int64_t kLinearTerms = 256;
inline constexpr int64_t kLinearLeastTerms = 768;
// Whether they are also worth it: the tiles keep the 132 multiprocessors of an H100 or H200 busy for at least
// kLinearLeastBusy of the time. Otherwise cuBLASLt, which has smaller tiles, gains more than the activation's
// own pass costs. On an H200 (linear_cuda_bench) 2048 rows of 4096 columns and 1024 terms with GELU take
// 0.0332 ms so and 0.0356 by the library and bias_gelu; 2304 rows, which leave 0.73 of it busy, 0.0445 and
// 0.0409.
bool linear_takes_own_product(const LinearProblem& problem);
inline constexpr double kLinearLeastBusy = 0.85;

// A layer with a residual and the norm behind it (linear_norm.h) as the catalog is asked about it: op
// "linear_norm", dims as of linear_gelu.
Problem linear_norm_catalog_problem(const LinearProblem& problem);
// Whether linear_norm_cuda_wgmma() computes it: as linear_sizes_fit(), and a row of y is
// kLinearNormTilesAcross tiles at most.
bool linear_norm_sizes_fit(const LinearProblem& problem);
inline constexpr int64_t kLinearNormTilesAcross = 8;
// Bytes by which the blocks of that kernel exchange sums: 8 for each row of a tile.
int64_t linear_norm_sums_bytes(const LinearProblem& problem);
// Whether it is also worth it: blocks that go over the same rows at a time keep the card busy for at least
// kLinearNormLeastBusy of the time.
bool linear_norm_takes_own_product(const LinearProblem& problem);
inline constexpr double kLinearNormLeastBusy = 0.85;

// The product as a linear layer of linear_cuda_wgmma.h, where it is one: 16 bits, A as it is and B
// transposed, sizes that fit, and a bias, an addend or neither.
std::optional<LinearProblem> matmul_as_linear(const MatmulProblem& problem, int sm);
// Whether matmul_cuda_wgmma and linear_add_cuda_wgmma take it by that kernel, not by the library.
bool matmul_takes_own_product(const MatmulProblem& problem, int sm);

// 2 m n k, and n m for the bias.
int64_t matmul_flops(const MatmulProblem& problem);
// Each operand read once and C written once (and read, if it is added to).
int64_t matmul_moved_bytes(const MatmulProblem& problem);

}  // namespace plimsoll
