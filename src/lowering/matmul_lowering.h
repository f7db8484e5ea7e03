// The description of a matrix product: of the op matmul, and of the products within linear_gelu, linear_norm and
// linear_add. Thread-safe: pure functions.
#pragma once

#include <string_view>

#include "graph/ops/op.h"
#include "kernels/matmul/matmul_catalog.h"

namespace plimsoll {

// Returns the product of an op in a bucket. The bias of linear_gelu and linear_norm is not part of it: they add it after
// the product. Requires: one of the four ops.
MatmulProblem matmul_problem(const OpView& op, const Bucket& bucket, const KernelTarget& target);

// A product as the implementation that the plan chose computes it.
struct PlannedMatmul {
  MatmulProblem problem = {};
  Fp32Products fp32 = Fp32Products::kF32;  // how fp32 operands are multiplied
};
// Returns the product of an op for an implementation of its kernel. Fp32 operands are multiplied as the target says, but in
// plain fp32 if the target asks for three TF32 products and the implementation does not compute them.
PlannedMatmul planned_matmul(const OpView& op, const Bucket& bucket, const KernelTarget& target,
                             std::string_view implementation);

// Tells if the op is a single product: matmul or linear_add. linear_gelu and linear_norm compute more.
bool is_single_matmul(const Op& op);
// Tells if the implementation computes products by our own kernel for linear layers, for the problems that
// matmul_takes_own_product() accepts (kernels/matmul/matmul_catalog.h).
bool is_custom_matmul(std::string_view implementation);

}  // namespace plimsoll
