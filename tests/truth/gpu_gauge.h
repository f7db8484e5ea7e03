// What a card holds while something runs on it: NVML's "used" (version 2), read again and again by a thread
// of its own. NVML counts all that is on the card, so what others hold must not change meanwhile. One thread
// uses an object.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

namespace plimsoll::testing {

struct GpuHeld {
  int64_t before_bytes = 0;  // by others, when the gauge was made
  int64_t after_bytes = 0;   // by others, when it was read
  int64_t most_bytes = 0;    // in between at most, less what was held before
  int64_t num_readings = 0;
  double longest_gap_ms = 0;  // between two readings
};

class GpuGauge {
 public:
  // Of the card with this UUID. Waits until two readings agree, at most two seconds. Throws where NVML says
  // nothing of that card, with its reason.
  explicit GpuGauge(const std::string& uuid);
  // Of what a function says, which this and a second thread call and which may throw.
  explicit GpuGauge(std::function<int64_t()> used_bytes);
  ~GpuGauge();
  GpuGauge(const GpuGauge&) = delete;
  GpuGauge& operator=(const GpuGauge&) = delete;

  // Ends the readings; once. To be called when what was to be gauged has gone from the card.
  GpuHeld stop();

 private:
  void watch();

  std::function<int64_t()> used_bytes_;
  GpuHeld held_;
  std::atomic<bool> is_watching_{true};
  std::thread thread_;
};

}  // namespace plimsoll::testing
