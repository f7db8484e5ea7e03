// The NVIDIA GPUs that this process may use, and the memory, stream and copies of one of them. Host code
// only. The same functions exist if the program is built without CUDA (src/device/none); there are no devices
// then.
//
// Thread-safety: any thread may call the free functions; a CudaDevice may be used by one thread.
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
  int ordinal = 0;   // index of the GPU among the visible devices
  std::string name;  // name of the GPU, such as "NVIDIA H200"
  std::string uuid;  // identifier "GPU-...", as printed by NVML and nvidia-smi
  int sm = 0;        // compute capability, 90 for 9.0
  int num_multiprocessors = 0;
  int64_t total_bytes = 0;
  int driver_version = 0;  // latest CUDA version that the driver supports, 13000 for 13.0
  int runtime_version = 0;
};

// An error that CUDA reported while a device was in use, with code kDevice.
class GpuError : public Error {
 public:
  explicit GpuError(const std::string& message) : Error(ErrorCode::kDevice, message) {}
};

// Returns true if the program was built with CUDA.
bool is_built_with_cuda();

// Returns the devices in CUDA's order, respecting CUDA_VISIBLE_DEVICES. The list is empty without a driver,
// without a device and in a build without CUDA; `why_none`, if given, then receives the reason as a sentence.
// Cost: opens the driver, about 100 ms; creates no context.
std::vector<CudaDeviceInfo> visible_cuda_devices(std::string* why_none = nullptr);

// Returns true if each of the visible GPUs can map the memory of every other one.
bool visible_gpus_map_each_other();

// Returns true if the CUDA driver has been opened in this process, for example by visible_cuda_devices(). The driver uses about 25 MiB of
// host memory.
bool is_cuda_driver_open();

// One device in use. Owns its stream. Its context exists until the process ends.
class CudaDevice {
 public:
  // Opens the device. Errors: kDevice if it does not exist or its context cannot be created.
  explicit CudaDevice(int ordinal);
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const CudaDeviceInfo& info() const { return info_; }
  CudaStream stream() const { return stream_; }

  // Returns the number of bytes that are free now, according to the driver.
  int64_t free_bytes() const;

  // Enqueue a copy on the stream. If the host memory is pinned, the call returns at once; otherwise it waits until the host memory has been
  // read or written.
  void copy_to_device(void* device, const void* host, int64_t bytes);
  void copy_to_host(void* host, const void* device, int64_t bytes);
  void fill(void* device, uint8_t value, int64_t bytes);
  // Waits for all work that was enqueued on the stream. Errors: kDevice if any of the work since the last wait has failed.
  void synchronize();

 private:
  CudaDeviceInfo info_;
  CudaStream stream_ = nullptr;
};

// The single block of memory that a run allocates on a GPU. Owns it; movable, not copyable.
class CudaArena {
 public:
  CudaArena() = default;
  // Allocates `bytes` at once and fills them if `fill` has a value. Errors: GpuError if the allocation fails;
  // the message contains the requested and the free memory and the remedy.
  CudaArena(CudaDevice& device, int64_t bytes, std::optional<uint8_t> fill);
  ~CudaArena();
  CudaArena(CudaArena&& other) noexcept;
  CudaArena& operator=(CudaArena&& other) noexcept;
  CudaArena(const CudaArena&) = delete;
  CudaArena& operator=(const CudaArena&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // Returns the offset at which the used part of the memory ends: the end of the last byte that differs from the fill pattern.
  // Cost: copies the memory to the host in pieces.
  int64_t written_bytes(CudaDevice& device) const;

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  uint8_t fill_ = 0;
};

// Page-locked host memory, which the device can access directly. Owns it; movable, not copyable.
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
