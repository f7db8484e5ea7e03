// Matrix products on an NVIDIA GPU: by cuBLASLt, which is opened when the first of its products is prepared,
// and on compute capability 9.0 linear layers by a kernel of ours (linear_cuda_wgmma.h). Same problem
// and arguments as matmul.h; the views hold device memory and the flag that turns overwriting into adding is
// read on the device, so that a prepared product can be captured in a CUDA graph and replayed.
//
// Thread-safety: prepare from one thread at a time; run() from the thread that owns the stream. A prepared
// product owns its descriptors; the library's handle lives until the process ends. It allocates no device
// memory: the workspace is `scratch`.
//
// Repeatability: the algorithm depends on the problem, the card and the library's version alone; it is run
// with a fixed workspace and no atomics, so two runs give the same bits. By the library, an addend in the
// place of C gives other bits than one in a place of its own, within the same bound.
//
// Error, against exact products of the operands as stored: that of a sum of k products in fp32,
// (k + 2) u sum |a b| with u = 2^-24 (tensor cores align the products of a step to the largest and cut them
// there, which counts as two more bits: 4 u); in tf32 the operands are rounded to 2^-11 first. As three
// products of tf32 parts the sum has 3 k terms of together (1 + 2^-9) sum |a b|, which the tensor cores
// multiply without error, and what splitting loses is kTf32x3SplitError sum |a b|: see
// matmul_tf32x3_error_bound(). An infinity times a number without a low part makes a NaN there. The store
// rounds once; with a bias or an addend and a 16-bit C some algorithms (sums in parts), and with an addend
// the kernel of ours, round the product once more before that is added to it.
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
  // C = op(A) op(B) (+ bias) or, where `accumulate` points to device memory that is not 0, C += op(A) op(B).
  // `accumulate` holds 0 or the bits of 1.0f: the library reads it as the factor of C. Null: overwrite, with
  // the sum of product and addend where the problem writes kAddend.
  virtual void run(const MatmulArgs& args, const int32_t* accumulate, CudaStream stream) = 0;
  // The library's choice or the kernel of ours, in words for `--why` and profiles.
  virtual std::string description() const = 0;
};

// The error of one element of fp32 operands by three TF32 products, with `abs_sum` as in
// matmul_error_bound().
double matmul_tf32x3_error_bound(const MatmulProblem& problem, double abs_sum);

// Three products want the scratch of matmul_cuda_tf32x3: tf32x3_split_bytes() more than the workspace.
// A choice of the tuning table is taken where the library accepts it for this product; without one, or where
// it does not, the library's first choice is.
// Errors: kDevice when the library cannot be opened (with the path tried) or refuses the problem.
std::unique_ptr<CudaMatmul> prepare_matmul_cuda(const MatmulProblem& problem, Fp32Products fp32,
                                                const TunedProduct* tuned = nullptr);
// The one of kTf32x3. Requires: all operands f32.
std::unique_ptr<CudaMatmul> prepare_matmul_tf32x3_cuda(const MatmulProblem& problem,
                                                       const TunedProduct* tuned);

// The one of matmul_cuda_wgmma and linear_add_cuda_wgmma: by the kernel of ours where
// matmul_takes_own_product() says so (matmul_catalog.h), otherwise, for few rows or in a build without code for
// compute capability 9.0, by the library.
std::unique_ptr<CudaMatmul> prepare_matmul_wgmma_cuda(const MatmulProblem& problem, int sm,
                                                      const TunedProduct* tuned = nullptr);
// The first way whatever the number of rows. Errors: kInternal where matmul_as_linear() has none, and in
// run() in a build without that code.
std::unique_ptr<CudaMatmul> prepare_own_matmul_cuda(const MatmulProblem& problem, int sm);

// What the library proposes for a product within the workspace, its first choice first; without times.
// Errors: as prepare_matmul_cuda().
std::vector<TunedProduct> matmul_candidates_cuda(const MatmulProblem& problem, Fp32Products fp32, int most);
// The product that the library itself is asked for: where operands are split, of three times the
// terms, which lie along the rows of both.
MatmulProblem library_product(const MatmulProblem& problem, Fp32Products fp32);
// "cuBLASLt 130100". Errors: kDevice when it cannot be opened.
std::string matmul_library_cuda();

}  // namespace plimsoll
