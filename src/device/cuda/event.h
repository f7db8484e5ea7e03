// Owning wrappers for events and streams of the CUDA runtime, so that none leaks if the creation of a later one fails. Only for sources
// that are built with CUDA. Errors of all calls: GpuError.
//
// Thread-safety: as CUDA's own handles; an object may be used by one thread at a time.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <utility>

#include "device/cuda/cuda_error.h"
#include "device/cuda/stream.h"

namespace plimsoll {

// A point in a stream after the work enqueued so far. Owns the event; movable, not copyable.
class CudaEvent {
 public:
  // Selects whether an event records the time at which it is reached. ms_since() needs such events, which cost slightly more.
  enum class Times : uint8_t { kNo, kYes };

  // Selects how the host waits for an event: kAwake polls, which notices the event sooner, and kAsleep lets the thread sleep.
  enum class Waits : uint8_t { kAwake, kAsleep };

  explicit CudaEvent(Times times = Times::kNo, Waits waits = Waits::kAwake) {
    const unsigned timing = times == Times::kYes ? cudaEventDefault : cudaEventDisableTiming;
    const unsigned waiting = waits == Waits::kAsleep ? cudaEventBlockingSync : cudaEventDefault;
    PLIMSOLL_CUDA(cudaEventCreateWithFlags(&event_, timing | waiting));
  }
  ~CudaEvent() {
    if (event_ != nullptr) static_cast<void>(cudaEventDestroy(event_));
  }
  CudaEvent(CudaEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  CudaEvent& operator=(CudaEvent&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  // Marks the work enqueued on the stream so far. An event that was never recorded counts as reached.
  void record(CudaStream stream) { PLIMSOLL_CUDA(cudaEventRecord(event_, stream)); }
  // Makes work that is enqueued on the stream from now on wait until the event is reached.
  void hold_back(CudaStream stream) const { PLIMSOLL_CUDA(cudaStreamWaitEvent(stream, event_, 0)); }
  // Waits on the host until the event is reached.
  void wait() const { PLIMSOLL_CUDA(cudaEventSynchronize(event_)); }
  bool is_reached() const {
    const cudaError_t state = cudaEventQuery(event_);
    if (state == cudaErrorNotReady) return false;
    PLIMSOLL_CUDA(state);
    return true;
  }
  // Returns the milliseconds between two events. Requires: both have times and were reached.
  float ms_since(const CudaEvent& earlier) const {
    float milliseconds = 0;
    PLIMSOLL_CUDA(cudaEventElapsedTime(&milliseconds, earlier.event_, event_));
    return milliseconds;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// An additional stream of the device, which does not synchronize with CUDA's default stream. Owns it; movable, not
// copyable.
class CudaSideStream {
 public:
  // Thread blocks of a stream with high priority start before waiting thread blocks of other streams.
  enum class Priority : uint8_t { kNormal, kHigh };

  explicit CudaSideStream(Priority priority = Priority::kNormal) {
    int least = 0, greatest = 0;
    PLIMSOLL_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    PLIMSOLL_CUDA(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                               priority == Priority::kHigh ? greatest : 0));
  }
  ~CudaSideStream() {
    if (stream_ != nullptr) static_cast<void>(cudaStreamDestroy(stream_));
  }
  CudaSideStream(CudaSideStream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  CudaSideStream& operator=(CudaSideStream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  CudaSideStream(const CudaSideStream&) = delete;
  CudaSideStream& operator=(const CudaSideStream&) = delete;

  CudaStream get() const { return stream_; }

 private:
  CudaStream stream_ = nullptr;
};

}  // namespace plimsoll
