// The problem of a matrix product and the memory that each implementation needs for it: the host-only part of the
// contract in matmul.h. Nothing here queries a library or the machine, so that a plan is the same everywhere.
// Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/activation_names.h"
#include "base/dtype.h"
#include "base/fused_layer.h"
#include "hardware/cpu_isa.h"
#include "hardware/tuning_table.h"
#include "kernels/catalog/kernel_target.h"

namespace plimsoll {

enum class Transpose : uint8_t { kNo, kYes };
enum class MatmulBias : uint8_t { kNone, kRow };
// The way in which run() writes C: overwrites it; overwrites or adds to it, which costs a second compiled kernel; or adds
// another matrix of the size and type of C (linear_add, on a GPU).
enum class MatmulWrites : uint8_t { kOverwriteOnly, kOverwriteOrAdd, kAddend };
// The layout of B: row-major, or the implementation's own layout, which pack_b() writes.
enum class MatmulOperand : uint8_t { kPlain, kPacked };

// The implementation of a product on a CPU: the library, or, for fp32 operands on AMX tiles, Plimsoll's sums of
// products of their bf16 parts (bf16_parts_amx.h), which keep the same error bound.
enum class CpuProducts : uint8_t { kLibrary, kAmxParts };

// C[m, n] = op(A)[m, k] op(B)[k, n] (+ bias[n]); everything is row-major and, apart from the strides below, dense.
// Requires: m, n, k >= 1.
// The three products of a linear layer y = x W^T + bias with x[T, K] and W[N, K]:
//   y[T, N]   = x W^T + bias      m = T, n = N, k = K, trans_b = kYes, bias = kRow
//   dX[T, K]  = dY W              m = T, n = K, k = N
//   dW[N, K] (+)= dY^T x          m = N, n = K, k = T, trans_a = kYes
// With fp8 operands the transposes are stored, so that each is of the form A B^T: trans_a = kNo, trans_b = kYes.
struct MatmulProblem {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  Transpose trans_a = Transpose::kNo;  // A is stored [k, m]
  Transpose trans_b = Transpose::kNo;  // B is stored [n, k]
  DType a = DType::kF32;               // the type in which products are computed
  DType b = DType::kF32;               // f32 B with bf16 A is first rounded to bf16 (fp32 master weights)
  DType c = DType::kF32;
  DType bias_dtype = DType::kF32;
  MatmulBias bias = MatmulBias::kNone;
  MatmulWrites writes = MatmulWrites::kOverwriteOnly;
  MatmulOperand b_operand = MatmulOperand::kPlain;
  int num_threads = 1;
  CpuIsa isa = CpuIsa::kBaseline;
  CpuProducts cpu_products = CpuProducts::kLibrary;
  int64_t workspace_bytes = kCublasLtWorkspaceBytes;  // workspace of the library on a GPU
  // The number of elements from the beginning of a stored row to the next; 0: rows are adjacent. Only cuBLASLt supports
  // other strides. Rows that begin at a multiple of 16 bytes allow it to use its fast algorithms.
  int64_t a_stride = 0;
  int64_t c_stride = 0;
};

// Returns true if partial sums of fp8 products are not promoted to fp32 now and then. This is faster and less accurate, and used
// in the forward pass only, where both operands are e4m3.
constexpr bool uses_fast_accumulation(const MatmulProblem& problem) {
  return problem.a == DType::kE4M3 && problem.b == DType::kE4M3;
}

// Returns the implementation that the catalog prefers for the problem on a CPU.
CpuProducts preferred_cpu_products(const MatmulProblem& problem);
// The smallest number of rows, columns and terms for which kAmxParts is used.
inline constexpr int64_t kAmxPartsMinSize = 64;

// Returns true if a CPU computes the product as dot products of the rows of A and of B (matmul_cpu_few_rows.cc), whichever implementation the
// catalog names: a plan names one implementation for all its buckets, and the smallest of them are those of a decoding step. A product of few
// rows is bound by the bytes of B, which the other implementations split or pack first. GPT-2 in fp32 on two cores of a Xeon with AMX reads
// 471.7 MiB per token: bench/results/amx-2026-11-26.md.
bool matmul_has_few_rows(const MatmulProblem& problem);
inline constexpr int64_t kMatmulFewRows = 8;

// The blocks in which matmul_cpu_amx computes a product. None of these numbers grows when the product shrinks.
struct AmxBlocks {
  int64_t rows = 0;     // rows of A that a thread splits at a time
  int64_t columns = 0;  // columns of B that all threads split at a time
  int64_t terms = 0;    // terms of A and B that are split at a time
  int64_t a_bytes = 0;  // bytes of parts of A per thread
  int64_t b_bytes = 0;  // bytes of parts of B
};
AmxBlocks matmul_amx_blocks(const MatmulProblem& problem);

// Returns the bytes of scratch. For kAmxParts these are the bytes of the parts. For kLibrary they are a budget:
// matmul_packed_b_bytes if run() packs B, and a workspace for the library. prepare_matmul_cpu() verifies that the
// library keeps to the budget, and chooses another algorithm if it does not. The reference needs no scratch.
int64_t matmul_scratch_bytes(const MatmulProblem& problem);

// Returns true if run() first copies a row-major B into the library's layout. This costs more than it saves if C has
// few rows: it pays from 64 rows on, and from 768 rows on if B is transposed and f32. Measured with oneDNN 2.6.3 on a
// Xeon (family 6, model 207, AVX-512, 2 threads) over the layers of MiniLM and BERT-base: without packing, a
// row-major B of 3072 columns runs at 45-50 instead of 150 GFLOP/s per core, because its rows map to few sets of the
// cache.
bool matmul_packs_b(const MatmulProblem& problem);
inline constexpr int64_t kMatmulMinRowsToPack = 64;
inline constexpr int64_t kMatmulMinRowsToPackTransposed = 768;

// The memory that the CPU's library holds outside the arena. It depends on the generation of the library that the program
// is built with (oneDNN 2 or 3). Layers share compiled products; width, depth and number of threads make no difference.
struct MatmulLibraryMemory {
  int64_t at_start_bytes =
      0;  // pages of the library that a first product touches, beyond those of oneDNN 2.6
  int64_t per_bucket_bytes = 0;  // code and tables compiled for the products of one bucket
};
MatmulLibraryMemory matmul_library_memory();

// Returns the bytes of B in the library's layout, with both dimensions rounded up to its largest block, 64.
int64_t matmul_packed_b_bytes(const MatmulProblem& problem);

// Returns the bytes that the library may allocate by itself during run(), and frees before run() returns.
int64_t matmul_library_bytes(const MatmulProblem& problem);

// Returns the key of the product in the tuning table.
ProductKey product_key(const MatmulProblem& problem, Fp32Products fp32);

// Returns the bytes of the split operands of a product that is computed as three TF32 products. Each operand begins at a
// multiple of 256 bytes. The scratch contains the operands first and then the workspace.
int64_t tf32x3_operand_bytes(int64_t elements);
int64_t tf32x3_split_bytes(const MatmulProblem& problem);
// The smallest number of rows, columns and terms for which splitting is faster than the card's fp32 units.
inline constexpr int64_t kTf32x3MinSize = 64;

// A linear layer, x[rows, terms] w[columns, terms]^T + bias, as the kernels of linear_cuda_wgmma.h take it. `dtype` is the
// type of x, w and y; `sm` is the card's compute capability, 90 for 9.0.
struct LinearProblem {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t terms = 0;
  DType dtype = DType::kBF16;
  int sm = 0;
  int64_t workspace_bytes = kCublasLtWorkspaceBytes;  // workspace of the library, if it computes the product
};
// Returns the layer whose product x w^T is `product`, for the ops linear_gelu, linear_norm and linear_add.
LinearProblem linear_layer(const MatmulProblem& product, int sm);
// Returns true if the kernels of linear_cuda_wgmma.h can compute the layer. They work in tiles of kLinearTileRows x
// kLinearTileColumns and take any number of rows, columns that fill tiles, and at least kLinearLeastTerms terms in
// multiples of kLinearTerms.
bool linear_sizes_fit(const LinearProblem& problem);
inline constexpr int64_t kLinearTileRows = 128;
inline constexpr int64_t kLinearTileColumns = 256;
inline constexpr int64_t kLinearTerms = 256;
inline constexpr int64_t kLinearLeastTerms = 768;
// Returns true if the kernels of linear_cuda_wgmma.h can compute the layer and are faster than the library: their
// tiles keep the 132 multiprocessors of an H100 or H200 busy for at least kLinearLeastBusy of the time. Otherwise
// cuBLASLt, which has smaller tiles, saves more time than a separate pass for the activation costs. On an H200
// (linear_cuda_bench) 2048 rows of 4096 columns and 1024 terms with GELU take 0.0332 ms by these kernels and 0.0356
// ms by the library and bias_gelu; 2304 rows, which keep 0.73 of the card busy, take 0.0445 ms and 0.0409 ms.
bool linear_takes_own_product(const LinearProblem& problem);
inline constexpr double kLinearLeastBusy = 0.85;

// Returns true if linear_norm_cuda_wgmma() can compute the layer followed by a residual and a norm (linear_norm.h):
// the sizes fit as for linear_sizes_fit(), and a row of y is at most kLinearNormTilesAcross tiles wide.
bool linear_norm_sizes_fit(const LinearProblem& problem);
inline constexpr int64_t kLinearNormTilesAcross = 8;
// Returns the bytes of the sums that the blocks of linear_norm_cuda_wgmma() exchange: 8 per row of a tile.
int64_t linear_norm_sums_bytes(const LinearProblem& problem);
// Returns true if linear_norm_cuda_wgmma() can compute the layer and is faster than the library: the blocks that work
// on the same rows at a time keep the card busy for at least kLinearNormLeastBusy of the time.
bool linear_norm_takes_own_product(const LinearProblem& problem);
inline constexpr double kLinearNormLeastBusy = 0.85;

// Returns the product as a linear layer of linear_cuda_wgmma.h, or nothing if it is not one. It is one if it has 16-bit
// operands, A as it is and B transposed, sizes that fit, and a bias, an addend or neither.
std::optional<LinearProblem> matmul_as_linear(const MatmulProblem& problem, int sm);
// Returns true if matmul_cuda_wgmma and linear_add_cuda_wgmma compute the product with Plimsoll's own kernel
// (linear_cuda_wgmma.h) and not with the library.
bool matmul_takes_own_product(const MatmulProblem& problem, int sm);

// Returns true if linear_few_rows_cuda.cu can compute the product: a layer x w^T of at most kCudaFewRows rows and a multiple of
// kCudaFewRowsTerms terms in 16 bits, with or without a bias, that overwrites its output.
bool linear_few_rows_fit(const MatmulProblem& problem);
inline constexpr int64_t kCudaFewRows = 32;
inline constexpr int64_t kCudaFewRowsTerms = 32;
// Returns true if that kernel computes the product on this card, whatever row of the catalog was chosen for the largest number
// of rows. It is measured on compute capability 9.0.
bool matmul_takes_few_rows_cuda(const MatmulProblem& problem, int sm);

// A norm, the linear layer that reads it, and what follows the layer (norm_linear.h).
struct NormLinearProblem {
  MatmulProblem product;  // h w^T, with the bias
  NormKind norm = NormKind::kLayer;
  LayerEnd end = LayerEnd::kProduct;
  Activation activation = Activation::kGelu;  // f, unless the end is kProduct
  int64_t outputs() const { return end == LayerEnd::kGlu ? product.n / 2 : product.n; }
};
// Returns true if linear_few_rows_cuda.cu computes the layer with its norm in one launch: its product is one of few rows, of which a
// block normalizes at most kNormLinearRows. More rows take longer to normalize in each block than another launch takes: on an H200 a
// decoding step of Llama-3.2-1B takes 1.01 ms instead of 1.05 with one row, and 1.23 ms instead of 1.16 with eight.
bool norm_linear_takes_few_rows_cuda(const NormLinearProblem& problem, int sm);
inline constexpr int64_t kNormLinearRows = 2;
inline constexpr int64_t kNormLinearTerms = 8192;
// Returns the bytes of the values between the kernels of the layer if these run one after the other: h and, for the end kGlu, z, which
// begins after norm_linear_h_bytes(). Both are multiples of 256.
int64_t norm_linear_h_bytes(const NormLinearProblem& problem);
int64_t norm_linear_values_bytes(const NormLinearProblem& problem);

// Returns 2 m n k, plus n m for the bias.
int64_t matmul_flops(const MatmulProblem& problem);

struct Problem;
namespace catalog_rows {
Support matmul_cpu_amx_support(const MatmulProblem& problem);
Support matmul_cpu_onednn_support(const MatmulProblem& problem);
Support matmul_cuda_tf32x3_support(const Problem& asked, const MatmulProblem& problem);
Support matmul_cuda_wgmma_support(const Problem& asked, const MatmulProblem& problem);
Support matmul_cuda_cublaslt_support(const Problem& asked, const MatmulProblem& problem);
Support matmul_ref_support(const MatmulProblem& problem);
Support linear_cuda_support(const Problem& asked, const MatmulProblem& problem);
Support linear_norm_cuda_support(const Problem& asked, const MatmulProblem& problem);
Support linear_add_cuda_cublaslt_support(const Problem& asked, const MatmulProblem& problem);
Support scaled_matmul_cuda_cublaslt_support(const Problem& asked, const MatmulProblem& problem);
int64_t matmul_cpu_amx_scratch(const MatmulProblem& problem);
int64_t matmul_cpu_onednn_scratch(const MatmulProblem& problem);
int64_t matmul_cpu_onednn_library(const MatmulProblem& problem);
int64_t matmul_cuda_tf32x3_scratch(const MatmulProblem& problem);
int64_t cublaslt_workspace(const MatmulProblem& problem);
int64_t linear_norm_cuda_scratch(const MatmulProblem& problem);
Support norm_linear_cuda_support(const Problem& asked, const NormLinearProblem& problem);
int64_t norm_linear_cuda_scratch(const NormLinearProblem& problem);
}  // namespace catalog_rows

}  // namespace plimsoll
