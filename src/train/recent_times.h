// Keeps the durations of the last steps. From them it computes a time limit: a rank that waits longer for another rank within a step
// assumes that the other one has stopped. Plain values: copies are independent. Not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace plimsoll {

class RecentTimes {
 public:
  void add(double ms) { times_[num_added_++ % times_.size()] = ms; }
  // Returns the median of the last durations, at most 15. Returns nothing before the fifth step.
  std::optional<double> median() const {
    constexpr size_t kFewest = 5;
    if (num_added_ < kFewest) return std::nullopt;
    std::array<double, 15> sorted = times_;
    const size_t count = std::min(num_added_, sorted.size());
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(count / 2);
    std::nth_element(sorted.begin(), middle, sorted.begin() + static_cast<std::ptrdiff_t>(count));
    return *middle;
  }

 private:
  std::array<double, 15> times_{};
  size_t num_added_ = 0;
};

// Returns how long a rank waits for another one: ten times the median, at least 10 s. Returns nothing if there is no median yet.
inline std::optional<std::chrono::milliseconds> longest_wait(const RecentTimes& times) {
  constexpr std::chrono::milliseconds kLeast = std::chrono::seconds(10);
  const std::optional<double> median = times.median();
  if (!median) return std::nullopt;
  return std::max(kLeast, std::chrono::milliseconds(static_cast<int64_t>(10.0 * *median)));
}

}  // namespace plimsoll
