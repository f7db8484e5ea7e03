// Makes the arguments of a kernel from an op of the plan; shared by the binders of all devices. Addresses and
// sizes are those of the bucket. What changes from run to run (flags, seeds, counts) is not filled in here,
// because devices read it differently: each device's binder sets it. Thread-safe: pure functions.
#pragma once

#include <vector>

#include "exec/bound_op.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/first_token_attention.h"
#include "kernels/element_wise/activation.h"
#include "kernels/element_wise/add.h"
#include "kernels/element_wise/cast.h"
#include "kernels/element_wise/column_range.h"
#include "kernels/element_wise/copy.h"
#include "kernels/element_wise/dropout.h"
#include "kernels/element_wise/gelu.h"
#include "kernels/element_wise/scale_shift.h"
#include "kernels/embedding/embedding.h"
#include "kernels/embedding/first_token.h"
#include "kernels/embedding/sort_ids.h"
#include "kernels/layer_norm/bias_dropout_residual_norm.h"
#include "kernels/layer_norm/normalize.h"
#include "kernels/loss/bce_with_logits.h"
#include "kernels/loss/linear_cross_entropy.h"
#include "kernels/loss/mse.h"
#include "kernels/loss/nll.h"
#include "kernels/loss/softmax.h"
#include "kernels/loss/softmax_cross_entropy.h"
#include "kernels/matmul/linear_gelu.h"
#include "kernels/matmul/linear_norm.h"
#include "kernels/matmul/matmul.h"
#include "kernels/optimizer/tensor_scan.h"

namespace plimsoll {

std::span<std::byte> scratch_bytes_of(const BindContext& context);

// The parts of an op that change from run to run, where it has them; null views where it has none.
struct RunTimeOperands {
  ConstView accumulate;  // the flag that turns overwriting into adding
  ConstView rng;         // seed and number of the micro-batch
  int64_t site = 0;      // of the op's random draws
  ConstView cu_seqlens;  // the last entry is the number of tokens
  ConstView real_rows;   // number of sequences in the batch
};
RunTimeOperands run_time_operands(const BindContext& context);

AttentionFwdArgs attention_fwd_args(const BindContext& context);
AttentionBwdArgs attention_bwd_args(const BindContext& context);
FirstTokenAttentionArgs first_token_attention_args(const BindContext& context);

ActivationFwdArgs activation_fwd_args(const BindContext& context);
ActivationBwdArgs activation_bwd_args(const BindContext& context);
GeluFwdArgs gelu_fwd_args(const BindContext& context);
GeluBwdArgs gelu_bwd_args(const BindContext& context);
BiasGeluFwdArgs bias_gelu_fwd_args(const BindContext& context);
BiasGeluBwdArgs bias_gelu_bwd_args(const BindContext& context);
AddFwdArgs add_args(const BindContext& context);
// into = flag ? into + d : d, in the bytes of `into`.
AddFwdArgs accumulate_args(const BindContext& context);
BiasAddFwdArgs bias_add_args(const BindContext& context);
BiasGradArgs bias_grad_args(const BindContext& context);
ScaleShiftFwdArgs scale_shift_fwd_args(const BindContext& context);
ScaleShiftBwdArgs scale_shift_bwd_args(const BindContext& context);
ColumnsFwdArgs columns_args(const BindContext& context);
AddColumnsFwdArgs add_columns_args(const BindContext& context);
CastFwdArgs cast_args(const BindContext& context);
FillArgs fill_args(const BindContext& context);
// One for each value that the op copies.
std::vector<CopyArgs> copy_args(const BindContext& context);
DropoutFwdArgs dropout_args(const BindContext& context);

EmbeddingSumFwdArgs embedding_sum_args(const BindContext& context);
SortIdsArgs sort_ids_args(const BindContext& context);
EmbeddingBwdArgs embedding_bwd_args(const BindContext& context);
FirstTokenFwdArgs first_token_fwd_args(const BindContext& context);
FirstTokenBwdArgs first_token_bwd_args(const BindContext& context);

NormalizeFwdArgs normalize_fwd_args(const BindContext& context);
NormalizeBwdArgs normalize_bwd_args(const BindContext& context);
BiasDropoutResidualNormFwdArgs fused_norm_fwd_args(const BindContext& context);
BiasDropoutResidualNormBwdArgs fused_norm_bwd_args(const BindContext& context);

SoftmaxCrossEntropyFwdArgs cross_entropy_fwd_args(const BindContext& context);
SoftmaxCrossEntropyBwdArgs cross_entropy_bwd_args(const BindContext& context);
LinearCrossEntropyProblem linear_cross_entropy_problem(const BindContext& context);
LinearCrossEntropyFwdArgs linear_cross_entropy_fwd_args(const BindContext& context);
LinearCrossEntropyBwdArgs linear_cross_entropy_bwd_args(const BindContext& context);
LinearCrossEntropyGradArgs linear_cross_entropy_grad_args(const BindContext& context);
NllFwdArgs nll_fwd_args(const BindContext& context);
NllBwdArgs nll_bwd_args(const BindContext& context);
SoftmaxFwdArgs log_softmax_fwd_args(const BindContext& context);
SoftmaxBwdArgs log_softmax_bwd_args(const BindContext& context);
BceWithLogitsFwdArgs bce_fwd_args(const BindContext& context);
BceWithLogitsBwdArgs bce_bwd_args(const BindContext& context);
MseFwdArgs mse_fwd_args(const BindContext& context);
MseBwdArgs mse_bwd_args(const BindContext& context);

// The number of threads and the instruction set are those of the request.
MatmulProblem matmul_problem(const BindContext& context);
MatmulArgs matmul_args(const BindContext& context);
// Of linear_gelu and linear_norm.
LinearProblem linear_problem(const BindContext& context);
LinearNormArgs linear_norm_args(const BindContext& context);

}  // namespace plimsoll
