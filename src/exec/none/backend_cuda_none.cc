// The CUDA backend in a program that was built without CUDA: it refuses to run and has no kernels.
#include "base/check.h"
#include "exec/backend.h"
#include "exec/link_measurement.h"
#include "exec/ops/bindings.h"

namespace plimsoll {

std::unique_ptr<ExecutorBackend> make_cuda_backend(const Plan& plan, const ExecutorOptions& /*options*/) {
  throw_error(ErrorCode::kDevice,
              "{}: this program was built without CUDA (no nvcc was found). Install the CUDA toolkit and "
              "build again, or run with --use_cpu",
              plan.request.device.gpu.name);
}

std::unique_ptr<LinkExchanger> mapped_memory_exchanger(Communicator& /*ranks*/, int /*gpu_ordinal*/,
                                                       const std::string& /*uuid*/,
                                                       int64_t /*buffer_elements*/) {
  throw_error(ErrorCode::kDevice,
              "cannot measure links between GPUs: this program was built without CUDA (no nvcc was found). "
              "Install the CUDA toolkit and build again, or run with --use_cpu");
}

std::unique_ptr<LinkExchanger> nccl_exchanger(Communicator& ranks, int gpu_ordinal, const std::string& uuid,
                                              LinkExchange /*exchange*/, int64_t buffer_elements) {
  return mapped_memory_exchanger(ranks, gpu_ordinal, uuid, buffer_elements);
}

std::vector<ListedBinding> listed_cuda_bindings() {
  return {};
}
std::span<const KernelFunction> cuda_functions() {
  return {};
}

}  // namespace plimsoll
