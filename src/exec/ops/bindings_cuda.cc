#include "exec/ops/bindings.h"

#include <unordered_map>

#include "exec/ops/call.h"
#include "exec/ops/call_cuda.h"
#include "exec/ops/family_ops.h"
#include "graph/ops/dequantize.h"
#include "graph/ops/ops.h"
#include "kernels/attention/attention_cuda.h"

namespace plimsoll {

namespace {

using BindCuda = std::function<void()> (*)(const BindContext&, CudaStream);

#define PLIMSOLL_BINDING(op, kernel, args, ...) \
  {&op##_op(), bind_launch<kernel##_cuda, args __VA_OPT__(, ) __VA_ARGS__>},
#define PLIMSOLL_TENSORS_BINDING(op, kernel, args, tensors) \
  {&op##_op(), bind_tensors_launch<kernel##_cuda, args, tensors>},
#define PLIMSOLL_UPDATE_BINDING(kind, name, frame) \
  {&update_op(OptimizerKind::kind),                \
   bind_tensors_launch<name##_cuda, update_args<name##_ref>, update_tensors<UpdateFrame::frame>>},
#define PLIMSOLL_OWN_BINDING(op) {&op##_op(), bind_##op##_cuda},
const std::unordered_map<const OpDef*, BindCuda>& cuda_bindings() {
  static const std::unordered_map<const OpDef*, BindCuda> bindings{
#include "exec/ops/bindings.inc"
  };
  return bindings;
}
#undef PLIMSOLL_OWN_BINDING
#undef PLIMSOLL_UPDATE_BINDING
#undef PLIMSOLL_TENSORS_BINDING
#undef PLIMSOLL_BINDING

}  // namespace

std::function<void()> bind_cuda(const BindContext& context, CudaStream stream) {
  const auto found = cuda_bindings().find(context.op().def);
  PLIMSOLL_CHECK(found != cuda_bindings().end(), "the op '{}' has no binding", context.op().def->name());
  return found->second(context, stream);
}

std::function<void()> bind_attention_cuda(const BindContext& context, CudaStream stream) {
  const AttentionFwdArgs args = attention_args(context);
  return [run = attention_fwd_cuda_of(context.kernel(), args.dims), args, random = RandomState(context),
          stream] { run(args, random.on_device(), stream); };
}
std::function<void()> bind_attention_bwd_cuda(const BindContext& context, CudaStream stream) {
  const AttentionBwdArgs args = attention_bwd_args(context);
  return [run = attention_bwd_cuda_of(context.kernel(), args.dims), args, random = RandomState(context),
          stream] { run(args, random.on_device(), stream); };
}
std::function<void()> bind_first_token_attention_cuda(const BindContext& context, CudaStream stream) {
  return bind_launch<first_token_attention_cuda, first_token_attention_args>(context, stream);
}

std::function<void()> bind_quantize_fp8_cuda(const BindContext& context, CudaStream stream) {
  return [args = quantize_fp8_args(context), num_rows = NumTokens(context).on_device(),
          flag = AccumulateFlag(context).on_device(),
          stream] { quantize_fp8_cuda(args, num_rows, flag, stream); };
}

std::function<void()> bind_copy_cuda(const BindContext& context, CudaStream stream) {
  return [copies = copy_args(context), stream] {
    for (const CopyArgs& copy : copies) copy_cuda(copy, stream);
  };
}

namespace {

template <typename Args, typename Prepare>
std::function<void()> bind_chunks_cuda(const BindContext& context, const Args& args, Prepare prepare,
                                       CudaStream stream) {
  std::shared_ptr<CudaLossChunks<Args>> loss = prepare(linear_cross_entropy_problem(context));
  return [loss, args, flag = AccumulateFlag(context).on_device(), stream] { loss->run(args, flag, stream); };
}

}  // namespace

std::function<void()> bind_linear_cross_entropy_cuda(const BindContext& context, CudaStream stream) {
  return bind_chunks_cuda(context, linear_cross_entropy_args(context), prepare_linear_cross_entropy_fwd_cuda,
                          stream);
}
std::function<void()> bind_linear_cross_entropy_bwd_cuda(const BindContext& context, CudaStream stream) {
  return bind_chunks_cuda(context, linear_cross_entropy_bwd_args(context),
                          prepare_linear_cross_entropy_bwd_cuda, stream);
}
std::function<void()> bind_linear_cross_entropy_grad_cuda(const BindContext& context, CudaStream stream) {
  return bind_chunks_cuda(context, linear_cross_entropy_grad_args(context),
                          prepare_linear_cross_entropy_grad_cuda, stream);
}
std::function<void()> bind_linear_cross_entropy_with_gradients_cuda(const BindContext& context,
                                                                    CudaStream stream) {
  return bind_chunks_cuda(context, linear_cross_entropy_with_gradients_args(context),
                          prepare_linear_cross_entropy_with_gradients_cuda, stream);
}

}  // namespace plimsoll
