#include "train/speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace plimsoll {

MetricMap speed_metrics(const std::string& split, const PhaseWork& work) {
  const double seconds = std::max(work.seconds, 1e-9);
  const auto rate = [&](int64_t count) {
    return std::round(1000.0 * static_cast<double>(count) / seconds) / 1000.0;
  };
  return {{split + "_runtime", std::round(10000.0 * work.seconds) / 10000.0},
          {split + "_samples_per_second", rate(work.samples)},
          {split + "_steps_per_second", rate(work.steps)}};
}

std::string waiting_text(double fraction, int64_t num_workers) {
  constexpr double kWorthALine = 0.05;
  if (!(fraction > kWorthALine)) return {};
  return fmt::format(
      "{:.0f} % of the time is spent waiting for the next batch: try --dataloader_num_workers {} (now {})",
      100.0 * fraction, std::max<int64_t>(1, 2 * num_workers), num_workers);
}

void WaitingWatch::add(double wait_ms, double step_ms) {
  if (!std::exchange(has_begun_, true)) return;
  for (Share* share : {&since_log_, &of_run_}) {
    share->wait_ms += wait_ms;
    share->step_ms += step_ms;
  }
}

std::string WaitingWatch::once(double fraction, int64_t num_workers) {
  if (has_warned_) return {};
  std::string text = waiting_text(fraction, num_workers);
  has_warned_ = !text.empty();
  return text;
}

std::string WaitingWatch::at_log(int64_t num_workers) {
  return once(std::exchange(since_log_, {}).fraction(), num_workers);
}

std::string WaitingWatch::at_end(int64_t num_workers) {
  constexpr double kShortestMs = 1000;
  return of_run_.step_ms < kShortestMs ? std::string() : once(of_run_.fraction(), num_workers);
}

MetricMap with_suffix(const MetricMap& metrics, std::string_view suffix) {
  MetricMap named;
  for (const auto& [key, value] : metrics) named[std::string(key).append(suffix)] = value;
  return named;
}

MetricMap MemoryPhase::end(const std::string& phase) const {
  const ProcessMemory now = process_memory();
  const bool peaked_here = now.peak_bytes > begin_.peak_bytes;
  const int64_t peaked = peaked_here ? std::max<int64_t>(0, now.peak_bytes - now.resident_bytes) : 0;
  return {{phase + "_mem_cpu_alloc_delta", static_cast<double>(now.resident_bytes - begin_.resident_bytes)},
          {phase + "_mem_cpu_peaked_delta", static_cast<double>(peaked)}};
}

}  // namespace plimsoll
