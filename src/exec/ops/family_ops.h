// Functions that make the arguments of kernels, and functions that prepare (bind) ops for running on a CPU, grouped by kernel family.
// Thread-safe: pure functions.
#pragma once

#include <functional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "exec/bound_op.h"
#include "graph/ops/ops.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/first_token_attention.h"
#include "kernels/attention/paged_attention.h"
#include "kernels/communication/all_reduce.h"
#include "kernels/communication/head_exchange.h"
#include "kernels/communication/message.h"
#include "kernels/communication/reduce_scatter.h"
#include "kernels/element_wise/activation.h"
#include "kernels/element_wise/add.h"
#include "kernels/element_wise/cast.h"
#include "kernels/element_wise/column_range.h"
#include "kernels/element_wise/dropout.h"
#include "kernels/element_wise/gelu.h"
#include "kernels/element_wise/glu.h"
#include "kernels/element_wise/scale_shift.h"
#include "kernels/embedding/embedding.h"
#include "kernels/embedding/first_token.h"
#include "kernels/embedding/rope.h"
#include "kernels/embedding/sequence_mean.h"
#include "kernels/embedding/sort_ids.h"
#include "kernels/layer_norm/bias_dropout_residual_norm.h"
#include "kernels/layer_norm/normalize.h"
#include "kernels/layer_norm/rms_norm.h"
#include "kernels/loss/bce_with_logits.h"
#include "kernels/loss/class_sums.h"
#include "kernels/loss/linear_cross_entropy.h"
#include "kernels/loss/mse.h"
#include "kernels/loss/nll.h"
#include "kernels/loss/softmax.h"
#include "kernels/loss/softmax_cross_entropy.h"
#include "kernels/loss/top_logits.h"
#include "kernels/matmul/linear_gelu.h"
#include "kernels/matmul/linear_norm.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/norm_linear.h"
#include "kernels/optimizer/adafactor.h"
#include "kernels/optimizer/adagrad.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/global_norm.h"
#include "kernels/optimizer/lion.h"
#include "kernels/optimizer/loss_scale.h"
#include "kernels/optimizer/sgd.h"
#include "kernels/optimizer/tensor_scan.h"
#include "kernels/quantization/quantization.h"
#include "kernels/quantization/quantize_fp8.h"
#include "lowering/lowering.h"

