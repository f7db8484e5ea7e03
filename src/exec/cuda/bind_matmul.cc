#include <cuda_runtime_api.h>

#include "device/cuda/cuda_error.h"
#include "exec/cuda/bind_cuda.h"
#include "kernels/matmul/linear_gelu.h"
#include "kernels/matmul/linear_norm.h"
#include "kernels/matmul/matmul_cuda.h"
#include "plan/compile/products.h"

namespace plimsoll {

namespace {

// compute-sanitizer's initcheck does not see what a product writes by Hopper's copy engine, and would report
// whoever reads it. So where buffers are separate, for such tools, the bytes that the product is about to
// write are written before it, with NaNs. What is read before its product has run is still found. A product
// that may add to its output leaves it alone.
std::function<void()> seen_by_initcheck(const BindContext& context, std::function<void()> product,
                                        CudaStream stream) {
  if (!context.request().separate_buffers || accumulate_of(context) != nullptr) return product;
  const View output = context.output(0), scratch = context.scratch();
  const auto output_bytes = static_cast<size_t>(context.output_elements(0) * dtype_bytes(output.dtype));
  const auto scratch_bytes = static_cast<size_t>(context.scratch_bytes());
  bool in_place = false;
  for (int i = 0; i < context.view().num_inputs(); ++i)
    in_place = in_place || (context.has_input(i) && context.input(i).data == output.data);
  return [=] {
    if (!in_place) PLIMSOLL_CUDA(cudaMemsetAsync(output.data, 0xff, output_bytes, stream));
    if (scratch_bytes > 0) PLIMSOLL_CUDA(cudaMemsetAsync(scratch.data, 0xff, scratch_bytes, stream));
    product();
  };
}

std::function<void()> bind_linear_gelu(const BindContext& context, CudaStream stream) {
  std::shared_ptr<CudaMatmul> linear = prepare_linear_gelu_cuda(linear_problem(context));
  return seen_by_initcheck(
      context, [linear, args = matmul_args(context), stream] { linear->run(args, nullptr, stream); }, stream);
}

std::function<void()> bind_linear_norm(const BindContext& context, CudaStream stream) {
  const auto layer = std::make_shared<CudaLinearNorm>(linear_problem(context));
  return seen_by_initcheck(
      context, [layer, args = linear_norm_args(context), stream] { layer->run(args, stream); }, stream);
}

}  // namespace

std::function<void()> bind_matmul_cuda(const BindContext& context, CudaStream stream) {
  if (context.op().def->name() == "linear_gelu") return bind_linear_gelu(context, stream);
  if (context.op().def->name() == "linear_norm") return bind_linear_norm(context, stream);
  if (context.op().def->name() != "matmul" && context.op().def->name() != "linear_add") return {};
  const PlannedProduct product =
      planned_product(context.view(), context.bucket(), context.request(), context.kernel());
  const TuningTable& table = context.request().products.tuning;
  const TunedProduct* tuned = table.empty() || table.library != matmul_library_cuda()
                                  ? nullptr
                                  : table.nearest(product_key(product.problem, product.fp32));
  std::shared_ptr<CudaMatmul> matmul =
      is_own_product(context.kernel())
          ? prepare_matmul_wgmma_cuda(product.problem, context.request().device.gpu.sm, tuned)
          : prepare_matmul_cuda(product.problem, product.fp32, tuned);
  return seen_by_initcheck(
      context,
      [matmul, args = matmul_args(context), flag = accumulate_of(context), stream] {
        matmul->run(args, flag, stream);
      },
      stream);
}

}  // namespace plimsoll
