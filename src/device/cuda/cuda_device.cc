#include "device/cuda/cuda_device.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/opened_library.h"
#include "device/cuda/cuda_error.h"

namespace plimsoll {

namespace {

// Formats an identifier as NVML prints it: GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx.
std::string format_uuid(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

CudaDeviceInfo info_of(int ordinal) {
  cudaDeviceProp properties;
  PLIMSOLL_CUDA(cudaGetDeviceProperties(&properties, ordinal));
  CudaDeviceInfo info{.ordinal = ordinal,
                      .name = properties.name,
                      .uuid = format_uuid(properties.uuid),
                      .sm = properties.major * 10 + properties.minor,
                      .num_multiprocessors = properties.multiProcessorCount,
                      .total_bytes = static_cast<int64_t>(properties.totalGlobalMem)};
  PLIMSOLL_CUDA(cudaDriverGetVersion(&info.driver_version));
  PLIMSOLL_CUDA(cudaRuntimeGetVersion(&info.runtime_version));
  return info;
}

}  // namespace

bool is_built_with_cuda() {
  return true;
}

std::vector<CudaDeviceInfo> visible_cuda_devices(std::string* why_none) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    if (why_none != nullptr) {
      *why_none = error == cudaErrorInsufficientDriver
                      ? "there is no NVIDIA driver, or it is too old for the CUDA version of this program"
                      : fmt::format("the NVIDIA driver shows no device ({})", cudaGetErrorString(error));
    }
    // Clears CUDA's last error. Otherwise the next check after a kernel launch would report it as a failed launch.
    static_cast<void>(cudaGetLastError());
    return {};
  }
  std::vector<CudaDeviceInfo> devices;
  devices.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) devices.push_back(info_of(i));
  return devices;
}

bool visible_gpus_map_each_other() {
  int count = 0;
  PLIMSOLL_CUDA(cudaGetDeviceCount(&count));
  for (int i = 0; i < count; ++i) {
    for (int k = 0; k < count; ++k) {
      int can = 1;
      if (i != k) PLIMSOLL_CUDA(cudaDeviceCanAccessPeer(&can, i, k));
      if (can == 0) return false;
    }
  }
  return true;
}

bool is_cuda_driver_open() {
  void* driver = dlopen(kCudaDriver, RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return false;
  dlclose(driver);
  return true;
}

CudaDevice::CudaDevice(int ordinal) {
  std::string why;
  const std::vector<CudaDeviceInfo> devices = visible_cuda_devices(&why);
  if (ordinal < 0 || ordinal >= static_cast<int>(devices.size())) {
    throw_error(
        ErrorCode::kDevice, "cuda:{} does not exist: {}. Choose another device, or use --use_cpu", ordinal,
        devices.empty() ? why : fmt::format("{} GPUs are visible, and the first is cuda:0", devices.size()));
  }
  info_ = devices[static_cast<size_t>(ordinal)];
  PLIMSOLL_CUDA(cudaSetDevice(ordinal));
  cudaStream_t stream = nullptr;
  PLIMSOLL_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  stream_ = stream;
}

CudaDevice::~CudaDevice() {
  // The error is ignored: cudaStreamDestroy() also returns errors of earlier work, and a destructor must not throw.
  if (stream_ != nullptr) static_cast<void>(cudaStreamDestroy(stream_));
}

int64_t CudaDevice::free_bytes() const {
  size_t free = 0;
  size_t total = 0;
  PLIMSOLL_CUDA(cudaMemGetInfo(&free, &total));
  return static_cast<int64_t>(free);
}

void CudaDevice::copy_to_device(void* device, const void* host, int64_t bytes) {
  PLIMSOLL_CUDA(cudaMemcpyAsync(device, host, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream_));
}

void CudaDevice::copy_to_host(void* host, const void* device, int64_t bytes) {
  PLIMSOLL_CUDA(cudaMemcpyAsync(host, device, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream_));
}

void CudaDevice::fill(void* device, uint8_t value, int64_t bytes) {
  PLIMSOLL_CUDA(cudaMemsetAsync(device, value, static_cast<size_t>(bytes), stream_));
}

void CudaDevice::synchronize() {
  PLIMSOLL_CUDA(cudaStreamSynchronize(stream_));
}

CudaArena::CudaArena(CudaDevice& device, int64_t bytes, std::optional<uint8_t> fill)
    : bytes_(std::max<int64_t>(bytes, 1)), fill_(fill.value_or(0)) {
  void* block = nullptr;
  const cudaError_t error = cudaMalloc(&block, static_cast<size_t>(bytes_));
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    throw GpuError(fmt::format(
        "cuda:{} ({}) cannot provide {} bytes for the arena: {} bytes are free now. Another process may have "
        "allocated memory since the plan was checked; free memory of the GPU, or plan a smaller run",
        device.info().ordinal, device.info().name, bytes_, device.free_bytes()));
  }
  PLIMSOLL_CUDA(error);
  data_ = static_cast<std::byte*>(block);
  if (!fill) return;
  device.fill(data_, fill_, bytes_);
  device.synchronize();
}

