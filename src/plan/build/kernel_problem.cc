#include <algorithm>
#include <iterator>

#include "graph/ops/update_parts.h"
#include "kernels/optimizer/catalog.h"
#include "plan/build/plan.h"

namespace plimsoll {
namespace {

// The kernel that computes an op, where its name is not the op's own.
std::string_view kernel_of(std::string_view op) {
  struct Pair {
    std::string_view op;
    std::string_view kernel;
  };
  static constexpr Pair kForward[] = {
      {"add", "add_fwd"},
      {"add_columns", "add_columns_fwd"},
      {"attention", "attention_fwd"},
      {"bce_with_logits", "bce_with_logits_fwd"},
      {"bias_add", "bias_add_fwd"},
      {"bias_dropout_residual_norm", "bias_dropout_residual_norm_fwd"},
      {"bias_gelu", "bias_gelu_fwd"},
      {"cast", "cast_fwd"},
      {"columns", "columns_fwd"},
      {"dropout", "dropout_fwd"},
      {"embedding_sum", "embedding_sum_fwd"},
      {"first_token", "first_token_fwd"},
      {"gelu", "gelu_fwd"},
      {"linear_cross_entropy", "linear_cross_entropy_fwd"},
      {"log_softmax", "log_softmax_fwd"},
      {"mse", "mse_fwd"},
      {"nll", "nll_fwd"},
      {"normalize", "normalize_fwd"},
      {"relu", "relu_fwd"},
      {"scale_shift", "scale_shift_fwd"},
      {"softmax_cross_entropy", "softmax_cross_entropy_fwd"},
      {"tanh", "tanh_fwd"},
  };
  for (const Pair& pair : kForward) {
    if (pair.op == op) return pair.kernel;
  }
  return op;
}

int64_t size_at(const Shape& shape, int dim, const Bucket& bucket) {
  return shape[dim].at(bucket);
}

bool is_update(std::string_view op) {
  static constexpr std::string_view kUpdates[] = {"adafactor", "adagrad",   "adamw", "adamw_8bit",
                                                  "lion",      "lion_8bit", "sgd"};
  return std::ranges::find(kUpdates, op) != std::end(kUpdates);
}

// Of all parts of all parameters of the op.
int64_t adafactor_scratch_bytes(const OpView& op) {
  const bool factored = op.attributes().integer("factored") != 0;
  const std::vector<std::vector<int64_t>> rows = part_rows_of(op.attributes());
  const int stride = (op.num_inputs() - 4) / static_cast<int>(rows.size());
  int64_t bytes = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t columns = elements_per_row(op.in_shape(4 + static_cast<int>(i) * stride));
    for (const int64_t part : rows[i]) {
      bytes += adafactor_scratch(factored ? part : 1, factored ? columns : part, factored).bytes;
    }
  }
  return bytes;
}

}  // namespace

