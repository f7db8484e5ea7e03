// The sizes, types and layout by which an implementation of a matrix product is selected (the "kernel problem"), and the memory that each
// implementation needs. matmul.h describes the implementations. No function queries a library or the machine, so that a plan is the same on
// every machine. Thread-safe: pure functions.
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
// States how run() writes C. kOverwriteOnly: it overwrites C. kOverwriteOrAdd: each call overwrites C or adds to it, which costs a second
// compiled kernel. kAddend: it writes the sum of the product and another matrix of the size and type of C (the op linear_add, on a GPU).
enum class MatmulWrites : uint8_t { kOverwriteOnly, kOverwriteOrAdd, kAddend };
// States the layout of B. kPlain: row-major. kPacked: the implementation's own layout, which pack_b() writes.
enum class MatmulOperand : uint8_t { kPlain, kPacked };

// The implementation of a matrix product on a CPU. kLibrary: oneDNN. kAmxParts: Plimsoll's own product of fp32 matrices on AMX tiles, which
// multiplies bf16 parts of the numbers and keeps the error bound of fp32 (bf16_parts_amx.h).
enum class CpuProducts : uint8_t { kLibrary, kAmxParts };

// C[m, n] = op(A)[m, k] op(B)[k, n] (+ bias[n]); everything is row-major and, apart from the strides below, dense.
// Requires: m, n, k >= 1.
// The three products of a linear layer y = x W^T + bias with x[T, K] and W[N, K]:
//   y[T, N]   = x W^T + bias      m = T, n = N, k = K, trans_b = kYes, bias = kRow
//   dX[T, K]  = dY W              m = T, n = K, k = N
//   dW[N, K] (+)= dY^T x          m = N, n = K, k = T, trans_a = kYes
// With fp8 operands, x, W and dY are also stored transposed, so that each of the three products has the form A B^T: trans_a = kNo, trans_b
// = kYes.
struct MatmulProblem {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  Transpose trans_a = Transpose::kNo;  // kYes: A is stored as [k, m]
  Transpose trans_b = Transpose::kNo;  // kYes: B is stored as [n, k]
  DType a = DType::kF32;               // type of A, and of the multiplications
  DType b = DType::kF32;               // an f32 B (fp32 master weights) is rounded to bf16 if A is bf16
  DType c = DType::kF32;
  DType bias_dtype = DType::kF32;
  MatmulBias bias = MatmulBias::kNone;
  MatmulWrites writes = MatmulWrites::kOverwriteOnly;
  MatmulOperand b_operand = MatmulOperand::kPlain;
  int num_threads = 1;
  CpuIsa isa = CpuIsa::kBaseline;
  CpuProducts cpu_products = CpuProducts::kLibrary;
  int64_t workspace_bytes = kCublasLtWorkspaceBytes;  // bytes that cuBLASLt may use on a GPU
  // The distances in elements between the beginnings of two stored rows of A and of C. 0 means that rows are adjacent; only cuBLASLt
  // supports other distances. With rows that begin at multiples of 16 bytes it can use its fast algorithms.
  int64_t a_stride = 0;
  int64_t c_stride = 0;
};

// Returns true if the partial sums of fp8 products stay in the tensor cores until the end, instead of being added in fp32 after every few
// terms. This is faster but less accurate. It is used only in the forward pass, whose operands are both e4m3.
constexpr bool uses_fast_accumulation(const MatmulProblem& problem) {
  return problem.a == DType::kE4M3 && problem.b == DType::kE4M3;
}

// Returns the CPU implementation that the kernel catalog selects for the problem.
CpuProducts preferred_cpu_products(const MatmulProblem& problem);
// kAmxParts is used only if the numbers of rows, columns and terms are at least this.
inline constexpr int64_t kAmxPartsMinSize = 64;

// Returns true if a CPU computes the matrix product as dot products of the rows of A and of B (matmul_cpu_few_rows.cc). The catalog selects
// one implementation for all numbers of tokens; products of few rows, as in a decoding step, use the dot products instead. Such a product
// takes as long as reading B once, and other implementations would also have to split or pack B. Measurements with GPT-2 in fp32, which
// reads 471.7 MiB per token, on two cores of a Xeon with AMX are in bench/results/amx-2026-11-26.md.
bool matmul_has_few_rows(const MatmulProblem& problem);
inline constexpr int64_t kMatmulFewRows = 8;