CudaArena::~CudaArena() {
  if (data_ != nullptr) static_cast<void>(cudaFree(data_));
}

CudaArena::CudaArena(CudaArena&& other) noexcept {
  *this = std::move(other);
}

CudaArena& CudaArena::operator=(CudaArena&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(fill_, other.fill_);
  return *this;
}

int64_t CudaArena::written_bytes(CudaDevice& device) const {
  constexpr int64_t kPiece = int64_t{64} << 20;
  std::vector<std::byte> piece(static_cast<size_t>(std::min(kPiece, bytes_)));
  for (int64_t end = bytes_; end > 0;) {
    const int64_t begin = std::max<int64_t>(0, end - kPiece);
    device.copy_to_host(piece.data(), data_ + begin, end - begin);
    device.synchronize();
    for (int64_t i = end - begin; i > 0; --i) {
      if (piece[static_cast<size_t>(i - 1)] != std::byte{fill_}) return begin + i;
    }
    end = begin;
  }
  return 0;
}

PinnedMemory::PinnedMemory(int64_t bytes) : bytes_(std::max<int64_t>(bytes, 1)) {
  void* block = nullptr;
  PLIMSOLL_CUDA(cudaHostAlloc(&block, static_cast<size_t>(bytes_), cudaHostAllocDefault));
  data_ = static_cast<std::byte*>(block);
  std::memset(data_, 0, static_cast<size_t>(bytes_));
}

PinnedMemory::~PinnedMemory() {
  if (data_ != nullptr) static_cast<void>(cudaFreeHost(data_));
}

PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept {
  *this = std::move(other);
}

PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void fail_cuda(cudaError_t error, const char* call, const char* file, int line) {
  // CUDA keeps the last error until it is read. If it were not read here, the next launch would report it again, for
  // example after a caller has continued with less memory.
  static_cast<void>(cudaGetLastError());
  std::string free_text;
  if (error == cudaErrorMemoryAllocation) {
    size_t free = 0;
    size_t total = 0;
    if (cudaMemGetInfo(&free, &total) == cudaSuccess) {
      free_text = fmt::format(" ({} of {} bytes are free)", free, total);
    }
  }
  if (error == cudaErrorNoKernelImageForDevice) {
    free_text =
        ". This program has no code for this GPU: configure it with -DPLIMSOLL_CUDA_ARCHITECTURES=RELEASE, "
        "or with the architecture of this GPU (80-real for compute capability 8.0), and build again";
  }
  throw GpuError(fmt::format("the GPU reports {} ({}) at {}, {}:{}{}", cudaGetErrorName(error),
                             cudaGetErrorString(error), call, file, line, free_text));
}

}  // namespace plimsoll
