// The arguments of element-wise kernels, of copies and of dequantization. Thread-safe: pure functions.
#pragma once

#include <functional>
#include <vector>

#include "exec/bound_op.h"
#include "kernels/element_wise/activation.h"
#include "kernels/element_wise/add.h"
#include "kernels/element_wise/cast.h"
#include "kernels/element_wise/column_range.h"
#include "kernels/element_wise/copy.h"
#include "kernels/element_wise/dropout.h"
#include "kernels/element_wise/gelu.h"
#include "kernels/element_wise/scale_shift.h"
#include "kernels/optimizer/tensor_scan.h"
#include "kernels/quantization/quantization.h"

namespace plimsoll {

ActivationFwdArgs activation_args(const BindContext& context);  // relu, tanh
ActivationBwdArgs activation_bwd_args(const BindContext& context);
GeluFwdArgs gelu_args(const BindContext& context);
GeluBwdArgs gelu_bwd_args(const BindContext& context);
BiasGeluFwdArgs bias_gelu_args(const BindContext& context);
BiasGeluBwdArgs bias_gelu_bwd_args(const BindContext& context);
AccumulateArgs accumulate_args(const BindContext& context);
AddFwdArgs add_args(const BindContext& context);
BiasAddFwdArgs bias_add_args(const BindContext& context);
BiasGradArgs bias_grad_args(const BindContext& context);
ScaleShiftFwdArgs scale_shift_args(const BindContext& context);
ScaleShiftBwdArgs scale_shift_bwd_args(const BindContext& context);
ColumnsFwdArgs columns_args(const BindContext& context);
AddColumnsFwdArgs add_columns_args(const BindContext& context);
CastFwdArgs cast_args(const BindContext& context);
DropoutFwdArgs dropout_args(const BindContext& context);
FillArgs fill_args(const BindContext& context);
DequantizeArgs dequantize_args(const BindContext& context);

// Returns the arguments of each value that the op copies.
std::vector<CopyArgs> copy_args(const BindContext& context);
std::function<void()> bind_copy_cpu(const BindContext& context);

}  // namespace plimsoll
