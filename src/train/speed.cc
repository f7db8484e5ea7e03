#include "train/speed.h"

#include <algorithm>
#include <cmath>

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

MetricMap with_suffix(const MetricMap& metrics, std::string_view suffix) {
  MetricMap named;
  for (const auto& [key, value] : metrics) named[std::string(key).append(suffix)] = value;
  return named;
}

}  // namespace plimsoll
