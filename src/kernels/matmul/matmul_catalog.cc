#include "kernels/matmul/matmul_catalog.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "hardware/gpu_target.h"
#include "kernels/catalog/catalog.h"

namespace plimsoll {
namespace {

constexpr int64_t kKiB = 1024;
// The largest number of terms that one launch of the kernel that splits operands into TF32 parts can process: kTf32x3MaxTerms of
// split_tf32.h.
constexpr int64_t kMaxSplitTerms = int64_t{65535} * 64;

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

bool is_emulated_bf16(const MatmulProblem& problem) {
  return problem.a == DType::kBF16 && !has_bf16_products(problem.isa);
}

// Returns an upper bound for the workspace that oneDNN needs. Its components are known from oneDNN's source (2.6.3, brgemm_matmul_utils.cc:
// buffers A and C of a thread) and from the unit test, which tries many shapes and numbers of threads. All sizes are rounded up generously.
int64_t workspace_bytes(const MatmulProblem& problem) {
  // The first 64 KiB are for descriptors of blocks and for AMX tiles.
  int64_t per_thread = 64 * kKiB;
  // Each thread copies a block of a transposed or bf16 A into oneDNN's layout: up to 256 rows of 528 numbers or, with AMX, a block that
  // fits into a part of the L2 cache.
  const bool copies_a = problem.trans_a == Transpose::kYes || problem.a == DType::kBF16;
  if (copies_a) per_thread += kMiB;
  // Copies of strips of B if B is not packed: each thread copies 64 columns of up to 2048 terms into oneDNN's layout.
  const bool copies_b = problem.b_operand == MatmulOperand::kPlain;
  if (copies_b) per_thread += 512 * kKiB;
  // Each thread stores a block of C in fp32 if C itself cannot store the partial sums: up to 256 rows of 16 blocks of 64 columns.
  const bool buffers_c = problem.writes == MatmulWrites::kOverwriteOrAdd || problem.c != DType::kF32;
  if (buffers_c) per_thread += kMiB;
  int64_t bytes = problem.num_threads * per_thread;
  // If C is small but its sums have many terms, oneDNN divides the terms among threads. Each thread then sums into its own copy of C. The
  // copies together take up to 16 MiB.
  const bool few_blocks = problem.n < 64 * problem.num_threads || problem.num_threads >= 16;
  if (problem.k >= 1024 && few_blocks) {
    bytes += std::min(16 * kMiB, problem.num_threads * round_up(problem.m, 64) * round_up(problem.n, 64) * 4);
  }
  // If the CPU has no bf16 instructions, oneDNN stores all of C in fp32 until the sums are complete.
  if (is_emulated_bf16(problem)) bytes += problem.m * problem.n * 4;
  return round_up(bytes, 64);
}

}  // namespace

bool matmul_packs_b(const MatmulProblem& problem) {
  if (problem.b_operand == MatmulOperand::kPacked) return false;
  if (problem.b != problem.a) return true;
  if (problem.n < 16 || problem.k < 16) return false;
  // If a transposed f32 B is not packed before the product, oneDNN copies it into its own layout during the product: strip by strip, once
  // in each thread. The product then runs in the fast layout even without packing, so packing saves less time.
  const bool library_copies = problem.trans_b == Transpose::kYes && problem.a == DType::kF32;
  return problem.m >= (library_copies ? kMatmulMinRowsToPackTransposed : kMatmulMinRowsToPack);
}

int64_t matmul_packed_b_bytes(const MatmulProblem& problem) {
  return round_up(problem.k, 64) * round_up(problem.n, 64) * dtype_bytes(problem.a);
}

AmxBlocks matmul_amx_blocks(const MatmulProblem& problem) {
  // The largest number of rows of A that a thread splits into bf16 parts at a time. The three bf16 parts of 128 x 768 numbers of A take 576
  // KiB, which stay in a thread's L2 cache while the thread reads B. With 64 rows the product was 5 to 10 % slower. Fewer rows are used if
  // there would otherwise be fewer blocks of rows than threads.
  constexpr int64_t kMostRows = 128;
  const int64_t share = round_up((problem.m + problem.num_threads - 1) / problem.num_threads, 32);
  AmxBlocks blocks{.rows = std::min(kMostRows, share),
                   .columns = std::min<int64_t>(768, round_up(problem.n, 32)),
                   .terms = std::min<int64_t>(768, round_up(problem.k, 32))};
  constexpr int64_t kBytesOfParts = 3 * dtype_bytes(DType::kBF16);
  blocks.a_bytes = blocks.rows * blocks.terms * kBytesOfParts;
  blocks.b_bytes = blocks.columns * blocks.terms * kBytesOfParts;
  return blocks;
}

bool matmul_has_few_rows(const MatmulProblem& problem) {
  return problem.m <= kMatmulFewRows && problem.trans_a == Transpose::kNo &&
         problem.trans_b == Transpose::kYes && problem.b_operand == MatmulOperand::kPlain;
}

CpuProducts preferred_cpu_products(const MatmulProblem& problem) {
  const Support tiles = catalog_rows::matmul_cpu_amx_support(problem);
  return problem.a == DType::kF32 && tiles.ok ? CpuProducts::kAmxParts : CpuProducts::kLibrary;
}

int64_t matmul_scratch_bytes(const MatmulProblem& problem) {
  if (problem.cpu_products == CpuProducts::kAmxParts) {
    const AmxBlocks blocks = matmul_amx_blocks(problem);
    return blocks.b_bytes + problem.num_threads * blocks.a_bytes;
  }
  return workspace_bytes(problem) + (matmul_packs_b(problem) ? matmul_packed_b_bytes(problem) : 0);
}

MatmulLibraryMemory matmul_library_memory() {
  // Measured as the peak memory of the process (VmHWM) minus the arena and the data, for a BERT with 2 and 6 layers with AVX-512, prepared
  // for 1 and for 16 numbers of tokens per batch ("buckets"): oneDNN 2.6.3 takes 15 MiB plus 0.3 MiB per bucket, oneDNN 3.7.2 takes 26 MiB
  // plus 2.3 MiB per bucket.
#if PLIMSOLL_ONEDNN_MAJOR >= 3
  return {.at_start_bytes = 12 * kMiB, .per_bucket_bytes = 3 * kMiB};
#else
  return {.at_start_bytes = 0, .per_bucket_bytes = 256 * kKiB};
#endif
}

int64_t matmul_library_bytes(const MatmulProblem& problem) {
  // The bytes of a few handles that oneDNN allocates in each call.
  const int64_t handles = 64 * kKiB;
  if (problem.isa >= CpuIsa::kAvx512 && !is_emulated_bf16(problem)) return handles;
  // On CPUs without AVX-512, an older implementation of oneDNN packs strips of both operands into memory that it allocates itself: at most
  // 10240 rows and columns by 512 terms for each thread.
  const int64_t strip = std::min<int64_t>(round_up(std::max(problem.m, problem.n), 64), 10240) + 512;
  return handles + problem.num_threads * strip * std::min<int64_t>(round_up(problem.k, 64), 512) * 4;
}

ProductKey product_key(const MatmulProblem& problem, Fp32Products fp32) {
  std::string form = problem.trans_a == Transpose::kYes ? "t" : "n";
  form += problem.trans_b == Transpose::kYes ? "t " : "n ";
  form += std::string(dtype_name(problem.a)) + "*" + std::string(dtype_name(problem.b)) + "->" +
          std::string(dtype_name(problem.c));
  if (problem.a == DType::kF32 && fp32 != Fp32Products::kF32)
    form += " by " + std::string(fp32_products_name(fp32));
  if (problem.bias == MatmulBias::kRow) form += " bias " + std::string(dtype_name(problem.bias_dtype));
  if (problem.writes == MatmulWrites::kOverwriteOrAdd) form += " add";
  if (problem.writes == MatmulWrites::kAddend) form += " addend";
  if (problem.a_stride != 0 || problem.c_stride != 0) form += " strided";
  return {.form = std::move(form), .m = problem.m, .n = problem.n, .k = problem.k};
}

int64_t tf32x3_operand_bytes(int64_t elements) {
  return round_up(3 * 4 * elements, 256);
}
int64_t tf32x3_split_bytes(const MatmulProblem& problem) {
  return tf32x3_operand_bytes(problem.m * problem.k) + tf32x3_operand_bytes(problem.k * problem.n);
}

int64_t matmul_flops(const MatmulProblem& problem) {
  return 2 * problem.m * problem.n * problem.k +
         (problem.bias == MatmulBias::kRow ? problem.m * problem.n : int64_t{0});
}

LinearProblem linear_layer(const MatmulProblem& product, int sm) {
  return {.rows = product.m,
          .columns = product.n,
          .terms = product.k,
          .dtype = product.a,
          .sm = sm,
          .workspace_bytes = product.workspace_bytes};
}

bool linear_sizes_fit(const LinearProblem& problem) {
  return problem.sm == 90 && problem.columns % kLinearTileColumns == 0 && problem.terms % kLinearTerms == 0 &&
         problem.terms >= kLinearLeastTerms;
}

namespace {

// The number of multiprocessors of an H100 or H200.
constexpr int64_t kMultiprocessors = 132;

// Returns the share of the time for which the GPU's multiprocessors are busy, if each computes one tile at a time.
double linear_busy(const LinearProblem& problem) {
  const int64_t down = round_up(problem.rows, kLinearTileRows) / kLinearTileRows;
  const int64_t tiles = down * (problem.columns / kLinearTileColumns);
  return static_cast<double>(tiles) / static_cast<double>(round_up(tiles, kMultiprocessors));
}

}  // namespace

bool linear_takes_own_product(const LinearProblem& problem) {
  return linear_sizes_fit(problem) && linear_busy(problem) >= kLinearLeastBusy;
}

bool linear_norm_sizes_fit(const LinearProblem& problem) {
  return linear_sizes_fit(problem) && problem.columns <= kLinearNormTilesAcross * kLinearTileColumns;
}
int64_t linear_norm_sums_bytes(const LinearProblem& problem) {
  const int64_t across = round_up(problem.columns, kLinearTileColumns) / kLinearTileColumns;
  return round_up(problem.rows, kLinearTileRows) * across * int64_t{8};
}
bool linear_norm_takes_own_product(const LinearProblem& problem) {
  if (!linear_norm_sizes_fit(problem)) return false;
  const int64_t at_once = kMultiprocessors / (problem.columns / kLinearTileColumns);
  const int64_t down = round_up(problem.rows, kLinearTileRows) / kLinearTileRows;
  return static_cast<double>(down) >= kLinearNormLeastBusy * static_cast<double>(round_up(down, at_once));
}

std::optional<LinearProblem> matmul_as_linear(const MatmulProblem& problem, int sm) {
  const LinearProblem linear = linear_layer(problem, sm);
  const bool in_16_bits = problem.a == DType::kBF16 || problem.a == DType::kF16;
  const bool one_type = problem.b == problem.a && problem.c == problem.a;
  const bool layer = problem.trans_a == Transpose::kNo && problem.trans_b == Transpose::kYes;
  const bool adds_one = problem.writes == MatmulWrites::kOverwriteOnly ||
                        (problem.writes == MatmulWrites::kAddend && problem.bias == MatmulBias::kNone);
  if (!in_16_bits || !one_type || !layer || !adds_one || !linear_sizes_fit(linear)) return std::nullopt;
  return linear;
}

bool matmul_takes_own_product(const MatmulProblem& problem, int sm) {
  // The smallest share of the time for which the multiprocessors must be busy. Measured on an H200 (linear_cuda_bench) with 3072 columns
  // and 1024 terms: 4096 rows keep them busy for 0.97 of the time and take 0.0413 ms with Plimsoll's own kernel and 0.0441 ms with
  // cuBLASLt; 1280 rows keep them busy for 0.91 of the time and take 0.0151 and 0.0149 ms.
  constexpr double kLeastBusy = 0.94;
  const std::optional<LinearProblem> linear = matmul_as_linear(problem, sm);
  return linear && linear_busy(*linear) >= kLeastBusy;
}

// The number of rows that one instruction of linear_few_rows_cuda.cu multiplies.
constexpr int64_t kFewRowsPerProduct = 8;

bool linear_few_rows_fit(const MatmulProblem& problem) {
  const bool in_16_bits = problem.a == DType::kBF16 || problem.a == DType::kF16;
  return in_16_bits && problem.b == problem.a && problem.c == problem.a &&
         problem.trans_a == Transpose::kNo && problem.trans_b == Transpose::kYes &&
         problem.writes != MatmulWrites::kOverwriteOrAdd && problem.a_stride == 0 &&
         (problem.writes != MatmulWrites::kAddend || problem.c_stride == 0) && problem.m <= kCudaFewRows &&
         problem.k % kCudaFewRowsTerms == 0;
}
bool matmul_takes_few_rows_cuda(const MatmulProblem& problem, int sm) {
  if (sm != 90 || !linear_few_rows_fit(problem)) return false;
  // cuBLASLt is faster for more than eight rows and large weights. Measured on an H200 (linear_cuda_bench few, with early launches): with
  // 32 rows, 16384 columns of 2048 terms take 27.6 us with linear_few_rows_cuda.cu and 18.7 us with cuBLASLt, and 2048 columns of 8192
  // terms take 20.0 and 12.9 us. cuBLASLt is slow if the rows of its 16-bit result do not begin at multiples of 16 bytes. Up to eight rows,
  // linear_few_rows_cuda.cu is used for all sizes. An output layer of 128256 columns and 2048 terms alone takes 134 us with it and 126 us
  // with cuBLASLt, but a launch of cuBLASLt does not overlap with the launches before and after it; whether a decoding step would become
  // faster was not measured.
  constexpr int64_t kLibraryBytes = int64_t{32} << 20;
  return problem.m <= kFewRowsPerProduct || problem.n % 8 != 0 ||
         problem.n * problem.k * dtype_bytes(problem.b) < kLibraryBytes;
}

int64_t norm_linear_h_bytes(const NormLinearProblem& problem) {
  const MatmulProblem& product = problem.product;
  return round_up(product.m * product.k * dtype_bytes(product.a), 256);
}
int64_t norm_linear_values_bytes(const NormLinearProblem& problem) {
  const MatmulProblem& product = problem.product;
  const int64_t z = problem.end == LayerEnd::kGlu ? product.m * product.n * dtype_bytes(product.a) : 0;
  return norm_linear_h_bytes(problem) + round_up(z, 256);
}
bool norm_linear_takes_few_rows_cuda(const NormLinearProblem& problem, int sm) {
  return matmul_takes_few_rows_cuda(problem.product, sm) && problem.product.m <= kNormLinearRows &&
         problem.product.k <= kNormLinearTerms;
}

namespace catalog_rows {
namespace {

std::string version(int sm) {
  return std::to_string(sm / 10) + "." + std::to_string(sm % 10);
}
std::string needs_sm90(int sm) {
  return "needs the tensor cores of compute capability 9.0, but this GPU has " + version(sm);
}
std::string takes_linear_sizes(int64_t columns, int64_t terms) {
  return "needs a number of columns and a depth (K) that are multiples of 256, and a depth of at least " +
         std::to_string(kLinearLeastTerms) + ", but they are " + std::to_string(columns) + " and " +
         std::to_string(terms);
}

}  // namespace

Support matmul_cpu_onednn_support(const MatmulProblem& problem) {
  if (is_emulated_bf16(problem)) {
    return {false, "bf16 needs a CPU with AVX512_BF16 or AMX, but this CPU has " +
                       std::string(cpu_isa_name(problem.isa))};
  }
  if (problem.b != problem.a && !(problem.a == DType::kBF16 && problem.b == DType::kF32)) {
    return {false, "needs a matrix B of the type of A, or an f32 matrix B and a bf16 matrix A"};
  }
  if (problem.c != DType::kF32 && problem.c != problem.a)
    return {false, "writes a matrix C that is f32 or of the type of A"};
  return {};
}

Support matmul_cpu_amx_support(const MatmulProblem& problem) {
  if (problem.isa < CpuIsa::kAmx)
    return {false, "needs AMX, but this CPU has " + std::string(cpu_isa_name(problem.isa))};
  if (problem.b != DType::kF32 || problem.c != DType::kF32) return {false, "supports only f32 matrices"};
  if (problem.b_operand == MatmulOperand::kPacked)
    return {false, "does not support an operand that was packed in advance"};
  if (std::min({problem.m, problem.n, problem.k}) < kAmxPartsMinSize) {
    return {false, "splitting operands into bf16 parts is only faster from " +
                       std::to_string(kAmxPartsMinSize) + " rows, columns and depth (K) on"};
  }
  return {};
}
int64_t matmul_cpu_amx_scratch(const MatmulProblem& problem) {
  MatmulProblem by_parts = problem;
  by_parts.cpu_products = CpuProducts::kAmxParts;
  return matmul_scratch_bytes(by_parts);
}

Support matmul_cuda_cublaslt_support(const Problem& asked, const MatmulProblem& problem) {
  if (problem.a == DType::kBF16 && asked.target.sm < 80)
    return {false, "bf16 needs compute capability 8.0, but this GPU has " + version(asked.target.sm)};
  if (problem.b != problem.a) return {false, "needs matrices A and B of the same type"};
  if (problem.c != DType::kF32 && problem.c != problem.a)
    return {false, "writes a matrix C that is f32 or of the type of A"};
  return {};
}
int64_t cublaslt_workspace(const MatmulProblem& problem) {
  return problem.workspace_bytes;
}

// States whether matmul_cuda_wgmma supports a matrix product. The answer does not depend on the number of rows, although Plimsoll's own
// kernel is too slow for few rows, because matmul_cuda_wgmma calls cuBLASLt for few rows (prepare_matmul_wgmma_cuda).
Support matmul_cuda_wgmma_support(const Problem& asked, const MatmulProblem& problem) {
  if (asked.target.sm != 90) return {false, needs_sm90(asked.target.sm)};
  if (problem.b != problem.a || problem.c != problem.a)
    return {false, "needs matrices A, B and C of the same type"};
  if (problem.trans_a != Transpose::kNo || problem.trans_b != Transpose::kYes)
    return {false, "supports only products A B^T, as in a linear layer"};
  if (problem.writes != MatmulWrites::kOverwriteOnly) return {false, "cannot add to its output"};
  if (!matmul_as_linear(problem, asked.target.sm)) return {false, takes_linear_sizes(problem.n, problem.k)};
  return {};
}

// Checks whether linear_cuda_wgmma.h supports the matrix product of an op that combines a linear layer with the operations after it.
Support linear_cuda_support(const Problem& asked, const MatmulProblem& problem) {
  if (asked.target.sm != 90) return {false, needs_sm90(asked.target.sm)};
  if (problem.b != problem.a) return {false, "needs matrices A and B of the same type"};
  if (!linear_sizes_fit(linear_layer(problem, asked.target.sm)))
    return {false, takes_linear_sizes(problem.n, problem.k)};
  return {};
}

Support linear_norm_cuda_support(const Problem& asked, const MatmulProblem& problem) {
  Support support = linear_cuda_support(asked, problem);
  constexpr int64_t kMostColumns = kLinearNormTilesAcross * kLinearTileColumns;
  if (support.ok && problem.n > kMostColumns) {
    return {false, "supports at most " + std::to_string(kMostColumns) + " columns, but there are " +
                       std::to_string(problem.n)};
  }
  return support;
}
int64_t linear_norm_cuda_scratch(const MatmulProblem& problem) {
  return std::max(problem.workspace_bytes, linear_norm_sums_bytes({.rows = problem.m, .columns = problem.n}));
}

// Supports only Hopper, because the kernel for few rows (linear_few_rows_cuda.cu) was measured only there. For many rows, this
// implementation calls the separate kernels of the norm, the matrix product and the activation.
Support norm_linear_cuda_support(const Problem& asked, const NormLinearProblem& problem) {
  if (asked.target.sm != 90) return {false, needs_sm90(asked.target.sm)};
  const MatmulProblem& product = problem.product;
  if (product.b != product.a || product.c != product.a)
    return {false, "needs matrices A, B and C of the same type"};
  if (product.k % kCudaFewRowsTerms != 0) {
    return {false, "needs a depth (K) that is a multiple of " + std::to_string(kCudaFewRowsTerms) +
                       ", but it is " + std::to_string(product.k)};
  }
  const int64_t most = problem.norm == NormKind::kRms ? kMaxRmsNormCudaColumns : kMaxNormCudaColumns;
  if (product.k > most)
    return {false, "supports a depth (K) of at most " + std::to_string(most) + ", but it is " +
                       std::to_string(product.k)};
  if (problem.end == LayerEnd::kGlu && problem.outputs() % 8 != 0)
    return {false, "needs a number of output columns that is a multiple of 8, but it is " +
                       std::to_string(problem.outputs())};
  return {};
}
// Returns the bytes of the workspace of cuBLASLt and of two intermediate results: the normalized rows and, before a gated linear unit, its
// input z (norm_linear.h). `problem` states the largest number of rows; fewer rows use the same scratch memory.
int64_t norm_linear_cuda_scratch(const NormLinearProblem& problem) {
  return problem.product.workspace_bytes + norm_linear_values_bytes(problem);
}

// Supports only Hopper, because no other GPU was measured. Measured on an H200 in bf16 with 32768 rows of 1024 terms and 1024 or 4096
// columns: a product that adds to its own output takes 4 % longer than one that overwrites it, but the norm after it reads one tensor
// instead of two and takes 35 us instead of 50 us.
Support linear_add_cuda_cublaslt_support(const Problem& asked, const MatmulProblem& problem) {
  if (asked.target.sm != 90) {
    return {false,
            "was measured only on compute capability 9.0, but this GPU has " + version(asked.target.sm)};
  }
  if (problem.b != problem.a) return {false, "needs matrices A and B of the same type"};
  return {};
}

// Checks the sizes that cuBLASLt requires of fp8 operands: rows that begin at multiples of 16 bytes. The number of rows or of terms may be
// the number of tokens of a batch, which the plan rounds up for this purpose.
Support scaled_matmul_cuda_cublaslt_support(const Problem& asked, const MatmulProblem& problem) {
  if (asked.target.sm < kOldestSmOfFp8)
    return {false, "fp8 needs compute capability 8.9, but this GPU has " + version(asked.target.sm)};
  if (problem.a == DType::kE5M2 && problem.b == DType::kE5M2)
    return {false, "supports at most one operand of type e5m2"};
  if (problem.m % 16 != 0 || problem.n % 16 != 0 || problem.k % 16 != 0) {
    return {false,
            "needs numbers of rows and columns and a depth (K) that are multiples of 16, but they are " +
                std::to_string(problem.m) + ", " + std::to_string(problem.n) + " and " +
                std::to_string(problem.k)};
  }
  return {};
}

Support matmul_cuda_tf32x3_support(const Problem& asked, const MatmulProblem& problem) {
  if (asked.target.fp32_products != Fp32Products::kTf32x3) {
    return {false, "is used only for fp32 operands with --matmul_precision tf32x3"};
  }
  if (asked.target.sm < 80)
    return {false, "needs tf32, which GPUs have from compute capability 8.0 on; this GPU has " +
                       version(asked.target.sm)};
  if (problem.b != DType::kF32 || problem.c != DType::kF32) return {false, "supports only f32 matrices"};
  if (std::min({problem.m, problem.n, problem.k}) < kTf32x3MinSize) {
    return {false, "splitting operands into TF32 parts is only faster from " +
                       std::to_string(kTf32x3MinSize) + " rows, columns and depth (K) on"};
  }
  if (problem.k > kMaxSplitTerms || std::max(problem.m, problem.n) * problem.k >= int64_t{1} << 32) {
    return {false, "can only split operands with a depth (K) of at most " + std::to_string(kMaxSplitTerms) +
                       " and fewer than 2^32 elements"};
  }
  return {};
}
int64_t matmul_cuda_tf32x3_scratch(const MatmulProblem& problem) {
  return tf32x3_split_bytes(problem) + problem.workspace_bytes;
}

int64_t matmul_cpu_onednn_scratch(const MatmulProblem& problem) {
  return matmul_scratch_bytes(problem);
}

int64_t matmul_cpu_onednn_library(const MatmulProblem& problem) {
  return matmul_library_bytes(problem);
}

Support matmul_ref_support(const MatmulProblem& problem) {
  if (problem.b_operand == MatmulOperand::kPacked)
    return {false, "does not support an operand that was packed in advance"};
  return {};
}

}  // namespace catalog_rows
}  // namespace plimsoll
