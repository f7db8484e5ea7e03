// The NVIDIA GPUs that this process may use, and the memory, stream and copies of one of them. Host code
// only; the same functions exist where the program was built without CUDA (src/device/none): there are no
// devices then.
//
// Thread-safety: the free functions may be called from any thread; a CudaDevice is driven by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/cuda/stream.h"
#include "plimsoll/error.h"

namespace plimsoll {

struct CudaDeviceInfo {
  int ordinal = 0;   // among the visible devices
  std::string name;  // "NVIDIA H200"
  std::string uuid;  // "GPU-...", as NVML and nvidia-smi print it
  int sm = 0;        // compute capability, 90 for 9.0
  int num_multiprocessors = 0;
  int64_t total_bytes = 0;
  int driver_version = 0;  // as CUDA counts: 13000 for 13.0
  int runtime_version = 0;
};

// What CUDA reported or refused while a device was in use: kDevice.
class GpuError : public Error {
 public:
  explicit GpuError(const std::string& message) : Error(ErrorCode::kDevice, message) {}
};

// Whether the program was built with CUDA at all.
bool is_built_with_cuda();

// In CUDA's order, CUDA_VISIBLE_DEVICES obeyed. Empty without a driver, without a device and without CUDA in
// the build; `why_none`, where given, then says which of these in a sentence. Cost: opens the driver, some
// 100 ms; makes no context.
std::vector<CudaDeviceInfo> visible_cuda_devices(std::string* why_none = nullptr);

// Whether the driver has been opened in this process: visible_cuda_devices() does, where there is one. It
// takes some 25 MiB of the host's memory.
bool is_cuda_driver_open();

// One device in use. Owns its stream; its context lives until the process ends.
class CudaDevice {
 public:
  // Errors: kDevice when there is no such device or its context cannot be made.
  explicit CudaDevice(int ordinal);
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const CudaDeviceInfo& info() const { return info_; }
  CudaStream stream() const { return stream_; }

  // Bytes that the driver says are free and in all, now.
  int64_t free_bytes() const;

  // Copies in the order of the stream. The host memory is pinned, or the call waits.
  void copy_to_device(void* device, const void* host, int64_t bytes);
  void copy_to_host(void* host, const void* device, int64_t bytes);
  void fill(void* device, uint8_t value, int64_t bytes);
  // Waits for everything given to the stream. Errors: kDevice with what failed since the last wait.
  void synchronize();

 private:
  CudaDeviceInfo info_;
  CudaStream stream_ = nullptr;
};

// The one block that a run takes on a GPU. Owns it; movable, not copyable.
class CudaArena {
 public:
  CudaArena() = default;
  // Takes `bytes` by one allocation and fills them, unless `fill` is nothing. Errors: GpuError when they are
  // refused; the message names what was asked for, what is free and what to do.
  CudaArena(CudaDevice& device, int64_t bytes, std::optional<uint8_t> fill);
  ~CudaArena();
  CudaArena(CudaArena&& other) noexcept;
  CudaArena& operator=(CudaArena&& other) noexcept;
  CudaArena(const CudaArena&) = delete;
  CudaArena& operator=(const CudaArena&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // The end of the highest byte that differs from the fill pattern: what was really used, as observed. Cost:
  // copies the arena to the host, piece by piece.
  int64_t written_bytes(CudaDevice& device) const;

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  uint8_t fill_ = 0;
};

// Host memory that the device copies from and to without a detour. Owns it; movable, not copyable.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  explicit PinnedMemory(int64_t bytes);
  ~PinnedMemory();
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace plimsoll
