// Measures the memory in use on a card during a run: NVML's "used" (version 2), read repeatedly by a separate
// thread. NVML counts everything on the card, so the memory of other processes must not change meanwhile. For
// one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

namespace plimsoll::testing {

struct GpuHeld {
  int64_t before_bytes = 0;  // memory of other processes at construction
  int64_t after_bytes = 0;   // memory of other processes at the end
  int64_t most_bytes = 0;    // maximum in between, minus the memory before
  int64_t num_readings = 0;
  double longest_gap_ms = 0;  // longest time between two readings
};

class GpuGauge {
 public:
  // Measures the card with this UUID. Waits until two readings agree, at most two seconds. Throws the reason
  // if NVML has no data for that card.
  explicit GpuGauge(const std::string& uuid);
  // Measures the value that a function returns instead of NVML's. It is called by this thread and by the measuring
  // thread, and may throw.
  explicit GpuGauge(std::function<int64_t()> used_bytes);
  ~GpuGauge();
  GpuGauge(const GpuGauge&) = delete;
  GpuGauge& operator=(const GpuGauge&) = delete;

  // Ends the measurement; may be called once. Must be called after the measured memory was freed on the card.
  GpuHeld stop();

 private:
  void watch();

  std::function<int64_t()> used_bytes_;
  GpuHeld held_;
  std::atomic<bool> is_watching_{true};
  std::thread thread_;
};

}  // namespace plimsoll::testing
