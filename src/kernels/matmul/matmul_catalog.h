// The kernel problem of a matrix product and the memory that each implementation needs for it: the host-only part of the contract in
// matmul.h. Nothing here queries a library or the machine, so that a plan is the same everywhere. Thread-safe: pure functions.
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
// How run() writes C: it overwrites it; it overwrites or adds to it, which costs a second compiled kernel; or it adds another matrix of the
// size and type of C (linear_add, on a GPU).
enum class MatmulWrites : uint8_t { kOverwriteOnly, kOverwriteOrAdd, kAddend };
// The layout of B: row-major, or the implementation's own layout, which pack_b() writes.
enum class MatmulOperand : uint8_t { kPlain, kPacked };

// The implementation of a matrix product on a CPU: the library, or, for fp32 operands on AMX tiles, Plimsoll's sums of products of their
// bf16 parts (bf16_parts_amx.h), which keep the same error bound.
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
  DType a = DType::kF32;               // type of A, in which products are computed
  DType b = DType::kF32;               // f32 B with bf16 A is first rounded to bf16 (fp32 master weights)
  DType c = DType::kF32;
  DType bias_dtype = DType::kF32;
  MatmulBias bias = MatmulBias::kNone;
  MatmulWrites writes = MatmulWrites::kOverwriteOnly;
  MatmulOperand b_operand = MatmulOperand::kPlain;
  int num_threads = 1;
  CpuIsa isa = CpuIsa::kBaseline;
  CpuProducts cpu_products = CpuProducts::kLibrary;
  int64_t workspace_bytes = kCublasLtWorkspaceBytes;  // workspace of cuBLASLt on a GPU
  // The distance in elements between the beginnings of two stored rows; 0: rows are adjacent. Only cuBLASLt supports other strides. Rows
  // that begin at multiples of 16 bytes allow it to use its fast algorithms.
  int64_t a_stride = 0;
  int64_t c_stride = 0;
};

// Returns true if the partial sums of fp8 products stay in the tensor cores, instead of being added in fp32 after every few terms. This is
// faster and less accurate, and is used only in the forward pass, where both operands are e4m3.
constexpr bool uses_fast_accumulation(const MatmulProblem& problem) {
  return problem.a == DType::kE4M3 && problem.b == DType::kE4M3;
}

// Returns the implementation that the catalog prefers for the problem on a CPU.
CpuProducts preferred_cpu_products(const MatmulProblem& problem);
// The smallest number of rows, columns and terms for which kAmxParts is used.
inline constexpr int64_t kAmxPartsMinSize = 64;

// Returns true if a CPU computes the matrix product as dot products of the rows of A and of B (matmul_cpu_few_rows.cc), whichever
// implementation the catalog selects: a plan uses one implementation for all its buckets, and the smallest of them have the few rows of a
// decoding step. The time of a product of few rows is that of reading B, which the other implementations split or pack first. GPT-2 in fp32
// on two cores of a Xeon with AMX reads 471.7 MiB per token: bench/results/amx-2026-11-26.md.
bool matmul_has_few_rows(const MatmulProblem& problem);
inline constexpr int64_t kMatmulFewRows = 8;

// The blocks into which matmul_cpu_amx divides a matrix product. None of these numbers grows when the product becomes smaller.
struct AmxBlocks {
  int64_t rows = 0;     // number of rows of A that a thread splits into bf16 parts at a time
  int64_t columns = 0;  // number of columns of B that all threads split into bf16 parts at a time
  int64_t terms = 0;    // number of columns of A, which are rows of B, that are split at a time
  int64_t a_bytes = 0;  // bytes of the bf16 parts of A per thread
  int64_t b_bytes = 0;  // bytes of the bf16 parts of B
};
AmxBlocks matmul_amx_blocks(const MatmulProblem& problem);

