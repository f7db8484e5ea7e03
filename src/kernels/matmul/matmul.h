// This header states the contract of matrix products, and declares the reference and the prepared fast product on a CPU. run() does not
// allocate memory.
//
//   C  = op(A) op(B) (+ bias[n])
//   C += op(A) op(B) (+ bias[n])
//   C  = op(A) op(B) (+ bias[n]) + D    on a GPU and in the reference
//
//   C  = s_a s_b A B^T (+ bias[n]), or C +=    for fp8 codes A and B, on a GPU and in the reference
//
// op is the identity or the transpose; A, B, C and D are row-major and dense (MatmulProblem of matmul_catalog.h describes sizes, types and
// layout). s_a and s_b are the scales of fp8 operands (kernels/quantization/quantize_fp8.h).
//
// Types: for f32 A: B f32, C f32. For bf16 A: B bf16, or f32 that is rounded to bf16 (nearest, ties to even) before the product; C bf16 or
// f32. For e4m3 or e5m2 A: B e4m3, or e5m2 if A is e4m3; C f32, bf16 or f16. D has the type of C; bias is f32 or has the type of A, or of C
// if A is fp8. The reference takes any floating type for each. Accumulation: products are summed in fp32 in an order that depends only on
// the problem and the number of threads; C is rounded once, after bias and the old C or D have been added in fp32. Error of each element
// against exact arithmetic (with B after it was rounded): matmul_error_bound below. Repeatability: the same bits for the same problem,
// number of threads, CPU and library version. Rows: no row of op(A) influences another row of C. Unused tail rows (after the last token of
// a batch) may therefore contain anything finite if they are rows of C (y and dX); if they are summed over (dW: k = T), they must be zero
// in one operand and finite in the other. Aliasing: C may be D and overlaps no other operand. Requires: scratch and a packed B are aligned
// to 64 bytes, the other operands to the size of an element. Cost: matmul_flops; every operand is read once and C is written once, and read
// if it is added to; packing B reads and writes it once more. Thread-safety: a PreparedMatmul runs one product at a time; distinct objects
// are independent. Ownership: views do not own memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/view.h"
#include "kernels/matmul/matmul_catalog.h"

namespace plimsoll {

struct MatmulArgs {
  ConstView a;
  ConstView b;     // B, row-major, or the output of pack_b(), whose elements have the type of A
  ConstView bias;  // bias, shape [n]; null if the problem has none
  View c;
  Accumulate accumulate = Accumulate::kOverwrite;
  ConstView addend = {};   // D, of the size and type of C, if the problem has kAddend; GPUs only
  ConstView a_scale = {};  // scale of A (one f32 number) if A is fp8
  ConstView b_scale = {};  // scale of B (one f32 number) if B is fp8
  std::span<std::byte> scratch = {};
};

// Computes C in double with plain loops and rounds it once. Requires: b is row-major.
void matmul_ref(const MatmulProblem& problem, const MatmulArgs& args);

// A matrix product that is ready to run: its implementation is chosen and compiled, and its memory is allocated.
class PreparedMatmul {
 public:
  virtual ~PreparedMatmul() = default;
  // Computes C. Requires: args match the problem; scratch of at least matmul_scratch_bytes. Errors: kInternal if an operand has another
  // type or scratch is too small; kDevice if oneDNN fails.
  virtual void run(const MatmulArgs& args) = 0;
  // Converts a row-major B to the layout that run() reads if the problem states kPacked. The layout depends only on n, k, trans_b and the
  // types, never on m, so that all products with the same weight share one packed copy. Requires: `packed` has matmul_packed_b_bytes.
  // Errors: as run().
  virtual void pack_b(ConstView plain_b, std::span<std::byte> packed, std::span<std::byte> scratch) = 0;
  // Describes the chosen implementation for profiles: the name that oneDNN gives its kernel, and whether B is packed during the run.
  virtual std::string description() const = 0;
};

// Check that the operands meet the requirements of run(). Errors: kInternal.
void check_matmul_operand(ConstView view, DType dtype, const char* name);
void check_matmul_args(const MatmulProblem& problem, const MatmulArgs& args, int64_t scratch_bytes);

// Prepares the matrix product on AMX tiles, for problems whose cpu_products is kAmxParts. Numerics: see bf16_parts_amx.h. The bits do not
// depend on the number of threads. Errors: kInternal if the operating system does not let this process use AMX tiles.
std::unique_ptr<PreparedMatmul> prepare_matmul_amx(const MatmulProblem& problem);

// Prepares the matrix product as dot products that read B once, in the order of memory. The bits depend neither on the number of threads
// nor on the number of rows. Requires: matmul_has_few_rows(problem).
std::unique_ptr<PreparedMatmul> prepare_matmul_few_rows(const MatmulProblem& problem);

// Prepares the matrix product as dot products if it has few rows, otherwise as the problem's cpu_products states. oneDNN compiles it for
// the number of threads of device/cpu/parallel.h (which the problem must state too). Errors: kInternal if the workspace that oneDNN needs
// exceeds matmul_scratch_bytes with every layout of B and number of threads, or if the types are not among those listed at the top of this
// file. Cost: up to a few milliseconds for the first product of a shape.
std::unique_ptr<PreparedMatmul> prepare_matmul_cpu(const MatmulProblem& problem);

// Returns a bound of |error| for one element of C whose exact value is `want`; `abs_sum` = sum |a||b| over its k terms plus |bias| plus
// |old C or D|. Summing k + 2 terms in any order, with a rounding after each product, has an error of at most gamma_(k+2) abs_sum, gamma_j
// = j u / (1 - j u), u = 2^-24 (Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section 3.1); products of bf16 are
// exact in fp32. Flushed denormals add 2^-126 per term. A bf16 C adds its own rounding. For fp8 operands, see scaled_matmul_error_bound().
double matmul_error_bound(const MatmulProblem& problem, double abs_sum, double want);

// Returns a bound of |error| for one element of a product of fp8 operands on Hopper, with `abs_sum` = s_a s_b sum |a||b| plus |bias| plus
// |old C|. Hopper's tensor cores multiply 32 terms exactly, align the products and the partial sum to the largest of them, and keep about
// 14 bits (DeepSeek-V3, arXiv 2412.19437, section 3.3.2): each of these additions has an error of at most 2^-13 of the sum of magnitudes.
// Forward products (both operands e4m3) add all terms in this way; in other products, cuBLASLt adds partial sums of at most 128 terms in
// fp32, so that at most four such errors occur. The store rounds C once.
double scaled_matmul_error_bound(const MatmulProblem& problem, double abs_sum, double want);

}  // namespace plimsoll
