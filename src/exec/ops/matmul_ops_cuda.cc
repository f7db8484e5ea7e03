#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>

#include "device/cuda/cuda_error.h"
#include "exec/ops/call.h"
#include "exec/ops/call_cuda.h"
#include "exec/ops/family_ops.h"
#include "kernels/matmul/matmul_cuda.h"

namespace plimsoll {

namespace {

// Makes the initcheck tool of compute-sanitizer regard the output of a product as written. A product may store its output by
// Hopper's copy engine (TMA), whose writes initcheck does not see, so it would report every op that reads the output. If the plan
// keeps buffers separate, as for such tools, the output is set to NaNs before the product. A read of it before the product has
// run is still detected, because the NaNs appear in later results. This is not done for a product that may add to its output.
std::function<void()> visible_to_initcheck(const BindContext& context, std::function<void()> product,
                                           CudaStream stream) {
  if (!context.request().separate_buffers || AccumulateFlag(context).on_device() != nullptr) return product;
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

// Returns whether the weight of a matrix product stays constant during a run of the program, so that it can be prepared once.
SecondOperand weight_of(const BindContext& context) {
  return context.is_constant_weight(MatmulOp::kB) ? SecondOperand::kConstant : SecondOperand::kVariable;
}

// Returns the algorithm that tuning chose for a matrix product, or null.
const TunedProduct* tuned_choice(const BindContext& context, const PlannedMatmul& matmul) {
  const TuningTable& table = context.request().products.tuning;
  if (table.empty() || table.library != matmul_library_cuda()) return nullptr;
  return table.nearest(product_key(matmul.problem, matmul.fp32));
}

// Prepares a matrix product by a kernel of Plimsoll or by the library, with the algorithm that tuning has chosen, if any. The
// plan chose the kernel for the largest batches; for batch sizes (a bucket) with few rows, a kernel for few rows is used instead.
std::shared_ptr<CudaMatmul> prepare(const BindContext& context) {
  const PlannedMatmul matmul = planned_matmul(context);
  if (matmul_takes_few_rows_cuda(matmul.problem, context.target().sm))
    return prepare_few_rows_matmul_cuda(matmul.problem, weight_of(context));
  const TunedProduct* tuned = tuned_choice(context, matmul);
  return is_custom_matmul(context.kernel())
             ? prepare_matmul_wgmma_cuda(matmul.problem, context.target().sm, tuned)
             : prepare_matmul_cuda(matmul.problem, matmul.fp32, tuned);
}

}  // namespace

std::function<void()> bind_matmul_cuda(const BindContext& context, CudaStream stream) {
  return visible_to_initcheck(
      context,
      [matmul = prepare(context), args = matmul_args(context), flag = AccumulateFlag(context).on_device(),
       stream] { matmul->run(args, flag, stream); },
      stream);
}

std::function<void()> bind_scaled_matmul_cuda(const BindContext& context, CudaStream stream) {
  return visible_to_initcheck(
      context,
      [matmul = prepare(context), args = scaled_matmul_args(context),
       flag = AccumulateFlag(context).on_device(), stream] { matmul->run(args, flag, stream); },
      stream);
}

std::function<void()> bind_linear_add_cuda(const BindContext& context, CudaStream stream) {
  return visible_to_initcheck(
      context,
      [matmul = prepare(context), args = linear_add_args(context), stream] {
        matmul->run(args, nullptr, stream);
      },
      stream);
}

std::function<void()> bind_linear_gelu_cuda(const BindContext& context, CudaStream stream) {
  std::shared_ptr<CudaMatmul> linear = prepare_linear_gelu_cuda(linear_problem(context));
  return visible_to_initcheck(
      context, [linear, args = matmul_args(context), stream] { linear->run(args, nullptr, stream); }, stream);
}

std::function<void()> bind_linear_norm_cuda(const BindContext& context, CudaStream stream) {
  const auto layer = std::make_shared<CudaLinearNorm>(linear_problem(context));
  return visible_to_initcheck(
      context, [layer, args = linear_norm_args(context), stream] { layer->run(args, stream); }, stream);
}

std::function<void()> bind_norm_linear_cuda(const BindContext& context, CudaStream stream) {
  using Layer = NormLinearOp;
  const bool are_constant = std::ranges::all_of(
      std::array{Layer::kW, Layer::kNormBias, Layer::kGain, Layer::kBeta},
      [&](int i) { return !context.view().has_input(i) || context.is_constant_weight(i); });
  std::shared_ptr<CudaNormLinear> layer =
      prepare_norm_linear_cuda(norm_linear_problem(context), context.target().sm,
                               are_constant ? SecondOperand::kConstant : SecondOperand::kVariable,
                               tuned_choice(context, planned_matmul(context)));
  return visible_to_initcheck(
      context, [layer, args = norm_linear_args(context), stream] { layer->run(args, stream); }, stream);
}

}  // namespace plimsoll
