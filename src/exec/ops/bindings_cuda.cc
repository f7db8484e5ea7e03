#include "exec/ops/bindings.h"

#include <typeinfo>
#include <unordered_map>
#include <vector>

#include "exec/ops/call.h"
#include "exec/ops/call_cuda.h"
#include "exec/ops/family_ops.h"
#include "graph/ops/dequantize.h"
#include "graph/ops/ops.h"
#include "kernels/attention/attention_cuda.h"

namespace plimsoll {

namespace {

using BindCuda = std::function<void()> (*)(const BindContext&, CudaStream);
struct CudaBinding {
  const OpSchema* op;
  BindCuda bind;
  const std::type_info* function;  // see ListedBinding::function
};

#define PLIMSOLL_BINDING(op, args, ...)                      \
  {&op##_op(), bind_launch<args __VA_OPT__(, ) __VA_ARGS__>, \
   &typeid(CudaCall<args __VA_OPT__(, ) __VA_ARGS__>)},
#define PLIMSOLL_TENSORS_BINDING(op, args, tensors) \
  {&op##_op(), bind_tensors_launch<args, tensors>, &typeid(CudaCall<args>)},
#define PLIMSOLL_UPDATE_BINDING(kind, name, frame)                                   \
  {&update_op(OptimizerKind::kind),                                                  \
   bind_tensors_launch<update_args<name##_ref>, update_tensors<UpdateFrame::frame>>, \
   &typeid(CudaCall<update_args<name##_ref>>)},
#define PLIMSOLL_OWN_BINDING(op) {&op##_op(), bind_##op##_cuda, nullptr},
const std::vector<CudaBinding>& cuda_bindings() {
  static const std::vector<CudaBinding> bindings{
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
  static const std::unordered_map<const OpDef*, BindCuda> by_op = [] {
    std::unordered_map<const OpDef*, BindCuda> map;
    for (const CudaBinding& binding : cuda_bindings()) map.emplace(binding.op, binding.bind);
    return map;
  }();
  const auto found = by_op.find(context.op().def);
  PLIMSOLL_CHECK(found != by_op.end(),
                 "the executor cannot run the op '{}' on a GPU: bindings.inc does not list it",
                 context.op().def->name());
  return found->second(context, stream);
}

std::vector<ListedBinding> listed_cuda_bindings() {
  std::vector<ListedBinding> listed;
  for (const CudaBinding& binding : cuda_bindings()) listed.push_back({binding.op, binding.function});
  return listed;
}

#define PLIMSOLL_KERNEL PLIMSOLL_CUDA_FUNCTION
#define PLIMSOLL_PREPARED_KERNEL PLIMSOLL_NO_FUNCTION
std::span<const KernelFunction> cuda_functions() {
  static const KernelFunction kFunctions[] = {
#include "kernels/catalog/families.inc"
  };
  return kFunctions;
}
#undef PLIMSOLL_PREPARED_KERNEL
#undef PLIMSOLL_KERNEL

const KernelFunction& cuda_function(std::string_view implementation) {
  const KernelFunction* function = find_function(cuda_functions(), implementation);
  PLIMSOLL_CHECK(function != nullptr,
                 "the executor cannot run the kernel '{}' on a GPU: no function is registered for it",
                 implementation);
  return *function;
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
std::function<void()> bind_quantize_fp8_cuda(const BindContext& context, CudaStream stream) {
  return [args = quantize_fp8_args(context), num_rows = NumTokens(context).on_device(),
          flag = AccumulateFlag(context).on_device(),
          stream] { quantize_fp8_cuda(args, num_rows, flag, stream); };
}

std::function<void()> bind_copy_cuda(const BindContext& context, CudaStream stream) {
  if (std::function<void()> transfer = bind_disk_copy(context)) return transfer;
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

std::function<void()> bind_linear_class_sums_cuda(const BindContext& context, CudaStream stream) {
  return bind_chunks_cuda(context, linear_class_sums_args(context), prepare_linear_cross_entropy_fwd_cuda,
                          stream);
}
std::function<void()> bind_linear_class_sums_bwd_cuda(const BindContext& context, CudaStream stream) {
  return bind_chunks_cuda(context, linear_class_sums_bwd_args(context), prepare_linear_cross_entropy_bwd_cuda,
                          stream);
}
std::function<void()> bind_linear_class_sums_grad_cuda(const BindContext& context, CudaStream stream) {
  return bind_chunks_cuda(context, linear_class_sums_grad_args(context),
                          prepare_linear_cross_entropy_grad_cuda, stream);
}
std::function<void()> bind_linear_class_sums_gradients_cuda(const BindContext& context, CudaStream stream) {
  return bind_chunks_cuda(context, linear_class_sums_gradients_args(context),
                          prepare_linear_cross_entropy_with_gradients_cuda, stream);
}
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
