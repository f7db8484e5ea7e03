#include "show/report/plan_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "show/report/quantities.h"

namespace plimsoll {
namespace {

std::string row(std::string_view label, int64_t predicted, int64_t held, int64_t measured) {
  return left_aligned(fmt::format("  {}", label), 29) + right_aligned(format_mib(predicted), 12) +
         right_aligned(format_mib(held), 12) + right_aligned(format_mib(measured), 12) + "\n";
}

}  // namespace

std::string memory_verdict(const MemoryFigures& figures) {
  const auto predicted = static_cast<double>(figures.predicted_total_bytes);
  const auto measured = static_cast<double>(figures.measured_peak_bytes);
  if (figures.arena_high_water_bytes > figures.arena_bytes) {
    return "the arena was written beyond its end: this is a bug in Plimsoll, please report it";
  }
  if (figures.measured_peak_bytes == 0) return "the peak of the process could not be measured on this system";
  if (figures.measured_peak_bytes > figures.predicted_total_bytes) {
    return fmt::format(
        "the process used {} MiB more than predicted: this is a bug in Plimsoll, please report it",
        format_mib(figures.measured_peak_bytes - figures.predicted_total_bytes));
  }
  return fmt::format("the peak of the process is {:.1f} % of the prediction",
                     predicted > 0 ? 100.0 * measured / predicted : 0.0);
}

std::string memory_outcome_table(const MemoryFigures& figures) {
  std::string text = left_aligned("memory, MiB", 29) + right_aligned("predicted", 12) +
                     right_aligned("held", 12) + right_aligned("measured", 12) + "\n";
  text += row("arena", figures.arena_bytes, figures.arena_bytes, figures.arena_high_water_bytes);
  // Memory outside the arena cannot be measured directly. It is computed as the measured memory of the process minus the arena.
  const int64_t beside = std::max<int64_t>(0, figures.measured_peak_bytes - figures.arena_bytes);
  text += row("device constant", figures.constant_bytes, 0, figures.measured_peak_bytes == 0 ? 0 : beside);
  text += row("total", figures.predicted_total_bytes, 0, figures.measured_peak_bytes);
  return text + memory_verdict(figures) + "\n";
}

}  // namespace plimsoll
