#include <algorithm>
#include <array>

#include "graph/ops/dequantize.h"
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

const std::vector<const OpSchema*>& registry() {
  static const std::vector<const OpSchema*> ops = [] {
    std::vector<const OpSchema*> list{&accumulate_op(),
                                      &adjust_loss_scale_op(),
                                      &add_columns_op(),
                                      &add_op(),
                                      &all_gather_op(),
                                      &all_reduce_op(),
                                      &append_kv_op(),
                                      &attention_op(),
                                      &attention_bwd_op(),
                                      &bce_with_logits_op(),
                                      &bce_with_logits_bwd_op(),
                                      &bias_add_op(),
                                      &bias_dropout_residual_norm_op(),
                                      &bias_dropout_residual_norm_bwd_op(),
                                      &bias_gelu_op(),
                                      &bias_gelu_bwd_op(),
                                      &bias_grad_op(),
                                      &cast_op(),
                                      &class_sums_op(),
                                      &class_sums_bwd_op(),
                                      &class_sums_loss_op(),
                                      &class_sums_loss_bwd_op(),
                                      &clip_coefficient_op(),
                                      &columns_op(),
                                      &copy_op(),
                                      &dequantize_op(),
                                      &dropout_op(),
                                      &embedding_bwd_op(),
                                      &embedding_sum_op(),
                                      &fill_op(),
                                      &first_token_op(),
                                      &first_token_attention_op(),
                                      &first_token_bwd_op(),
                                      &exchange_heads_op(),
                                      &gather_rows_op(),
                                      &gelu_op(),
                                      &gelu_bwd_op(),
                                      &global_norm_op(),
                                      &count_correct_op(),
                                      &top_logits_op(),
                                      &glu_op(),
                                      &glu_bwd_op(),
                                      &linear_class_sums_op(),
                                      &linear_class_sums_bwd_op(),
                                      &linear_class_sums_grad_op(),
                                      &linear_class_sums_gradients_op(),
                                      &linear_cross_entropy_op(),
                                      &linear_cross_entropy_bwd_op(),
                                      &linear_cross_entropy_grad_op(),
                                      &linear_cross_entropy_with_gradients_op(),
                                      &linear_add_op(),
                                      &linear_gelu_op(),
                                      &linear_norm_op(),
                                      &log_softmax_op(),
                                      &log_softmax_bwd_op(),
                                      &matmul_op(),
                                      &mse_op(),
                                      &mse_bwd_op(),
                                      &nll_op(),
                                      &nll_bwd_op(),
                                      &norm_linear_op(),
                                      &normalize_op(),
                                      &normalize_bwd_op(),
                                      &own_rows_op(),
                                      &paged_attention_op(),
                                      &quantize_fp8_op(),
                                      &receive_op(),
                                      &reduce_scatter_op(),
                                      &relu_op(),
                                      &relu_bwd_op(),
                                      &rms_norm_op(),
                                      &rms_norm_bwd_op(),
                                      &rope_op(),
                                      &rope_table_op(),
                                      &scale_shift_op(),
                                      &scale_shift_bwd_op(),
                                      &scaled_matmul_op(),
                                      &send_op(),
                                      &sequence_mean_op(),
                                      &sequence_mean_bwd_op(),
                                      &softmax_cross_entropy_op(),
                                      &softmax_cross_entropy_bwd_op(),
                                      &sort_ids_op(),
                                      &tanh_op(),
                                      &tanh_bwd_op()};
    for (const OptimizerRow& row : optimizer_rows()) list.push_back(&update_op(row.kind));
    std::sort(list.begin(), list.end(),
              [](const OpSchema* a, const OpSchema* b) { return a->name() < b->name(); });
    return list;
  }();
  return ops;
}

}  // namespace

std::span<const OpSchema* const> all_ops() {
  return registry();
}

const OpDef* find_op(std::string_view name) {
  const auto ops = all_ops();
  const auto it =
      std::lower_bound(ops.begin(), ops.end(), name,
                       [](const OpSchema* op, std::string_view wanted) { return op->name() < wanted; });
  return it != ops.end() && (*it)->name() == name ? *it : nullptr;
}

ValueId emit(Graph& graph, const OpSchema& def, ValueIds inputs, Attributes attributes,
             std::string_view name) {
  const std::array<std::string, 1> names{std::string(name.empty() ? def.name() : name)};
  const OpId id = graph.add_op(def, std::move(inputs), std::move(attributes), names);
  return graph.op(id).outputs.front();
}

std::vector<ValueId> emit_all(Graph& graph, const OpSchema& def, ValueIds inputs, Attributes attributes,
                              std::span<const std::string> names) {
  const OpId id = graph.add_op(def, std::move(inputs), std::move(attributes), names);
  const ValueIds& outputs = graph.op(id).outputs;
  return {outputs.begin(), outputs.end()};
}

ValueId emit_linear(Graph& graph, ValueId x, ValueId weight, ValueId bias, std::string_view name) {
  const ValueId product = emit_matmul(graph, x, MatmulTranspose::kNo, weight, MatmulTranspose::kYes, name);
  return bias == kNoValue ? product : emit(graph, bias_add_op(), {product, bias}, {}, name);
}

ValueId emit_layer_norm(Graph& graph, ValueId x, ValueId gain, ValueId bias, double eps,
                        std::string_view name) {
  const std::string stem(name);
  const std::array<std::string, 2> names{stem + ".normalized", stem + ".rstd"};
  const ValueId normalized = emit_all(graph, normalize_op(), {x}, {{"eps", eps}}, names).front();
  return emit(graph, scale_shift_op(), {normalized, gain, bias}, {}, name);
}

}  // namespace plimsoll
