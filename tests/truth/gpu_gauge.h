// Measures the GPU memory that is in use during a run. A thread repeatedly reads the "used" memory of NVML
// (version 2 of its memory query). NVML counts everything on the card, so other processes must not change their
// memory meanwhile. For use by one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

namespace plimsoll::testing {

struct GpuHeld {
  int64_t before_bytes = 0;  // memory that other processes used before the run
  int64_t after_bytes = 0;   // memory that other processes used after the run
  int64_t most_bytes = 0;    // largest memory in use during the run, without before_bytes
  int64_t num_readings = 0;
  double longest_gap_ms = 0;  // longest time between two readings
};

class GpuGauge {
 public:
  // Starts to measure the card with this UUID. First waits until two readings of its memory are equal, at
  // most two seconds. Throws the reason if NVML reports no memory for this card.
  explicit GpuGauge(const std::string& uuid);
  // For tests of this class: reads the used memory with this function instead of NVML. The measuring thread
  // and the thread that creates this object both call the function, which may throw.
  explicit GpuGauge(std::function<int64_t()> used_bytes);
  ~GpuGauge();
  GpuGauge(const GpuGauge&) = delete;
  GpuGauge& operator=(const GpuGauge&) = delete;

  // Ends the measurement and returns it. May be called once, after the measured memory was freed on the card.
  GpuHeld stop();

 private:
  void watch();

  std::function<int64_t()> used_bytes_;
  GpuHeld held_;
  std::atomic<bool> is_watching_{true};
  std::thread thread_;
};

}  // namespace plimsoll::testing
