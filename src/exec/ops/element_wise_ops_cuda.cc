#include "exec/ops/call_cuda.h"
#include "exec/ops/element_wise_ops.h"

namespace plimsoll {

std::function<void()> bind_copy_cuda(const BindContext& context, CudaStream stream) {
  return [copies = copy_args(context), stream] {
    for (const CopyArgs& copy : copies) copy_cuda(copy, stream);
  };
}

}  // namespace plimsoll
