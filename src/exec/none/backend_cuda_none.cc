// The CUDA backend in a program that was built without CUDA: it refuses to run and has no kernels.
#include "base/check.h"
#include "exec/backend.h"
#include "exec/ops/bindings.h"

namespace plimsoll {

std::unique_ptr<ExecutorBackend> make_cuda_backend(const Plan& plan, const ExecutorOptions& /*options*/) {
  throw_error(ErrorCode::kDevice,
              "{}: this program was built without CUDA (no nvcc was found). Install the CUDA toolkit and "
              "build again, "
              "or --use_cpu",
              plan.request.device.gpu.name);
}

std::vector<ListedBinding> listed_cuda_bindings() {
  return {};
}
std::span<const KernelFunction> cuda_functions() {
  return {};
}

}  // namespace plimsoll
