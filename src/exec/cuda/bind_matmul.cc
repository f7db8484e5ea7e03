#include "exec/cuda/bind_cuda.h"
#include "kernels/matmul/linear_gelu_cuda.h"
#include "kernels/matmul/matmul_cuda.h"

namespace plimsoll {

namespace {

std::function<void()> bind_linear_gelu(const BindContext& context, CudaStream stream) {
  std::shared_ptr<CudaLinearGelu> linear = prepare_linear_gelu_cuda(linear_gelu_problem(context));
  return [linear, args = linear_gelu_args(context), stream] { linear->run(args, stream); };
}

}  // namespace

std::function<void()> bind_matmul_cuda(const BindContext& context, CudaStream stream) {
  if (context.op().def->name() == "linear_gelu") return bind_linear_gelu(context, stream);
  if (context.op().def->name() != "matmul" && context.op().def->name() != "linear_add") return {};
  const PlannedProduct product =
      planned_product(context.view(), context.bucket(), context.request(), context.kernel());
  const TuningTable& table = context.request().tuning;
  const TunedProduct* tuned = table.empty() || table.library != matmul_library_cuda()
                                  ? nullptr
                                  : table.nearest(product_key(product.problem, product.fp32));
  std::shared_ptr<CudaMatmul> matmul = prepare_matmul_cuda(product.problem, product.fp32, tuned);
  return [matmul, args = matmul_args(context), flag = accumulate_of(context), stream] {
    matmul->run(args, flag, stream);
  };
}

}  // namespace plimsoll
