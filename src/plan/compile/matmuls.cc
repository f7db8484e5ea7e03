#include "plan/compile/kernel_choice.h"

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

// Returns true if one of Plimsoll's own kernels, and not a library, computes the matrix product of these sizes.
bool is_custom(const PlannedMatmul& matmul, std::string_view implementation, const PlanRequest& request) {
  return is_custom_matmul(implementation) && matmul_takes_own_product(matmul.problem, request.device.gpu.sm);
}

// Calls visit(op, implementation, matmul) for each op that computes a matrix product. Does nothing unless the device is a GPU.
template <typename Visit>
void for_each_matmul(const ProgramPlan& program, const Bucket& bucket, const PlanRequest& request,
                     const Visit& visit) {
  if (request.device.kind != KernelDevice::kCuda) return;
  const KernelTarget target = kernel_target(request);
  for (size_t i = 0; i < program.graph.ops().size(); ++i) {
    const OpView op{program.graph, program.graph.ops()[i]};
    const bool has_matmul = is_single_matmul(op.op) || op.op.def == &linear_gelu_op() ||
                            op.op.def == &linear_norm_op() || op.op.def == &norm_linear_op();
    if (!has_matmul || program.ops[i].kernel == nullptr) continue;
    const std::string_view implementation = program.ops[i].kernel->implementation;
    visit(op.op, implementation, planned_matmul(op, bucket, target, implementation));
  }
}

}  // namespace

std::map<ProductKey, LibraryMatmul> list_matmuls(const ProgramPlan& program, const Bucket& bucket,
                                                 const PlanRequest& request) {
  std::map<ProductKey, LibraryMatmul> matmuls;
  for_each_matmul(program, bucket, request,
                  [&](const Op& op, std::string_view implementation, const PlannedMatmul& matmul) {
                    if (!is_single_matmul(op) || is_custom(matmul, implementation, request)) return;
                    LibraryMatmul& entry = matmuls[product_key(matmul.problem, matmul.fp32)];
                    entry.matmul = matmul;
                    ++entry.count;
                  });
  return matmuls;
}

std::map<ProductKey, CustomMatmul> list_custom_matmuls(const ProgramPlan& program, const Bucket& bucket,
                                                       const PlanRequest& request) {
  std::map<ProductKey, CustomMatmul> matmuls;
  for_each_matmul(program, bucket, request,
                  [&](const Op& op, std::string_view implementation, const PlannedMatmul& matmul) {
                    if (is_single_matmul(op) && !is_custom(matmul, implementation, request)) return;
                    ProductKey key = product_key(matmul.problem, matmul.fp32);
                    if (op.def == &linear_gelu_op()) key.form += " gelu";
                    if (op.def == &linear_norm_op()) key.form += " norm";
                    if (op.def == &norm_linear_op()) key.form += " after a norm";
                    CustomMatmul& entry = matmuls[key];
                    entry.kernel = implementation;
                    entry.is_part = !is_single_matmul(op);
                    ++entry.count;
                  });
  return matmuls;
}

}  // namespace plimsoll