Problem kernel_problem(const OpView& op, const Bucket& bucket, const PlanRequest& request) {
  const std::string_view name = op.op.def->name();
  Problem problem;
  problem.op = kernel_of(name);
  problem.device = request.device;
  problem.num_threads = request.num_threads;
  problem.isa = request.isa;
  problem.sm = request.gpu.sm;
  const auto add = [&](std::string_view dim, int64_t value) { problem.dims.emplace_back(dim, value); };
  if (name == "matmul") {
    const bool ta = op.attributes().integer("ta") != 0;
    const bool tb = op.attributes().integer("tb") != 0;
    problem.dtype = op.input(0).type.dtype;
    add("M", size_at(op.in_shape(0), ta ? 1 : 0, bucket));
    add("K", size_at(op.in_shape(0), ta ? 0 : 1, bucket));
    add("N", size_at(op.in_shape(1), tb ? 0 : 1, bucket));
    add("trans_a", ta ? 1 : 0);
    add("trans_b", tb ? 1 : 0);

    add("writes_add", op.has_input(3) ? 1 : 0);
    add("b", static_cast<int64_t>(op.input(1).type.dtype));
    add("c", static_cast<int64_t>(op.output(0).type.dtype));
    if (request.fp32_products == Fp32Products::kTf32x3) add("tf32x3", 1);
    return problem;
  }
  if (name == "linear_gelu" || name == "linear_add") {
    problem.dtype = op.input(0).type.dtype;
    add("T", size_at(op.in_shape(0), 0, bucket));
    add("K", size_at(op.in_shape(0), 1, bucket));
    add("N", size_at(op.in_shape(1), 0, bucket));
    add("w", static_cast<int64_t>(op.input(1).type.dtype));
    return problem;
  }
  if (name == "first_token_attention") {
    problem.dtype = op.input(0).type.dtype;
    add("T", bucket.tokens);
    add("B", bucket.sequences);
    add("S", bucket.longest);
    add("H", op.attributes().integer("heads"));
    add("D", op.out_shape(0)[1].offset / op.attributes().integer("heads"));
    add("C", op.in_shape(0)[1].offset);
    add("w", static_cast<int64_t>(op.input(1).type.dtype));
    return problem;
  }
  if (name.starts_with("attention")) {
    const int64_t heads = op.attributes().integer("heads");
    problem.dtype = op.input(0).type.dtype;
    add("T", bucket.tokens);
    add("B", bucket.sequences);
    add("S", bucket.longest);
    add("H", heads);
    add("D", op.in_shape(0)[1].offset / 3 / heads);
    if (request.fp32_products == Fp32Products::kTf32) add("tf32", 1);
    return problem;
  }
  if (name == "embedding_sum" || name == "embedding_bwd") {
    const Value& value = op.input(2);
    problem.dtype = value.type.dtype;
    add("T", bucket.tokens);
    add("C", value.type.shape[1].offset);
    add("V", name == "embedding_bwd" ? op.attributes().integer("rows") : value.type.shape[0].offset);
    add("tables", (op.num_inputs() - 1) / 2);
    return problem;
  }
  if (is_update(name)) {
    // What is kept in bf16, in part or alone, is fp32 where it is computed with.
    const bool computes_in_f32 =
        op.attributes().integer_or("split", 0) != 0 || op.attributes().has("noise_site");
    problem.dtype = computes_in_f32 ? DType::kF32 : op.input(4).type.dtype;
    if (name == "adafactor") add("scratch", adafactor_scratch_bytes(op));
    return problem;
  }
  if (name.starts_with("linear_cross_entropy")) {
    const DType d_w = (name.ends_with("_grad") ? op.output(0) : op.input(1)).type.dtype;
    problem.dtype = op.input(0).type.dtype;
    add("B", size_at(op.in_shape(0), 0, bucket));
    add("H", size_at(op.in_shape(0), 1, bucket));
    add("K", size_at(op.in_shape(1), 0, bucket));
    add("chunk", op.attributes().integer("chunk_rows"));
    add("w", static_cast<int64_t>(op.input(1).type.dtype));
    add("d_w", static_cast<int64_t>(d_w));
    return problem;
  }
  if (name == "copy") {
    // Bytes of any type; fp32 stands for all.
    int64_t bytes = 0;
    for (int i = 0; i < op.num_outputs(); ++i)
      bytes += std::min(op.input(i).bytes(bucket), op.output(i).bytes(bucket));
    add("N", bytes);
    return problem;
  }
  if (name == "dequantize") {
    problem.dtype = op.output(0).type.dtype;
    add("N", op.out_shape(0).elements(bucket));
    return problem;
  }
  // Element-wise and row-wise ops: rows, columns and elements of the first operand.
  const Value& first = name == "scale_shift_bwd" ? op.input(2) : op.input(0);
  problem.dtype = first.type.dtype;
  const Shape& shape = first.type.shape;
  const int64_t elements = shape.elements(bucket);
  const int64_t columns = shape.rank() == 2 ? size_at(shape, 1, bucket) : elements;
  add("T", shape.rank() == 2 ? size_at(shape, 0, bucket) : 1);
  add("B", shape.rank() == 2 ? size_at(shape, 0, bucket) : 1);
  add("C", columns);
  add("K", columns);
  add("N", elements);
  return problem;
}

}  // namespace plimsoll
