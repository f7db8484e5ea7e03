// Lowering describes an op of a graph as a kernel problem: the sizes, types and options by which the kernel catalog decides which
// implementations support the op. The planner chooses kernels by these problems and the executor runs them, so that both describe an op in
// the same way. This folder does not choose a kernel and knows neither plans nor addresses.
//
// Each kernel family has a file, <family>_lowering.cc, with a table of its ops: the op, the name of its kernel in the catalog, and the
// function that describes the op. Thread-safe: pure functions.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "graph/ops/op.h"
#include "kernels/attention/attention_catalog.h"
#include "kernels/catalog/catalog.h"
#include "kernels/loss/loss_catalog.h"
#include "kernels/matmul/matmul_catalog.h"

namespace plimsoll {

// The sizes and options of an op as the problem type of its kernel family, and the element type of its activations.
struct LoweredOp {
  DType dtype = DType::kF32;
  FamilyProblem family = {};
};

struct Lowering {
  const OpSchema* op = nullptr;
  std::string_view kernel = {};  // name of the kernel in the catalog
  LoweredOp (*describe)(const OpView& op, const Bucket& bucket, const KernelTarget& target) = nullptr;
};

// Returns the table rows of all families, in the order of the catalog's families.
std::span<const Lowering> all_lowerings();
// Returns the table row of an op. Errors: kInternal if the op has none.
const Lowering& lowering_of(const OpSchema& op);

// Returns the kernel problem of an op in a bucket on a target. Errors: as lowering_of().
Problem lower_op(const OpView& op, const Bucket& bucket, const KernelTarget& target);

// The table rows of each family. Only for lowering.cc and the families' own files.

std::vector<Lowering> matmul_lowerings();
std::vector<Lowering> embedding_lowerings();
std::vector<Lowering> element_wise_lowerings();
std::vector<Lowering> norm_lowerings();
std::vector<Lowering> attention_lowerings();
std::vector<Lowering> loss_lowerings();
std::vector<Lowering> optimizer_lowerings();
std::vector<Lowering> quantization_lowerings();
std::vector<Lowering> communication_lowerings();

// Describes an op by the rows and columns of input kInput; a value that is not a matrix is one row.
LoweredOp describe_rows_of(const Value& value, const Bucket& bucket);
template <int kInput>
LoweredOp describe_rows(const OpView& op, const Bucket& bucket, const KernelTarget&) {
  return describe_rows_of(op.input(kInput), bucket);
}

// Describes an op whose kernels accept every problem and need no scratch. Input kInput has the type of its activations.
template <int kInput>
LoweredOp describe_type(const OpView& op, const Bucket&, const KernelTarget&) {
  return {.dtype = op.input(kInput).type.dtype};
}

// Describes matrix products: the ops matmul and scaled_matmul, and the products within linear_gelu, linear_norm, linear_add and
// norm_linear. Thread-safe: pure functions.

// Returns the matrix product of an op in a bucket. The bias of linear_gelu and linear_norm is not part of it, because these ops add their
// bias after the product. Requires: one of the six ops named above.
MatmulProblem matmul_problem(const OpView& op, const Bucket& bucket, const KernelTarget& target);
// Returns the kernel problem of norm_linear.
NormLinearProblem norm_linear_problem(const OpView& op, const Bucket& bucket, const KernelTarget& target);

// A matrix product in the form that the kernel implementation chosen by the plan computes.
struct PlannedMatmul {
  MatmulProblem problem = {};
  Fp32Products fp32 = Fp32Products::kF32;  // how fp32 operands are multiplied
};
// Returns the matrix product of an op for an implementation of its kernel. fp32 operands are multiplied as the target says, but in plain
// fp32 if the target asks for three TF32 products and the implementation does not compute them.
PlannedMatmul planned_matmul(const OpView& op, const Bucket& bucket, const KernelTarget& target,
                             std::string_view implementation);

// Returns true if the op is only a matrix product: matmul, scaled_matmul or linear_add. The other ops with a matrix product compute more.
bool is_single_matmul(const Op& op);
// Returns true if the implementation computes matrix products by Plimsoll's own kernel for linear layers, instead of cuBLASLt, for the
// problems that matmul_takes_own_product() accepts (kernels/matmul/matmul_catalog.h).
bool is_custom_matmul(std::string_view implementation);

// Describes attention ops to their kernels. Thread-safe: pure functions.

// Returns the sizes of attention or attention_bwd, whose first input packs q, k and v of all heads: qkv[T, 3HD].
AttentionDims attention_dims(const OpView& op, const Bucket& bucket);
// Returns the kernel problem of first_token_attention, whose inputs are x[T, C] and w[3HD, C].
FirstTokenAttentionProblem first_token_attention_problem(const OpView& op, const Bucket& bucket);
// Returns the sizes of an op on paged keys and values. `cache` is the shape of the pages, [P, 2, S, G * D].
PagedAttentionDims paged_attention_dims(const OpView& op, const Bucket& bucket, const Shape& cache);

// Describes ops that compute the last matrix product of a classifier together with its loss. Thread-safe: pure functions.

// Returns the kernel problem of linear_cross_entropy, linear_cross_entropy_bwd or linear_cross_entropy_grad. Its scratch memory has no
// space for the TF32 parts of operands, so fp32 products are computed in TF32 or in fp32, never as three TF32 products.
LinearCrossEntropyProblem linear_cross_entropy_problem(const OpView& op, const Bucket& bucket,
                                                       const KernelTarget& target);

}  // namespace plimsoll
