// Matrix products on an NVIDIA GPU by cuBLASLt, which is opened when the first product is prepared. Same
// problem and arguments as matmul.h; the views hold device memory and the flag that turns overwriting into
// adding is read on the device, so that a prepared product can be captured in a CUDA graph and replayed.
//
// Thread-safety: prepare from one thread at a time; run() from the thread that owns the stream. A prepared
// product owns its descriptors; the library's handle lives until the process ends. It allocates no device
// memory: the workspace is `scratch`.
//
// Repeatability: the algorithm depends on the problem, the card and the library's version alone; it is run
// with a fixed workspace and no atomics, so two runs give the same bits.
//
// Error, against exact products of the operands as stored: that of a sum of k products in fp32,
// (k + 2) u sum |a b| with u = 2^-24 (tensor cores align the products of a step to the largest and cut them
// there, which counts as two more bits: 4 u); in tf32 the operands are rounded to 2^-11 first. The store
// rounds once; with a bias and a 16-bit C some algorithms (sums in parts) round the product once more before
// the bias is added to it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "device/cuda/stream.h"
#include "kernels/matmul/catalog.h"
#include "kernels/matmul/matmul.h"

namespace plimsoll {

// How products of fp32 operands are taken.
enum class Fp32Products : uint8_t { kF32, kTf32 };

class CudaMatmul {
 public:
  virtual ~CudaMatmul() = default;
  // C = op(A) op(B) (+ bias) or, where `accumulate` points to device memory that is not 0, C += op(A) op(B).
  // `accumulate` holds 0 or the bits of 1.0f: the library reads it as the factor of C. Null: overwrite.
  virtual void run(const MatmulArgs& args, const int32_t* accumulate, CudaStream stream) = 0;
  // The library's choice, in words for `--why` and profiles.
  virtual std::string description() const = 0;
};

// Errors: kDevice when the library cannot be opened (with the path tried) or refuses the problem.
std::unique_ptr<CudaMatmul> prepare_matmul_cuda(const MatmulProblem& problem, Fp32Products fp32);

}  // namespace plimsoll
