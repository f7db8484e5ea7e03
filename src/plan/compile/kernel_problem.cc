#include <algorithm>
#include <iterator>
#include <utility>

#include "graph/ops/update_parts.h"
#include "kernels/optimizer/optimizer_catalog.h"
#include "plan/compile/plan.h"

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

bool is_update(std::string_view op) {
  static constexpr std::string_view kUpdates[] = {
      "adafactor", "adagrad", "adagrad_8bit", "adamw", "adamw_8bit", "lion", "lion_8bit", "sgd", "sgd_8bit"};
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

// What the catalog is asked about one op, by families of kernels.
class ProblemOf {
 public:
  ProblemOf(const OpView& op, const Bucket& bucket, const PlanRequest& request)
      : op_(op), bucket_(bucket), request_(request) {
    problem_.op = kernel_of(op.op.def->name());
    problem_.device = request.device.kind;
    problem_.num_threads = request.device.num_threads;
    problem_.isa = request.device.isa;
    problem_.sm = request.device.gpu.sm;
  }

  Problem describe() {
    const std::string_view name = op_.op.def->name();
    if (name == "matmul") {
      product();
    } else if (name == "linear_gelu" || name == "linear_add" || name == "linear_norm") {
      linear();
    } else if (name == "first_token_attention") {
      first_token_attention();
    } else if (name.starts_with("attention")) {
      attention();
    } else if (name == "embedding_sum" || name == "embedding_bwd") {
      embedding();
    } else if (name == "sort_ids") {
      add("T", bucket_.tokens);
      add("V", op_.attributes().integer("rows"));
      add("tables", op_.num_inputs() - 1);
    } else if (is_update(name)) {
      update();
    } else if (name.starts_with("linear_cross_entropy")) {
      linear_cross_entropy();
    } else if (name == "copy") {
      copy();
    } else if (name == "dequantize") {
      problem_.dtype = op_.output(0).type.dtype;
      add("N", op_.out_shape(0).elements(bucket_));
    } else {
      rows(name == "scale_shift_bwd" ? op_.input(2) : op_.input(0));
    }
    return std::move(problem_);
  }

 private:
  void add(std::string_view dim, int64_t value) { problem_.dims.emplace_back(dim, value); }
  void add_type(std::string_view dim, const Value& value) {
    add(dim, static_cast<int64_t>(value.type.dtype));
  }
  // The size of an input.
  void add_size(std::string_view dim, int input, int axis) {
    add(dim, op_.in_shape(input)[axis].at(bucket_));
  }

  // What every product's library is given on a GPU, where it is not as usual.
  void add_workspace() {
    if (request_.products.workspace_bytes != kCublasLtWorkspaceBytes)
      add("workspace", request_.products.workspace_bytes);
  }

  void product() {
    const bool ta = op_.attributes().integer("ta") != 0;
    const bool tb = op_.attributes().integer("tb") != 0;
    problem_.dtype = op_.input(0).type.dtype;
    add_size("M", 0, ta ? 1 : 0);
    add_size("K", 0, ta ? 0 : 1);
    add_size("N", 1, tb ? 0 : 1);
    add("trans_a", ta ? 1 : 0);
    add("trans_b", tb ? 1 : 0);
    add("bias", op_.has_input(2) ? 1 : 0);
    add("writes_add", op_.has_input(3) ? 1 : 0);
    add_type("b", op_.input(1));
    add_type("c", op_.output(0));
    if (request_.precision.fp32_products == Fp32Products::kTf32x3) add("tf32x3", 1);
    add_workspace();
  }

  void linear() {
    problem_.dtype = op_.input(0).type.dtype;
    add_size("T", 0, 0);
    add_size("K", 0, 1);
    add_size("N", 1, 0);
    add_type("w", op_.input(1));
    add_workspace();
  }

  void add_sequences(int64_t columns_of_heads) {
    const int64_t heads = op_.attributes().integer("heads");
    problem_.dtype = op_.input(0).type.dtype;
    add("T", bucket_.tokens);
    add("B", bucket_.sequences);
    add("S", bucket_.longest);
    add("H", heads);
    add("D", columns_of_heads / heads);
  }
  void attention() {
    add_sequences(op_.in_shape(0)[1].offset / 3);
    if (request_.precision.fp32_products == Fp32Products::kTf32) add("tf32", 1);
  }
  void first_token_attention() {
    add_sequences(op_.out_shape(0)[1].offset);
    add("C", op_.in_shape(0)[1].offset);
    add_type("w", op_.input(1));
  }

  void embedding() {
    const bool is_backward = op_.op.def->name() == "embedding_bwd";
    const Value& value = op_.input(is_backward ? 1 : 2);
    problem_.dtype = value.type.dtype;
    add("T", bucket_.tokens);
    add("C", value.type.shape[1].offset);
    add("V", is_backward ? op_.attributes().integer("rows") : value.type.shape[0].offset);
    if (!is_backward) add("tables", (op_.num_inputs() - 1) / 2);
  }

  void update() {
    // What is kept in bf16, in part or alone, is fp32 where it is computed with.
    const bool computes_in_f32 =
        op_.attributes().integer_or("split", 0) != 0 || op_.attributes().has("noise_site");
    problem_.dtype = computes_in_f32 ? DType::kF32 : op_.input(4).type.dtype;
    if (op_.op.def->name() == "adafactor") add("scratch", adafactor_scratch_bytes(op_));
  }

  void linear_cross_entropy() {
    problem_.dtype = op_.input(0).type.dtype;
    add_size("B", 0, 0);
    add_size("H", 0, 1);
    add_size("K", 1, 0);
    add("chunk", op_.attributes().integer("chunk_rows"));
    add_type("w", op_.input(1));
    add_type("d_w", op_.op.def->name().ends_with("_grad") ? op_.output(0) : op_.input(1));
    add_workspace();
  }

  // Bytes of any type; fp32 stands for all.
  void copy() {
    int64_t bytes = 0;
    for (int i = 0; i < op_.num_outputs(); ++i)
      bytes += std::min(op_.input(i).bytes(bucket_), op_.output(i).bytes(bucket_));
    add("N", bytes);
  }

  // Element-wise and row-wise ops: rows, columns and elements of an operand.
  void rows(const Value& of) {
    const Shape& shape = of.type.shape;
    const int64_t elements = shape.elements(bucket_);
    const int64_t num_rows = shape.rank() == 2 ? shape[0].at(bucket_) : 1;
    const int64_t columns = shape.rank() == 2 ? shape[1].at(bucket_) : elements;
    problem_.dtype = of.type.dtype;
    add("T", num_rows);
    add("B", num_rows);
    add("C", columns);
    add("K", columns);
    add("N", elements);
  }

  const OpView& op_;
  const Bucket& bucket_;
  const PlanRequest& request_;
  Problem problem_;
};

}  // namespace

Problem kernel_problem(const OpView& op, const Bucket& bucket, const PlanRequest& request) {
  return ProblemOf(op, bucket, request).describe();
}

}  // namespace plimsoll
