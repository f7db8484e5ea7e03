// The arguments of the optimizers' kernels. Most work on a list of tensors, which the arguments borrow; the functions
// that make arguments leave the list empty. Thread-safe: pure functions.
#pragma once

#include <vector>

#include "exec/bound_op.h"
#include "kernels/optimizer/adafactor.h"
#include "kernels/optimizer/adagrad.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/global_norm.h"
#include "kernels/optimizer/lion.h"
#include "kernels/optimizer/loss_scale.h"
#include "kernels/optimizer/sgd.h"

namespace plimsoll {

std::vector<OptimizerTensor> norm_tensors(const BindContext& context);
std::vector<OptimizerTensor> adamw_tensors(const BindContext& context);
std::vector<OptimizerTensor> sgd_tensors(const BindContext& context);
std::vector<OptimizerTensor> one_state_tensors(const BindContext& context);  // lion, adagrad
// Updates with 8-bit states have a tensor per part of a parameter (graph/ops/update_parts.h).
std::vector<OptimizerTensor> adamw_8bit_tensors(const BindContext& context);
std::vector<OptimizerTensor> one_state_8bit_tensors(const BindContext& context);  // lion, sgd, adagrad
std::vector<AdafactorTensor> adafactor_tensors(const BindContext& context);

GlobalNormArgs global_norm_args(const BindContext& context);
AdamwArgs adamw_args(const BindContext& context);
SgdArgs sgd_args(const BindContext& context);
LionArgs lion_args(const BindContext& context);
AdagradArgs adagrad_args(const BindContext& context);
AdafactorArgs adafactor_args(const BindContext& context);
ClipCoefficientArgs clip_coefficient_args(const BindContext& context);
AdjustLossScaleArgs adjust_loss_scale_args(const BindContext& context);

}  // namespace plimsoll
