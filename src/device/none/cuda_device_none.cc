// Implements device/cuda/cuda_device.h if the program is built without CUDA.
#include "base/check.h"
#include "device/cuda/cuda_device.h"

namespace plimsoll {
namespace {

constexpr const char* kNotBuilt = "this program was built without CUDA (no nvcc was found)";

[[noreturn]] void fail_not_built() {
  PLIMSOLL_CHECK(false, "the caller uses a GPU, but {}", kNotBuilt);
}

}  // namespace

bool is_built_with_cuda() {
  return false;
}

std::vector<CudaDeviceInfo> visible_cuda_devices(std::string* why_none) {
  if (why_none != nullptr) *why_none = kNotBuilt;
  return {};
}

bool visible_gpus_map_each_other() {
  return false;
}

bool is_cuda_driver_open() {
  return false;
}

CudaDevice::CudaDevice(int ordinal) {
  throw_error(ErrorCode::kDevice,
              "cuda:{} does not exist: {}. Install the CUDA toolkit and build again, or use --use_cpu",
              ordinal, kNotBuilt);
}
CudaDevice::~CudaDevice() = default;
int64_t CudaDevice::free_bytes() const {
  fail_not_built();
}
void CudaDevice::copy_to_device(void*, const void*, int64_t) {
  fail_not_built();
}
void CudaDevice::copy_to_host(void*, const void*, int64_t) {
  fail_not_built();
}
void CudaDevice::fill(void*, uint8_t, int64_t) {
  fail_not_built();
}
void CudaDevice::synchronize() {
  fail_not_built();
}

CudaArena::CudaArena(CudaDevice&, int64_t, std::optional<uint8_t>) {
  fail_not_built();
}
CudaArena::~CudaArena() = default;
CudaArena::CudaArena(CudaArena&&) noexcept = default;
CudaArena& CudaArena::operator=(CudaArena&&) noexcept = default;
int64_t CudaArena::written_bytes(CudaDevice&) const {
  fail_not_built();
}

PinnedMemory::PinnedMemory(int64_t) {
  fail_not_built();
}
PinnedMemory::~PinnedMemory() = default;
PinnedMemory::PinnedMemory(PinnedMemory&&) noexcept = default;
PinnedMemory& PinnedMemory::operator=(PinnedMemory&&) noexcept = default;

}  // namespace plimsoll