// Returns the bytes of scratch memory. For kAmxParts these are the bytes of the bf16 parts. For kLibrary they are a budget:
// matmul_packed_b_bytes if run() packs B, and a workspace for the library. prepare_matmul_cpu() verifies that the library does not exceed
// the budget, and chooses another algorithm if it does. The reference needs no scratch memory.
int64_t matmul_scratch_bytes(const MatmulProblem& problem);

// Returns true if run() first copies a row-major B into the library's layout. This is faster only from 64 rows of C on, and from 768 rows
// on if B is transposed and f32. Measured with oneDNN 2.6.3 on a Xeon (family 6, model 207, AVX-512, 2 threads) over the layers of MiniLM
// and BERT-base: without packing, a row-major B of 3072 columns runs at 45-50 instead of 150 GFLOP/s per core, because its rows map to few
// sets of the cache.
bool matmul_packs_b(const MatmulProblem& problem);
inline constexpr int64_t kMatmulMinRowsToPack = 64;
inline constexpr int64_t kMatmulMinRowsToPackTransposed = 768;

// The memory that oneDNN holds outside the arena on a CPU. It depends on the major version with which the program is built (oneDNN 2 or 3).
// Layers share compiled products; width, depth and number of threads make no difference.
struct MatmulLibraryMemory {
  // The bytes of the library's pages that the first product touches, beyond those that oneDNN 2.6 touches.
  int64_t at_start_bytes = 0;
  int64_t per_bucket_bytes = 0;  // code and tables compiled for the products of one bucket
};
MatmulLibraryMemory matmul_library_memory();

// Returns the bytes of B in the library's layout, with both dimensions rounded up to its largest block, 64.
int64_t matmul_packed_b_bytes(const MatmulProblem& problem);

// Returns the bytes that the library may allocate by itself during run(), and frees before run() returns.
int64_t matmul_library_bytes(const MatmulProblem& problem);

// Returns the key of the matrix product in the tuning table.
ProductKey product_key(const MatmulProblem& problem, Fp32Products fp32);

// Return the bytes of the split operands of a matrix product that is computed as three TF32 products. Each operand begins at a multiple of
// 256 bytes. The scratch memory contains the operands first and then the workspace.
int64_t tf32x3_operand_bytes(int64_t elements);
int64_t tf32x3_split_bytes(const MatmulProblem& problem);
// The smallest number of rows, columns and terms for which splitting is faster than the GPU's fp32 units.
inline constexpr int64_t kTf32x3MinSize = 64;

// A linear layer, x[rows, terms] w[columns, terms]^T + bias, as the problem of the kernels of linear_cuda_wgmma.h. `dtype` is the type of
// x, w and y; `sm` is the GPU's compute capability, 90 for 9.0.
struct LinearProblem {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t terms = 0;
  DType dtype = DType::kBF16;
  int sm = 0;
  int64_t workspace_bytes = kCublasLtWorkspaceBytes;  // workspace of cuBLASLt, if it computes the product
};
// Returns the layer whose matrix product x w^T is `product`, for the ops linear_gelu, linear_norm and linear_add.
LinearProblem linear_layer(const MatmulProblem& product, int sm);
// Returns true if the kernels of linear_cuda_wgmma.h can compute the layer. They compute tiles of kLinearTileRows x kLinearTileColumns and
// support any number of rows, multiples of kLinearTileColumns columns, and multiples of kLinearTerms terms from kLinearLeastTerms on.
bool linear_sizes_fit(const LinearProblem& problem);
inline constexpr int64_t kLinearTileRows = 128;
inline constexpr int64_t kLinearTileColumns = 256;
inline constexpr int64_t kLinearTerms = 256;
inline constexpr int64_t kLinearLeastTerms = 768;
// Returns true if the kernels of linear_cuda_wgmma.h can compute the layer and are faster than the library: their tiles keep the 132
// multiprocessors of an H100 or H200 busy for at least kLinearLeastBusy of the time. Otherwise cuBLASLt, which has smaller tiles, saves
// more time than the separate pass for the activation costs. On an H200 (linear_cuda_bench) 2048 rows of 4096 columns and 1024 terms with
// GELU take 0.0332 ms with these kernels and 0.0356 ms with the library and bias_gelu; 2304 rows, which keep the multiprocessors busy for
// 0.73 of the time, take 0.0445 ms and 0.0409 ms.
bool linear_takes_own_product(const LinearProblem& problem);
inline constexpr double kLinearLeastBusy = 0.85;

