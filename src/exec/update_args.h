// Makes the arguments of an optimizer's kernel from an op of the plan; shared by the binders of all devices.
// Thread-safe: pure functions of the context.
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

// The lists of tensors that optimizer kernels work on; args borrow them.
std::vector<OptimizerTensor> norm_tensors(const BindContext& context);
std::vector<OptimizerTensor> adamw_tensors(const BindContext& context);
std::vector<OptimizerTensor> sgd_tensors(const BindContext& context);
std::vector<OptimizerTensor> one_state_tensors(const BindContext& context);  // of lion and adagrad
// A tensor for every part of a parameter, of updates with states in 8 bits.
std::vector<OptimizerTensor> eight_bit_tensors(const BindContext& context);
std::vector<AdafactorTensor> adafactor_tensors(const BindContext& context);
GlobalNormArgs global_norm_args(const BindContext& context);  // without its tensors
AdamwArgs adamw_args(const BindContext& context);             // without its tensors
SgdArgs sgd_args(const BindContext& context);                 // without its tensors
LionArgs lion_args(const BindContext& context);               // without its tensors
AdagradArgs adagrad_args(const BindContext& context);         // without its tensors
AdafactorArgs adafactor_args(const BindContext& context);     // without its tensors
ClipCoefficientArgs clip_coefficient_args(const BindContext& context);
AdjustLossScaleArgs adjust_loss_scale_args(const BindContext& context);

}  // namespace plimsoll
