// The description of a classifier's last product with its loss. Thread-safe: pure functions.
#pragma once

#include "graph/ops/op.h"
#include "kernels/loss/loss_catalog.h"

namespace plimsoll {

// Returns the problem of linear_cross_entropy, linear_cross_entropy_bwd or linear_cross_entropy_grad. Its scratch memory
// has no space for operands in three parts, so that fp32 products are computed in TF32 or in fp32.
LinearCrossEntropyProblem linear_cross_entropy_problem(const OpView& op, const Bucket& bucket,
                                                       const KernelTarget& target);

}  // namespace plimsoll
