// The matrix products of a plan, as the tuning table and the executor ask for them.
#include "plan/compile/products.h"

namespace plimsoll {

namespace {

// That of an op which begins as a linear layer: x[T, K], w[N, K].
PlannedProduct planned_layer(const OpView& op, const Bucket& bucket, const PlanRequest& request,
                             MatmulWrites writes) {
  return {.problem = {.m = op.out_shape(0)[0].at(bucket),
                      .n = op.out_shape(0)[1].at(bucket),
                      .k = op.in_shape(0)[1].at(bucket),
                      .trans_b = Transpose::kYes,
                      .a = op.input(0).type.dtype,
                      .b = op.input(1).type.dtype,
                      .c = op.output(0).type.dtype,
                      .writes = writes,
                      .num_threads = request.device.num_threads,
                      .isa = request.device.isa,
                      .workspace_bytes = request.products.workspace_bytes}};
}

bool is_product(const Op& op) {
  return op.def->name() == "matmul" || op.def->name() == "linear_add";
}

// What a kernel of ours computes in this bucket is none of the library's.
bool is_own(const PlannedProduct& product, std::string_view kernel, const PlanRequest& request) {
  return is_own_product(kernel) && matmul_takes_own_product(product.problem, request.device.gpu.sm);
}

}  // namespace

bool is_own_product(std::string_view implementation) {
  return implementation == "matmul_cuda_wgmma" || implementation == "linear_add_cuda_wgmma";
}

PlannedProduct planned_product(const OpView& op, const Bucket& bucket, const PlanRequest& request,
                               std::string_view kernel) {
  if (op.op.def->name() == "linear_add") return planned_layer(op, bucket, request, MatmulWrites::kAddend);
  const bool ta = op.attributes().integer("ta") != 0;
  const bool tb = op.attributes().integer("tb") != 0;
  PlannedProduct product{.fp32 = request.precision.fp32_products};
  // What the plan leaves to the library alone is plain fp32 where others are three products.
  if (product.fp32 == Fp32Products::kTf32x3 && kernel != "matmul_cuda_tf32x3")
    product.fp32 = Fp32Products::kF32;
  product.problem = {.m = op.out_shape(0)[0].at(bucket),
                     .n = op.out_shape(0)[1].at(bucket),
                     .k = op.in_shape(0)[ta ? 0 : 1].at(bucket),
                     .trans_a = ta ? Transpose::kYes : Transpose::kNo,
                     .trans_b = tb ? Transpose::kYes : Transpose::kNo,
                     .a = op.input(0).type.dtype,
                     .b = op.input(1).type.dtype,
                     .c = op.output(0).type.dtype,
                     .bias_dtype = op.has_input(2) ? op.input(2).type.dtype : DType::kF32,
                     .bias = op.has_input(2) ? MatmulBias::kRow : MatmulBias::kNone,
                     .writes = op.has_input(3) ? MatmulWrites::kOverwriteOrAdd : MatmulWrites::kOverwriteOnly,
                     .num_threads = request.device.num_threads,
                     .isa = request.device.isa,
                     .workspace_bytes = request.products.workspace_bytes};
  if (kernel == "matmul_cpu_amx") product.problem.cpu_products = CpuProducts::kAmxParts;
  return product;
}

std::map<ProductKey, std::pair<PlannedProduct, int64_t>> products_of(const ProgramPlan& program,
                                                                     const Bucket& bucket,
                                                                     const PlanRequest& request) {
  std::map<ProductKey, std::pair<PlannedProduct, int64_t>> products;
  if (request.device.kind != KernelDevice::kCuda) return products;
  for (size_t i = 0; i < program.graph.ops().size(); ++i) {
    const OpView op{program.graph, program.graph.ops()[i]};
    if (!is_product(op.op) || program.ops[i].kernel == nullptr) continue;
    const std::string_view kernel = program.ops[i].kernel->implementation;
    const PlannedProduct product = planned_product(op, bucket, request, kernel);
    if (is_own(product, kernel, request)) continue;
    auto& [planned, count] = products[product_key(product.problem, product.fp32)];
    planned = product;
    ++count;
  }
  return products;
}

std::map<ProductKey, OwnProduct> own_products_of(const ProgramPlan& program, const Bucket& bucket,
                                                 const PlanRequest& request) {
  std::map<ProductKey, OwnProduct> products;
  if (request.device.kind != KernelDevice::kCuda) return products;
  for (size_t i = 0; i < program.graph.ops().size(); ++i) {
    const OpView op{program.graph, program.graph.ops()[i]};
    if (program.ops[i].kernel == nullptr) continue;
    const std::string_view kernel = program.ops[i].kernel->implementation;
    const std::string_view name = op.op.def->name();
    ProductKey key;
    if (is_product(op.op)) {
      const PlannedProduct product = planned_product(op, bucket, request, kernel);
      if (!is_own(product, kernel, request)) continue;
      key = product_key(product.problem, product.fp32);
    } else if (name == "linear_gelu" || name == "linear_norm") {
      const PlannedProduct product = planned_layer(op, bucket, request, MatmulWrites::kOverwriteOnly);
      key = product_key(product.problem, product.fp32);
      key.form += name == "linear_gelu" ? " gelu" : " norm";
    } else {
      continue;
    }
    OwnProduct& own = products[key];
    own.kernel = kernel;
    own.is_part = !is_product(op.op);
    ++own.count;
  }
  return products;
}

}  // namespace plimsoll
