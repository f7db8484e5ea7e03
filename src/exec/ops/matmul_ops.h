// The arguments of matrix products and of the ops around them. Thread-safe: pure functions.
#pragma once

#include <functional>

#include "exec/bound_op.h"
#include "kernels/matmul/linear_gelu.h"
#include "kernels/matmul/linear_norm.h"
#include "kernels/matmul/matmul.h"
#include "lowering/matmul_lowering.h"

namespace plimsoll {

// Returns the product of an op in this bucket, for the implementation that the plan chose.
PlannedMatmul planned_matmul(const BindContext& context);
// Returns the layer of linear_gelu or linear_norm.
LinearProblem linear_problem(const BindContext& context);
MatmulArgs matmul_args(const BindContext& context);  // also of linear_gelu
MatmulArgs linear_add_args(const BindContext& context);
LinearNormArgs linear_norm_args(const BindContext& context);

std::function<void()> bind_matmul_cpu(const BindContext& context);
std::function<void()> bind_linear_gelu_cpu(const BindContext& context);
std::function<void()> bind_linear_norm_cpu(const BindContext& context);
std::function<void()> bind_linear_add_cpu(const BindContext& context);

}  // namespace plimsoll
