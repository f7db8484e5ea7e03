#include "tests/truth/gpu_gauge.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <utility>

#include "device/monitor/nvml.h"

namespace plimsoll::testing {
namespace {

using Clock = std::chrono::steady_clock;

int64_t nvml_used_bytes(const std::string& uuid) {
  const auto memory = Nvml::installed().memory(uuid);
  if (!memory) {
    throw std::runtime_error(
        "NVML does not say what the card " + uuid + " holds: " +
        (Nvml::installed().is_open() ? "it gives no memory figures for it" : Nvml::installed().why_not()));
  }
  return memory->used_bytes;
}

// Returns the used memory once two readings agree: the driver frees the memory of an ended process with a delay.
int64_t steady_bytes(const std::function<int64_t()>& used_bytes) {
  constexpr int kMostReadings = 100;
  constexpr std::chrono::milliseconds kApart{20};
  int64_t last = used_bytes();
  for (int i = 0; i < kMostReadings; ++i) {
    std::this_thread::sleep_for(kApart);
    const int64_t now = used_bytes();
    if (now == last) break;
    last = now;
  }
  return last;
}

}  // namespace

GpuGauge::GpuGauge(const std::string& uuid) : GpuGauge([uuid] { return nvml_used_bytes(uuid); }) {}

GpuGauge::GpuGauge(std::function<int64_t()> used_bytes) : used_bytes_(std::move(used_bytes)) {
  held_.before_bytes = steady_bytes(used_bytes_);
  thread_ = std::thread([this] { watch(); });
}

GpuGauge::~GpuGauge() {
  is_watching_ = false;
  if (thread_.joinable()) thread_.join();
}

void GpuGauge::watch() {
  Clock::time_point last = Clock::now();
  while (is_watching_) {
    try {
      held_.most_bytes = std::max(held_.most_bytes, used_bytes_() - held_.before_bytes);
      ++held_.num_readings;
      const Clock::time_point now = Clock::now();
      const std::chrono::duration<double, std::milli> gap = now - last;
      held_.longest_gap_ms = std::max(held_.longest_gap_ms, gap.count());
      last = now;
      // NOLINT(bugprone-empty-catch): the last reading, in stop(), reports the reason
    } catch (const std::exception&) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

GpuHeld GpuGauge::stop() {
  is_watching_ = false;
  thread_.join();
  held_.after_bytes = steady_bytes(used_bytes_);
  return held_;
}

}  // namespace plimsoll::testing
