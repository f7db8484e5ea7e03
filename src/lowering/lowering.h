// Lowering describes an op of a graph as a kernel problem: the sizes, types and options by which the kernel catalog decides which
// kernel implementations support the op. Both the planner, which chooses the implementations, and the executor, which runs them,
// use these descriptions, so that they always agree. This folder does not choose implementations and knows neither plans nor
// memory addresses.
//
// Each kernel family has a file, <family>_lowering.cc, with a table of its ops. A row contains the op, the name of its kernel in
// the catalog, and the function that describes the op. Thread-safe: pure functions.
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

// The description of an op for its kernels: its sizes and options in the problem type of its kernel family, and the element type
// of its activations.
struct LoweredOp {
  DType dtype = DType::kF32;
  FamilyProblem family = {};
};

struct Lowering {
  const OpSchema* op = nullptr;
  std::string_view kernel = {};  // name of the op's kernel in the catalog of kernels
  LoweredOp (*describe)(const OpView& op, const Bucket& bucket, const KernelTarget& target) = nullptr;
};

// Returns the table rows (one per op) of all kernel families, in the order in which the kernel catalog lists the families.
std::span<const Lowering> all_lowerings();
// Returns the table row of an op. Errors: kInternal if the op has none.
const Lowering& lowering_of(const OpSchema& op);

// Returns the description of an op by which the kernel catalog selects a kernel on a target device. `bucket` states the sizes of the batch,
// for example its number of tokens. Errors: as lowering_of().
Problem lower_op(const OpView& op, const Bucket& bucket, const KernelTarget& target);

// Each function returns the table rows of one kernel family. Only lowering.cc and the files of the families may call them.

std::vector<Lowering> matmul_lowerings();
std::vector<Lowering> embedding_lowerings();
std::vector<Lowering> element_wise_lowerings();
std::vector<Lowering> norm_lowerings();
std::vector<Lowering> attention_lowerings();
std::vector<Lowering> loss_lowerings();
std::vector<Lowering> optimizer_lowerings();
std::vector<Lowering> quantization_lowerings();
std::vector<Lowering> communication_lowerings();

// Describes an op by the numbers of rows and columns of its input number kInput. A tensor that is not a matrix counts as one row.
LoweredOp describe_rows_of(const Value& value, const Bucket& bucket);
template <int kInput>
LoweredOp describe_rows(const OpView& op, const Bucket& bucket, const KernelTarget&) {
  return describe_rows_of(op.input(kInput), bucket);
}

// Describes an op whose kernels accept every size and need no scratch memory. Only the element type is recorded, which is that of
// input kInput.
template <int kInput>
LoweredOp describe_type(const OpView& op, const Bucket&, const KernelTarget&) {
  return {.dtype = op.input(kInput).type.dtype};
}

// Functions for ops that contain a matrix product: matmul, scaled_matmul, linear_gelu, linear_norm, linear_add and norm_linear.
// Thread-safe: pure functions.

// Returns the matrix product that an op contains, for the sizes of a batch that `bucket` states. It does not include the bias of
// linear_gelu and linear_norm, because these ops add the bias after the product. Requires: one of the six ops named above.
MatmulProblem matmul_problem(const OpView& op, const Bucket& bucket, const KernelTarget& target);
// Returns the description of norm_linear by which the kernel catalog selects a kernel.
NormLinearProblem norm_linear_problem(const OpView& op, const Bucket& bucket, const KernelTarget& target);

// A matrix product together with the way in which the implementation that the plan chose computes it.
struct PlannedMatmul {
  MatmulProblem problem = {};
  Fp32Products fp32 = Fp32Products::kF32;  // how fp32 operands are multiplied: in fp32 or by TF32 products
};
// Returns the matrix product of an op for a given implementation of its kernel. fp32 operands are multiplied in the way that `target`
// states. If `target` states three TF32 products per fp32 product and the implementation does not support this, plain fp32 is used.
PlannedMatmul planned_matmul(const OpView& op, const Bucket& bucket, const KernelTarget& target,
                             std::string_view implementation);

// Returns true if the op computes only a matrix product, to which a bias or a residual may be added: matmul, scaled_matmul and
// linear_add. The other ops with a matrix product also compute, for example, a norm or an activation function.
bool is_single_matmul(const Op& op);
// Returns true if the implementation computes its matrix product by Plimsoll's own kernel for linear layers instead of cuBLASLt. The
// implementation does so for the problems that matmul_takes_own_product() accepts (kernels/matmul/matmul_catalog.h).
bool is_custom_matmul(std::string_view implementation);

// Functions for attention ops. Thread-safe: pure functions.

// Returns the sizes of attention or attention_bwd. Their first input contains the queries, keys and values of all heads next to
// each other: qkv[T, 3HD], with T tokens and H heads of size D.
AttentionDims attention_dims(const OpView& op, const Bucket& bucket);
// Returns the description of first_token_attention by which the kernel catalog selects a kernel. The inputs of the op are x[T, C] (T
// tokens, C columns) and the weight w[3HD, C] (H heads of size D).
FirstTokenAttentionProblem first_token_attention_problem(const OpView& op, const Bucket& bucket);
// Returns the sizes of an op on a paged KV cache. `cache` is the shape of the cache, [P, 2, S, G * D]: P pages of S tokens, keys
// and values, and G heads of size D.
PagedAttentionDims paged_attention_dims(const OpView& op, const Bucket& bucket, const Shape& cache);

// Functions for ops that compute the last matrix product of a classifier together with its loss. Thread-safe: pure functions.

// Returns the description by which the kernel catalog selects a kernel for linear_cross_entropy, for linear_class_sums, which computes sums
// over the classes of one rank, or for an op that computes gradients of these. These ops never compute an fp32 product as three TF32
// products, because their scratch memory has no space for the parts of the operands; they use a single TF32 product or fp32.
LinearCrossEntropyProblem linear_cross_entropy_problem(const OpView& op, const Bucket& bucket,
                                                       const KernelTarget& target);

}  // namespace plimsoll
