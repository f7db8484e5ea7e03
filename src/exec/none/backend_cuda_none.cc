// The CUDA backend in a program that was built without CUDA: it refuses to run.
#include "base/check.h"
#include "exec/backend.h"

namespace plimsoll {

std::unique_ptr<ExecutorBackend> make_cuda_backend(const Plan& plan, const ExecutorOptions& /*options*/) {
  throw_error(ErrorCode::kDevice,
              "{}: this program was built without CUDA (no nvcc was found). Install the CUDA toolkit and "
              "build again, "
              "or --use_cpu",
              plan.request.device.gpu.name);
}

}  // namespace plimsoll