namespace plimsoll {

// The functions that make the arguments of attention kernels. Thread-safe: pure functions.

AttentionFwdArgs attention_args(const BindContext& context);
AttentionBwdArgs attention_bwd_args(const BindContext& context);
FirstTokenAttentionArgs first_token_attention_args(const BindContext& context);
AppendKvArgs append_kv_args(const BindContext& context);
PagedAttentionArgs paged_attention_args(const BindContext& context);

std::function<void()> bind_attention_cpu(const BindContext& context);
std::function<void()> bind_attention_bwd_cpu(const BindContext& context);

// The functions that make the arguments of element-wise kernels, of copies and of dequantization. Thread-safe:
// pure functions.

// Returns the arguments of the kernels of relu and tanh.
ActivationFwdArgs activation_args(const BindContext& context);
ActivationBwdArgs activation_bwd_args(const BindContext& context);
GeluFwdArgs gelu_args(const BindContext& context);
GeluBwdArgs gelu_bwd_args(const BindContext& context);
BiasGeluFwdArgs bias_gelu_args(const BindContext& context);
BiasGeluBwdArgs bias_gelu_bwd_args(const BindContext& context);
GluFwdArgs glu_args(const BindContext& context);
GluBwdArgs glu_bwd_args(const BindContext& context);
AccumulateArgs accumulate_args(const BindContext& context);
AddFwdArgs add_args(const BindContext& context);
BiasAddFwdArgs bias_add_args(const BindContext& context);
BiasGradArgs bias_grad_args(const BindContext& context);
ScaleShiftFwdArgs scale_shift_args(const BindContext& context);
ScaleShiftBwdArgs scale_shift_bwd_args(const BindContext& context);
ColumnsFwdArgs columns_args(const BindContext& context);
AddColumnsFwdArgs add_columns_args(const BindContext& context);
ColumnsFwdArgs own_rows_args(const BindContext& context);
// Returns the number of the first block of random numbers that this rank draws (RandomSite::first_block). It is
// 0 unless the ranks divide the rows of the op's first input and this rank has rows other than the first ones.
uint64_t first_random_block(const BindContext& context);
CastFwdArgs cast_args(const BindContext& context);
DropoutFwdArgs dropout_args(const BindContext& context);
FillArgs fill_args(const BindContext& context);
DequantizeArgs dequantize_args(const BindContext& context);
QuantizeFp8Args quantize_fp8_args(const BindContext& context);
std::function<void()> bind_quantize_fp8_cpu(const BindContext& context);

// Returns the arguments of the copy kernel, one element for each value that the op copies.
std::vector<CopyArgs> copy_args(const BindContext& context);
std::function<void()> bind_copy_cpu(const BindContext& context);
// For a copy from or to a disk, returns the function that starts the transfer; the backend waits for its end. Returns null for other
// copies.
std::function<void()> bind_disk_copy(const BindContext& context);

// The functions that make the arguments of collective kernels. Thread-safe: pure functions.

AllReduceArgs all_reduce_args(const BindContext& context);
std::vector<ReducedTensor> reduced_tensors(const BindContext& context);
RankSlicesArgs rank_slices_args(const BindContext& context);
std::vector<DividedTensor> divided_tensors(const BindContext& context);
std::vector<DividedTensor> gathered_rows(const BindContext& context);
HeadExchangeArgs head_exchange_args(const BindContext& context);
SendArgs send_args(const BindContext& context);
ReceiveArgs receive_args(const BindContext& context);

// The functions that make the arguments of kernels that read or write rows of tables. Thread-safe: pure
// functions.

EmbeddingSumFwdArgs embedding_sum_args(const BindContext& context);
EmbeddingBwdArgs embedding_bwd_args(const BindContext& context);
SortIdsArgs sort_ids_args(const BindContext& context);
RopeArgs rope_args(const BindContext& context);
RopeTableArgs rope_table_args(const BindContext& context);
FirstTokenFwdArgs first_token_args(const BindContext& context);
FirstTokenBwdArgs first_token_bwd_args(const BindContext& context);
SequenceMeanFwdArgs sequence_mean_args(const BindContext& context);
SequenceMeanBwdArgs sequence_mean_bwd_args(const BindContext& context);

// The functions that make the arguments of loss kernels. Thread-safe: pure functions.

SoftmaxFwdArgs log_softmax_args(const BindContext& context);
SoftmaxBwdArgs log_softmax_bwd_args(const BindContext& context);
NllFwdArgs nll_args(const BindContext& context);
NllBwdArgs nll_bwd_args(const BindContext& context);
SoftmaxCrossEntropyFwdArgs cross_entropy_args(const BindContext& context);
SoftmaxCrossEntropyBwdArgs cross_entropy_bwd_args(const BindContext& context);

// Returns the arguments of mse or bce_with_logits, whose kernels take structs with the same fields.
template <typename Args>
Args element_loss_args(const BindContext& context) {
  Args args{.x_BK = context.input(ElementLossOp::kLogits),
            .labels_BK = context.input(ElementLossOp::kLabels),
            .denominator = context.input(ElementLossOp::kDenominator),
            .loss = context.output(ElementLossOp::kLoss),
            .num_rows = context.input_size(ElementLossOp::kLogits, 0),
            .num_classes = context.input_size(ElementLossOp::kLogits, 1)};
  args.scratch = context.scratch();
  return args;
}
template <typename Args>
Args element_loss_bwd_args(const BindContext& context) {
  return {.x_BK = context.input(ElementLossBwdOp::kLogits),
          .labels_BK = context.input(ElementLossBwdOp::kLabels),
          .denominator = context.input(ElementLossBwdOp::kDenominator),
          .d_loss = context.input(ElementLossBwdOp::kDLoss),
          .d_x_BK = context.output(ElementLossBwdOp::kDLogits),
          .num_rows = context.input_size(ElementLossBwdOp::kLogits, 0),
          .num_classes = context.input_size(ElementLossBwdOp::kLogits, 1)};
}

ClassSumsArgs class_sums_args(const BindContext& context);
ClassSumsBwdArgs class_sums_bwd_args(const BindContext& context);
ClassSumsLossArgs class_sums_loss_args(const BindContext& context);
ClassSumsLossBwdArgs class_sums_loss_bwd_args(const BindContext& context);
CountCorrectArgs count_correct_args(const BindContext& context);
TopLogitsArgs top_logits_args(const BindContext& context);
LinearCrossEntropyProblem linear_cross_entropy_problem(const BindContext& context);
LinearCrossEntropyFwdArgs linear_class_sums_args(const BindContext& context);
LinearCrossEntropyBwdArgs linear_class_sums_bwd_args(const BindContext& context);
LinearCrossEntropyGradArgs linear_class_sums_grad_args(const BindContext& context);
LinearCrossEntropyWithGradientsArgs linear_class_sums_gradients_args(const BindContext& context);
LinearCrossEntropyFwdArgs linear_cross_entropy_args(const BindContext& context);
LinearCrossEntropyBwdArgs linear_cross_entropy_bwd_args(const BindContext& context);
LinearCrossEntropyGradArgs linear_cross_entropy_grad_args(const BindContext& context);
LinearCrossEntropyWithGradientsArgs linear_cross_entropy_with_gradients_args(const BindContext& context);

std::function<void()> bind_linear_class_sums_cpu(const BindContext& context);
std::function<void()> bind_linear_class_sums_bwd_cpu(const BindContext& context);
std::function<void()> bind_linear_class_sums_grad_cpu(const BindContext& context);
std::function<void()> bind_linear_class_sums_gradients_cpu(const BindContext& context);
std::function<void()> bind_linear_cross_entropy_cpu(const BindContext& context);
std::function<void()> bind_linear_cross_entropy_bwd_cpu(const BindContext& context);
std::function<void()> bind_linear_cross_entropy_grad_cpu(const BindContext& context);
std::function<void()> bind_linear_cross_entropy_with_gradients_cpu(const BindContext& context);

// The functions that make the arguments of matrix products and of the ops around them. Thread-safe: pure
// functions.

// Returns the description of the op's matrix product: its sizes and types, and the implementation that the plan chose.
PlannedMatmul planned_matmul(const BindContext& context);
// Returns the sizes and types of the layer that linear_gelu or linear_norm computes.
LinearProblem linear_problem(const BindContext& context);
// Returns the arguments of the kernels of matmul and linear_gelu.
MatmulArgs matmul_args(const BindContext& context);
MatmulArgs linear_add_args(const BindContext& context);
MatmulArgs scaled_matmul_args(const BindContext& context);
LinearNormArgs linear_norm_args(const BindContext& context);
NormLinearProblem norm_linear_problem(const BindContext& context);
NormLinearArgs norm_linear_args(const BindContext& context);

std::function<void()> bind_matmul_cpu(const BindContext& context);
std::function<void()> bind_linear_gelu_cpu(const BindContext& context);
std::function<void()> bind_linear_norm_cpu(const BindContext& context);
std::function<void()> bind_linear_add_cpu(const BindContext& context);
std::function<void()> bind_norm_linear_cpu(const BindContext& context);
std::function<void()> bind_scaled_matmul_cpu(const BindContext& context);

// The functions that make the arguments of layer norms. Thread-safe: pure functions.

NormalizeFwdArgs normalize_args(const BindContext& context);
NormalizeBwdArgs normalize_bwd_args(const BindContext& context);
RmsNormFwdArgs rms_norm_args(const BindContext& context);
RmsNormBwdArgs rms_norm_bwd_args(const BindContext& context);
BiasDropoutResidualNormFwdArgs fused_norm_args(const BindContext& context);
BiasDropoutResidualNormBwdArgs fused_norm_bwd_args(const BindContext& context);

// The functions that make the arguments of the optimizers' kernels. Most of these kernels work on a list of tensors,
// which the arguments borrow; the functions leave the list empty, and the caller fills it. Thread-safe: pure
// functions.

std::vector<OptimizerTensor> norm_tensors(const BindContext& context);
// Return the list of tensors that an update works on: each parameter, its gradient, its states, and its 16-bit copy or lower half if it has
// one. Updates whose states have other shapes than the parameter have one entry for each part of a fused parameter (graph/ops/update.h).
std::vector<OptimizerTensor> plain_update_tensors(const BindContext& context);
std::vector<OptimizerTensor> eight_bit_update_tensors(const BindContext& context);
std::vector<AdafactorTensor> factored_update_tensors(const BindContext& context);
template <UpdateFrame kFrame>
auto update_tensors(const BindContext& context) {
  if constexpr (kFrame == UpdateFrame::kPlain) {
    return plain_update_tensors(context);
  } else if constexpr (kFrame == UpdateFrame::kEightBit) {
    return eight_bit_update_tensors(context);
  } else {
    static_assert(kFrame == UpdateFrame::kFactored, "no function lists the tensors of this kind of update");
    return factored_update_tensors(context);
  }
}

// Returns the arguments of an optimizer's update kernel. kReference is the kernel's reference
// implementation; its parameter is the struct that is returned.
template <auto kReference>
auto update_args(const BindContext& context) {
  const auto make = []<typename Args>(void (*)(const Args&)) { return Args(); };
  auto args = make(kReference);
  args.learning_rate = context.input(UpdateOp::kLearningRate);
  args.step = context.input(UpdateOp::kStep);
  args.clip_coefficient = context.input(UpdateOp::kClip);
  args.finite = context.input(UpdateOp::kFinite);
  const Attributes& attributes = context.attributes();
  args.read_constants([&]<typename Constant>(std::string_view name, Constant& constant) {
    if constexpr (std::is_enum_v<Constant>) {
      constant = attributes.integer(name) != 0 ? Constant{1} : Constant{0};
    } else if (std::is_same_v<Constant, double> || attributes.number(name) >= 0.0) {
      constant = attributes.number(name);
    }
  });
  args.noise_seed = static_cast<uint64_t>(attributes.integer_or("noise_seed", 0));
  args.noise_site = static_cast<uint32_t>(attributes.integer_or("noise_site", 0));
  if constexpr (requires { args.scratch; }) args.scratch = context.scratch();
  return args;
}

GlobalNormArgs global_norm_args(const BindContext& context);
ClipCoefficientArgs clip_coefficient_args(const BindContext& context);
AdjustLossScaleArgs adjust_loss_scale_args(const BindContext& context);

}  // namespace plimsoll
