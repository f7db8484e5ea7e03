#include "exec/ops/bindings_cuda.h"

#include <unordered_map>

#include "exec/ops/attention_ops.h"
#include "exec/ops/call.h"
#include "exec/ops/call_cuda.h"
#include "exec/ops/element_wise_ops.h"
#include "exec/ops/embedding_ops.h"
#include "exec/ops/loss_ops.h"
#include "exec/ops/matmul_ops.h"
#include "exec/ops/norm_ops.h"
#include "exec/ops/optimizer_ops.h"
#include "graph/ops/dequantize.h"
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

using BindCuda = std::function<void()> (*)(const BindContext&, CudaStream);

#define PLIMSOLL_BINDING(op, kernel, args, ...) \
  {&op##_op(), bind_launch<kernel##_cuda, args __VA_OPT__(, ) __VA_ARGS__>},
#define PLIMSOLL_TENSORS_BINDING(op, kernel, args, tensors) \
  {&op##_op(), bind_tensors_launch<kernel##_cuda, args, tensors>},
#define PLIMSOLL_OWN_BINDING(op) {&op##_op(), bind_##op##_cuda},
const std::unordered_map<const OpDef*, BindCuda>& cuda_bindings() {
  static const std::unordered_map<const OpDef*, BindCuda> bindings{
#include "exec/ops/bindings.inc"
  };
  return bindings;
}
#undef PLIMSOLL_OWN_BINDING
#undef PLIMSOLL_TENSORS_BINDING
#undef PLIMSOLL_BINDING

}  // namespace

std::function<void()> bind_cuda(const BindContext& context, CudaStream stream) {
  const auto found = cuda_bindings().find(context.op().def);
  PLIMSOLL_CHECK(found != cuda_bindings().end(), "the op '{}' has no binding", context.op().def->name());
  return found->second(context, stream);
}

}  // namespace plimsoll