// The sizes of the blocks into which matmul_cpu_amx divides a matrix product. A smaller product has no larger blocks, so the scratch memory
// for the largest number of rows is sufficient for every smaller number.
struct AmxBlocks {
  int64_t rows = 0;     // number of rows of A that a thread splits into bf16 parts at a time
  int64_t columns = 0;  // number of columns of B that all threads together split at a time
  int64_t terms = 0;    // number of terms of these rows and columns that are split at a time
  int64_t a_bytes = 0;  // bytes of the bf16 parts of the rows of A, per thread
  int64_t b_bytes = 0;  // bytes of the bf16 parts of the columns of B, for all threads
};
AmxBlocks matmul_amx_blocks(const MatmulProblem& problem);

// Returns the bytes of scratch memory. With kAmxParts it contains the bf16 parts. With kLibrary the bytes are a budget:
// matmul_packed_b_bytes if run() packs B, and a workspace for oneDNN. prepare_matmul_cpu() verifies that oneDNN does not exceed the budget,
// and chooses another of its algorithms if it does. The reference needs no scratch memory.
int64_t matmul_scratch_bytes(const MatmulProblem& problem);

// Returns true if run() first copies ("packs") a row-major B into oneDNN's layout. It does so if B must be converted to the type of A, or
// if packing is faster: if B has at least 16 rows and columns and C has at least 64 rows, or 768 rows if B is transposed and f32. Measured
// with oneDNN 2.6.3 on a Xeon (family 6, model 207, AVX-512, 2 threads) over the layers of MiniLM and BERT-base: without packing, a
// row-major B of 3072 columns runs at 45-50 instead of 150 GFLOP/s per core, because its rows map to few sets of the cache.
bool matmul_packs_b(const MatmulProblem& problem);
inline constexpr int64_t kMatmulMinRowsToPack = 64;
inline constexpr int64_t kMatmulMinRowsToPackTransposed = 768;

// The memory that oneDNN allocates on a CPU in addition to the arena, the block of memory that contains the tensors of a run. It depends on
// the major version of oneDNN (2 or 3) with which the program is built. Layers of equal shape share compiled products; width, depth and
// number of threads make no difference.
struct MatmulLibraryMemory {
  // The additional bytes of code and data that the first product of oneDNN loads, compared with oneDNN 2.6.
  int64_t at_start_bytes = 0;
  int64_t per_bucket_bytes = 0;  // code and tables that oneDNN compiles for each prepared number of tokens
};
MatmulLibraryMemory matmul_library_memory();

// Returns the bytes of B in oneDNN's layout, for which both dimensions are rounded up to 64, the size of its largest block.
int64_t matmul_packed_b_bytes(const MatmulProblem& problem);

// Returns the bytes that oneDNN may allocate by itself during run(). It frees them before run() returns.
int64_t matmul_library_bytes(const MatmulProblem& problem);

// Returns the key of this matrix product in the tuning table, which contains the cuBLASLt algorithm that was measured to be the fastest for
// each product (hardware/tuning_table.h).
ProductKey product_key(const MatmulProblem& problem, Fp32Products fp32);

// Return the bytes of the operands of a product that is computed as three TF32 products, after they were split into parts (split_tf32.h).
// Each operand begins at a multiple of 256 bytes. The scratch memory contains these operands first and then the workspace of cuBLASLt.
int64_t tf32x3_operand_bytes(int64_t elements);
int64_t tf32x3_split_bytes(const MatmulProblem& problem);
// Three TF32 products are used only if the numbers of rows, columns and terms are at least this. For smaller products the GPU's fp32 units
// are faster.
inline constexpr int64_t kTf32x3MinSize = 64;

// The sizes and type of a linear layer, x[rows, terms] w[columns, terms]^T + bias, for the kernels of linear_cuda_wgmma.h. `dtype` is the
// type of x, w and y; `sm` is the GPU's compute capability, 90 for 9.0.
struct LinearProblem {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t terms = 0;
  DType dtype = DType::kBF16;
  int sm = 0;
  int64_t workspace_bytes = kCublasLtWorkspaceBytes;  // size of cuBLASLt's workspace, if it is used
};
// Converts a matrix product x w^T, by which the ops linear_gelu, linear_norm and linear_add describe their layer, to a LinearProblem.
LinearProblem linear_layer(const MatmulProblem& product, int sm);
// Returns true if the kernels of linear_cuda_wgmma.h can compute the layer. They compute tiles of kLinearTileRows x kLinearTileColumns and
// support any number of rows, numbers of columns that are multiples of kLinearTileColumns, and numbers of terms that are multiples of
// kLinearTerms and at least kLinearLeastTerms.
bool linear_sizes_fit(const LinearProblem& problem);
inline constexpr int64_t kLinearTileRows = 128;
inline constexpr int64_t kLinearTileColumns = 256;
inline constexpr int64_t kLinearTerms = 256;
inline constexpr int64_t kLinearLeastTerms = 768;
// Returns true if the kernels of linear_cuda_wgmma.h can compute the layer and are faster than cuBLASLt, which is assumed if their tiles
// keep the 132 multiprocessors of an H100 or H200 busy for at least kLinearLeastBusy of the time. Otherwise cuBLASLt with its smaller tiles
// is faster, even though the activation then needs a separate kernel. On an H200 (linear_cuda_bench) 2048 rows of 4096 columns and 1024
// terms with GELU take 0.0332 ms with these kernels and 0.0356 ms with cuBLASLt and bias_gelu; 2304 rows, which keep the multiprocessors
// busy for 0.73 of the time, take 0.0445 ms and 0.0409 ms.
bool linear_takes_own_product(const LinearProblem& problem);
inline constexpr double kLinearLeastBusy = 0.85;