// Returns true if linear_norm_cuda_wgmma() can compute the layer followed by a residual and a norm (linear_norm.h):
// the sizes fit as for linear_sizes_fit(), and a row of y is at most kLinearNormTilesAcross tiles wide.
bool linear_norm_sizes_fit(const LinearProblem& problem);
inline constexpr int64_t kLinearNormTilesAcross = 8;
// Returns the bytes of the sums that the blocks of linear_norm_cuda_wgmma() exchange: 8 per row of a tile.
int64_t linear_norm_sums_bytes(const LinearProblem& problem);
// Returns true if linear_norm_cuda_wgmma() can compute the layer and is faster than the library: the groups of blocks that compute the same
// rows keep the multiprocessors busy for at least kLinearNormLeastBusy of the time.
bool linear_norm_takes_own_product(const LinearProblem& problem);
inline constexpr double kLinearNormLeastBusy = 0.85;

// Returns the matrix product as a linear layer of linear_cuda_wgmma.h, or nothing if these kernels do not support it. They support 16-bit
// operands, A not transposed and B transposed, sizes for which linear_sizes_fit() holds, and a bias, an addend or neither.
std::optional<LinearProblem> matmul_as_linear(const MatmulProblem& problem, int sm);
// Returns true if matmul_cuda_wgmma and linear_add_cuda_wgmma compute the product with Plimsoll's own kernel
// (linear_cuda_wgmma.h) and not with the library.
bool matmul_takes_own_product(const MatmulProblem& problem, int sm);

// Returns true if linear_few_rows_cuda.cu can compute the product: a layer x w^T of at most kCudaFewRows rows and a multiple of
// kCudaFewRowsTerms terms in 16 bits, with or without a bias, that overwrites its output.
bool linear_few_rows_fit(const MatmulProblem& problem);
inline constexpr int64_t kCudaFewRows = 32;
inline constexpr int64_t kCudaFewRowsTerms = 32;
// Returns true if linear_few_rows_cuda.cu computes the matrix product on this GPU, whichever catalog row was selected for the largest
// number of rows: if the product has few rows and the library was not measured to be faster. Both were measured on compute capability 9.0.
bool matmul_takes_few_rows_cuda(const MatmulProblem& problem, int sm);

// The kernel problem of a norm, the linear layer that reads it, and the activation after the layer (norm_linear.h).
struct NormLinearProblem {
  MatmulProblem product;  // h w^T, with the bias
  NormKind norm = NormKind::kLayer;
  LayerEnd end = LayerEnd::kProduct;
  Activation activation = Activation::kGelu;  // f of norm_linear.h; unused if `end` is kProduct
  int64_t outputs() const { return end == LayerEnd::kGlu ? product.n / 2 : product.n; }
};
// Returns true if linear_few_rows_cuda.cu computes the layer with its norm in one launch: the layer has few rows, of which each block
// normalizes at most kNormLinearRows. With more rows, normalizing them in each block takes longer than a separate launch: on an H200 a
// decoding step of Llama-3.2-1B takes 1.01 ms instead of 1.05 with one row, and 1.23 ms instead of 1.16 with eight.
bool norm_linear_takes_few_rows_cuda(const NormLinearProblem& problem, int sm);
inline constexpr int64_t kNormLinearRows = 2;
inline constexpr int64_t kNormLinearTerms = 8192;
// Return the bytes of the values that the kernels of the layer pass on if they run one after the other: h and, if `end` is kGlu, z, which
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
