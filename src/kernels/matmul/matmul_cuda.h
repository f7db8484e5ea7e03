// Matrix products on an NVIDIA GPU: cuBLASLt, which is opened when its first product is prepared, computes them, or, for linear layers on
// compute capability 9.0, Plimsoll's own kernel (linear_cuda_wgmma.h). Problem and arguments are those of matmul.h. Views point to device
// memory, and the flag that turns overwriting into adding is read on the device, so that a prepared product can be captured in a CUDA graph
// and replayed.
//
// Thread-safety: prepare from one thread at a time; call run() from the thread that owns the stream. A prepared product owns its
// descriptors; the handle of cuBLASLt exists until the process ends. No device memory is allocated: the workspace is `scratch`.
//
// Repeatability: the algorithm depends only on the problem, the GPU model and the version of the library. It runs with a fixed workspace
// and without atomics, so two runs give the same bits. cuBLASLt may give other bits, within the same error bound, if the addend is C itself
// instead of a separate matrix.
//
// Error, against exact products of the operands as stored: the error of a sum of k products in fp32 is at most (k + 2) u sum |a b| with u =
// 2^-24. Tensor cores align the products that they add at a time to the largest one and truncate them, which loses two more bits; u is then
// 2^-22. In tf32 the operands are first rounded with a relative error of 2^-11. With three products of tf32 parts, the sum has 3 k terms,
// whose magnitudes add up to at most (1 + 2^-9) sum |a b|. Each term is a product of two parts, which the tensor cores compute without
// error. Splitting the operands adds an error of kTf32x3SplitError sum |a b|: see matmul_tf32x3_error_bound(). With three products, an
// infinity times a number whose low part is zero gives NaN. The store rounds once. With a bias or an addend and a 16-bit C, some algorithms
// (those that sum in parts) round the product once more before the addition; Plimsoll's own kernel does so with an addend.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/cuda/stream.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/matmul_catalog.h"

namespace plimsoll {

class CudaMatmul {
 public:
  virtual ~CudaMatmul() = default;
  // Computes C = op(A) op(B) (+ bias) or, if `accumulate` points to device memory that is not 0, C += op(A) op(B). *accumulate is 0 or the
  // bits of 1.0f, because cuBLASLt reads it as the factor of the old C. If `accumulate` is null, overwrites C with the product or, if
  // problem.writes is kAddend, with the sum of product and addend.
  virtual void run(const MatmulArgs& args, const int32_t* accumulate, CudaStream stream) = 0;
  // Describes the chosen algorithm of cuBLASLt or Plimsoll's own kernel, for `--why` and profiles.
  virtual std::string description() const = 0;
};

// Returns a bound of the error of one element if fp32 operands are multiplied as three TF32 products. `abs_sum` is the same as in
// matmul_error_bound().
double matmul_tf32x3_error_bound(const MatmulProblem& problem, double abs_sum);

// Prepares a matrix product with cuBLASLt. With Fp32Products::kTf32x3, run() needs tf32x3_split_bytes() of scratch memory in addition to
// the workspace. Uses the algorithm `tuned`, which was measured to be the fastest (hardware/tuning_table.h), if cuBLASLt accepts it for
// this product, otherwise the algorithm that cuBLASLt proposes first. Errors: kDevice if the library cannot be opened (the message contains
// the path) or rejects the problem.
std::unique_ptr<CudaMatmul> prepare_matmul_cuda(const MatmulProblem& problem, Fp32Products fp32,
                                                const TunedProduct* tuned = nullptr);
// Prepares the product as three TF32 products. Requires: all operands are f32.
std::unique_ptr<CudaMatmul> prepare_matmul_tf32x3_cuda(const MatmulProblem& problem,
                                                       const TunedProduct* tuned);

// Prepares the implementations matmul_cuda_wgmma and linear_add_cuda_wgmma. They use Plimsoll's own kernel if matmul_takes_own_product()
// returns true (matmul_catalog.h). Otherwise (for few rows, or in a build without code for compute capability 9.0) they use cuBLASLt.
std::unique_ptr<CudaMatmul> prepare_matmul_wgmma_cuda(const MatmulProblem& problem, int sm,
                                                      const TunedProduct* tuned = nullptr);
// States what a matrix product may assume about B. kConstant: no launch that may still run when the product starts writes B, so the product
// may read B before these launches have ended (element_wise/cuda/early_launch.cuh).
enum class SecondOperand : uint8_t { kVariable, kConstant };
// Prepares Plimsoll's kernel for layers of few rows (linear_few_rows_cuda.cu), which rounds once, after the bias was added, and once more
// after an addend was added. A row of C depends only on the same rows of A and of the addend. Its bits do not depend on the number of rows
// within 1 to 8 and within 9 to 32. Errors: kInternal if linear_few_rows_fit() does not hold.
std::unique_ptr<CudaMatmul> prepare_few_rows_matmul_cuda(const MatmulProblem& problem, SecondOperand b);
// Prepares the product with Plimsoll's own kernel (linear_cuda_wgmma.h), whatever the number of rows is. Errors: kInternal if
// matmul_as_linear() returns nothing. In a build without code for compute capability 9.0, run() throws kInternal.
std::unique_ptr<CudaMatmul> prepare_own_matmul_cuda(const MatmulProblem& problem, int sm);

// Returns up to `most` algorithms that cuBLASLt proposes for a matrix product within the workspace, in its order of preference. Nothing is
// measured, so the times of the returned algorithms are zero. Errors: as prepare_matmul_cuda().
std::vector<TunedProduct> matmul_candidates_cuda(const MatmulProblem& problem, Fp32Products fp32, int most);
// Returns the matrix product that cuBLASLt computes for this problem. It differs from `problem` only if `fp32` is kTf32x3: cuBLASLt then
// multiplies split operands, which have three times as many terms, adjacent in the rows of both operands.
MatmulProblem library_product(const MatmulProblem& problem, Fp32Products fp32);
// Returns the name and version of the library, for example "cuBLASLt 130100". Errors: kDevice if the library cannot be opened.
std::string matmul_library_cuda();

}  // namespace plimsoll