// Returns true if linear_norm_cuda_wgmma() can compute the layer followed by a residual and a norm (linear_norm.h): linear_sizes_fit()
// holds, and a row of y consists of at most kLinearNormTilesAcross tiles.
bool linear_norm_sizes_fit(const LinearProblem& problem);
inline constexpr int64_t kLinearNormTilesAcross = 8;
// Returns the bytes of the sums that the thread blocks of linear_norm_cuda_wgmma() exchange: 8 bytes per row of each tile.
int64_t linear_norm_sums_bytes(const LinearProblem& problem);
// Returns true if linear_norm_cuda_wgmma() can compute the layer and is faster than separate kernels, which is assumed if the groups of
// thread blocks that compute the same rows keep the multiprocessors busy for at least kLinearNormLeastBusy of the time.
bool linear_norm_takes_own_product(const LinearProblem& problem);
inline constexpr double kLinearNormLeastBusy = 0.85;

// Returns the matrix product as a linear layer of linear_cuda_wgmma.h, or nothing if these kernels do not support it. They support 16-bit
// operands, A that is not transposed, B that is transposed, sizes for which linear_sizes_fit() holds, and a bias, an addend or neither.
std::optional<LinearProblem> matmul_as_linear(const MatmulProblem& problem, int sm);
// Returns true if the implementations matmul_cuda_wgmma and linear_add_cuda_wgmma use Plimsoll's own kernel (linear_cuda_wgmma.h) for this
// product, false if they call cuBLASLt.
bool matmul_takes_own_product(const MatmulProblem& problem, int sm);

// Returns true if linear_few_rows_cuda.cu can compute the product: a layer x w^T with bf16 or fp16 operands, at most
// kCudaFewRows rows of x, and a number of elements per row of x (terms of each sum) that is a multiple of kCudaFewRowsTerms. The layer may
// have a bias and an addend, but must not add to its output.
bool linear_few_rows_fit(const MatmulProblem& problem);
inline constexpr int64_t kCudaFewRows = 32;
inline constexpr int64_t kCudaFewRowsTerms = 32;
// Returns true if linear_few_rows_cuda.cu computes the matrix product on this GPU: the product has few rows, and cuBLASLt was not faster in
// measurements (on compute capability 9.0). This overrides the implementation that was selected for the largest number of rows.
bool matmul_takes_few_rows_cuda(const MatmulProblem& problem, int sm);

// The sizes, types and operations of a norm, the linear layer that reads its result, and the activation after the layer (norm_linear.h).
struct NormLinearProblem {
  MatmulProblem product;  // the matrix product h w^T, including the bias
  NormKind norm = NormKind::kLayer;
  LayerEnd end = LayerEnd::kProduct;
  Activation activation = Activation::kGelu;  // the function f of norm_linear.h; unused if `end` is kProduct
  int64_t outputs() const { return end == LayerEnd::kGlu ? product.n / 2 : product.n; }
};
// Returns true if linear_few_rows_cuda.cu computes the layer together with the norm before it in one launch. Every thread block then
// normalizes all rows of x, so this is used only for at most kNormLinearRows rows. With more rows, normalizing them in every block takes
// longer than a separate launch: on an H200 a decoding step of Llama-3.2-1B takes 1.01 ms instead of 1.05 ms with one row, but 1.23 ms
// instead of 1.16 ms with eight rows.
bool norm_linear_takes_few_rows_cuda(const NormLinearProblem& problem, int sm);
inline constexpr int64_t kNormLinearRows = 2;
inline constexpr int64_t kNormLinearTerms = 8192;
// Return the bytes of intermediate results, if norm, product and activation are separate kernels (norm_linear.h): those of h alone, and
// those of h and, if `end` is kGlu, of z, which is stored after h. Both sizes are multiples of 256.
int64_t norm_linear_h_bytes(const NormLinearProblem& problem);
int64_t norm_linear_values_bytes(const NormLinearProblem& problem);

// Returns the number of floating-point operations: 2 m n k, plus m n for a bias.
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
