// The ops there are: for each its definition and a typed function that emits it. Inputs may be kNoValue where
// the text says "optional". Shape letters: T tokens of the bucket, B sequences, C width, K classes, H heads,
// D width of a head.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/ops/op.h"

namespace plimsoll {

// The definition of that name, or null; the signature of OpLookup (graph/ir/text.h).
const OpDef* find_op(std::string_view name);
// Every definition, in alphabetical order.
std::span<const OpSchema* const> all_ops();

enum class MatmulTranspose : uint8_t { kNo, kYes };

const OpSchema& accumulate_op();
const OpSchema& adafactor_op();
const OpSchema& adagrad_op();
const OpSchema& adagrad_8bit_op();
const OpSchema& adamw_op();
const OpSchema& adamw_8bit_op();
const OpSchema& adjust_loss_scale_op();
const OpSchema& add_columns_op();
const OpSchema& add_op();
const OpSchema& attention_op();
const OpSchema& attention_bwd_op();
const OpSchema& bce_with_logits_op();
const OpSchema& bce_with_logits_bwd_op();
const OpSchema& bias_add_op();
const OpSchema& bias_dropout_residual_norm_op();
const OpSchema& bias_dropout_residual_norm_bwd_op();
const OpSchema& bias_gelu_op();
const OpSchema& bias_gelu_bwd_op();
const OpSchema& bias_grad_op();
const OpSchema& cast_op();
const OpSchema& clip_coefficient_op();
const OpSchema& columns_op();
const OpSchema& copy_op();
const OpSchema& dropout_op();
const OpSchema& embedding_bwd_op();
const OpSchema& embedding_sum_op();
const OpSchema& fill_op();
const OpSchema& first_token_op();
const OpSchema& first_token_attention_op();
const OpSchema& first_token_bwd_op();
const OpSchema& gelu_op();
const OpSchema& gelu_bwd_op();
const OpSchema& global_norm_op();
const OpSchema& linear_cross_entropy_op();
const OpSchema& linear_cross_entropy_bwd_op();
const OpSchema& linear_cross_entropy_grad_op();
const OpSchema& linear_add_op();
const OpSchema& linear_gelu_op();
const OpSchema& linear_norm_op();
const OpSchema& lion_op();
const OpSchema& lion_8bit_op();
const OpSchema& log_softmax_op();
const OpSchema& log_softmax_bwd_op();
const OpSchema& matmul_op();
const OpSchema& mse_op();
const OpSchema& mse_bwd_op();
const OpSchema& nll_op();
const OpSchema& nll_bwd_op();
const OpSchema& normalize_op();
const OpSchema& normalize_bwd_op();
const OpSchema& relu_op();
const OpSchema& relu_bwd_op();
const OpSchema& scale_shift_op();
const OpSchema& scale_shift_bwd_op();
const OpSchema& sgd_op();
const OpSchema& sgd_8bit_op();
const OpSchema& softmax_cross_entropy_op();
const OpSchema& softmax_cross_entropy_bwd_op();
const OpSchema& sort_ids_op();
const OpSchema& tanh_op();
const OpSchema& tanh_bwd_op();

// The operands of a global_norm whose norm it is: all but the loss, whose finiteness counts alone.
std::span<const ValueId> gradients_of_norm(const Op& norm);

// Dropout with probability p at a site (base/philox.h); `rng` is i64[2]: seed, number of the micro-batch.
struct DropoutSpec {
  double p = 0.0;
  int64_t site = 0;
};

// Emits an op and returns its first output; `name` is a stem, made unique.
ValueId emit(Graph& graph, const OpSchema& def, std::vector<ValueId> inputs, Attributes attributes = {},
             std::string_view name = {});
// The same, with all outputs.
std::vector<ValueId> emit_all(Graph& graph, const OpSchema& def, std::vector<ValueId> inputs,
                              Attributes attributes = {}, std::span<const std::string> names = {});

// op(a) op(b): [m,k] x [k,n] -> [m,n], in the type of a unless another is stated.
ValueId emit_matmul(Graph& graph, ValueId a, MatmulTranspose trans_a, ValueId b, MatmulTranspose trans_b,
                    std::string_view name = {}, std::optional<DType> dtype = {});
// x_TK w_NK^T + b_N -> [T,N], as matmul and bias_add; bias optional.
ValueId emit_linear(Graph& graph, ValueId x, ValueId weight, ValueId bias, std::string_view name = {});
ValueId emit_dropout(Graph& graph, ValueId x, ValueId rng, const DropoutSpec& spec,
                     std::string_view name = {});
// normalize and scale_shift: [T,C] -> [T,C].
ValueId emit_layer_norm(Graph& graph, ValueId x, ValueId gain, ValueId bias, double eps,
                        std::string_view name = {});

}  // namespace plimsoll
