// Shared code of the ops that compute the last matrix product of a classifier together with its loss, in chunks of rows
// (linear_cross_entropy.cc, linear_class_sums.cc). Their first inputs are x_BH, w_KH and bias_K. Pure; thread-safe.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "graph/ops/ops.h"
#include "graph/ops/sum_type.h"

namespace plimsoll {

struct LinearLossOp {
  enum In { kX, kW, kBias };

  // Returns the FLOPs of x w^T for a batch with the sizes in `bucket`. Each matrix product of the backward pass has the same number of
  // FLOPs.
  static double product_flops(const OpView& op, const Bucket& bucket) {
    return 2.0 * static_cast<double>(op.in_shape(kX).elements(bucket)) *
           static_cast<double>(op.in_shape(kW)[0].at(bucket));
  }
  static double num_logits(const OpView& op, const Bucket& bucket) {
    return static_cast<double>(op.in_shape(kX)[0].at(bucket)) *
           static_cast<double>(op.in_shape(kW)[0].at(bucket));
  }
  static double logit_bytes(const OpView& op, const Bucket& bucket) {
    return static_cast<double>(dtype_bytes(op.input(kX).type.dtype)) * num_logits(op, bucket);
  }
  // Returns the bytes by which processing rows in chunks increases the reads of the weight, or the reads or the writes of its gradient:
  // each chunk after the first one reads or writes this matrix once more.
  static double bytes_of_later_chunks(const OpView& op, const Bucket& bucket) {
    const int64_t rows = op.in_shape(kX)[0].at(bucket);
    const int64_t chunk = op.attributes().integer("chunk_rows");
    const int64_t later = std::max<int64_t>(0, (rows + chunk - 1) / chunk - 1);
    return static_cast<double>(later * op.input(kW).bytes(bucket));
  }
  // Emits x w^T + bias in the type of x, and a cast to fp32 if that type has 16 bits. Returns the logits that the loss reads.
  static ValueId emit_logits(Graph& graph, const Op& op) {
    const ValueId product =
        emit(graph, matmul_op(), {op.inputs[kX], op.inputs[kW], op.inputs[kBias], kNoValue, kNoValue},
             {{"ta", int64_t{0}}, {"tb", int64_t{1}}}, "logits");
    if (dtype_bytes(graph.value(product).type.dtype) > 2) return product;
    return emit(graph, cast_op(), {product}, {{"dtype", std::string(dtype_name(DType::kF32))}});
  }
  // Emits a cast of the gradients of the logits to the type of x, if they have another type. The matrix products that compute the gradients
  // of the layer need this type.
  static ValueId emit_narrowed(Graph& graph, const Op& op, ValueId d_logits) {
    const DType dtype = graph.value(op.inputs[kX]).type.dtype;
    if (graph.value(d_logits).type.dtype == dtype) return d_logits;
    return emit(graph, cast_op(), {d_logits}, {{"dtype", std::string(dtype_name(dtype))}});
  }

  // Returns the types of d_w and, with a bias, of d_bias. `into_w` is the position of the optional input to which d_w is added. The next
  // input is the one to which d_bias is added.
  static std::vector<ValueType> parameter_gradient_types(const OpView& op, int into_w) {
    const int into_bias = into_w + 1;
    for (const auto& [into, differentiated] : {std::pair{into_w, int{kW}}, {into_bias, int{kBias}}}) {
      if (!op.has_input(into)) continue;
      expect_operands(op.has_input(differentiated) && op.in_shape(into) == op.in_shape(differentiated), op,
                      "an 'into' operand with the shape of w or bias");
    }
    ValueType d_w{op.input(kW).type.dtype, op.in_shape(kW)};
    if (op.attributes().has("gradient_dtype"))
      d_w.dtype = *parse_dtype(op.attributes().word("gradient_dtype"));
    if (op.has_input(into_w)) d_w.dtype = op.input(into_w).type.dtype;
    std::vector<ValueType> types{d_w};
    if (op.has_input(kBias)) types.push_back(sum_type(op.input(kBias).type));
    return types;
  }

  // Emits d_w and, with a bias, d_bias from the gradients of the logits. Input `into_w` of the op is the value to which d_w is added. The
  // two inputs after it are the value to which d_bias is added, and the accumulation flag. Output `d_w` of the op is d_w, and the next
  // output is d_bias.
  static std::vector<ValueId> emit_parameter_gradients(Graph& graph, const Op& op, ValueId d_logits,
                                                       int into_w, int d_w) {
    const auto in = [&](int i) { return op.inputs[static_cast<size_t>(i)]; };
    const auto type_of = [&](int output) {
      return graph.value(op.outputs[static_cast<size_t>(output)]).type.dtype;
    };
    Attributes by_columns{{"ta", int64_t{1}}, {"tb", int64_t{0}}};
    if (type_of(d_w) != graph.value(d_logits).type.dtype)
      by_columns.set("dtype", std::string(dtype_name(type_of(d_w))));
    std::vector<ValueId> out{emit(
        graph, matmul_op(), {d_logits, in(kX), kNoValue, in(into_w), in(into_w + 2)}, std::move(by_columns))};
    if (in(kBias) != kNoValue) {
      out.push_back(emit(graph, bias_grad_op(), {d_logits, in(into_w + 1), in(into_w + 2)},
                         {{"dtype", std::string(dtype_name(type_of(d_w + 1)))}}));
    }
    return out;
  }
};

}  // namespace plimsoll
