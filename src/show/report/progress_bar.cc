#include "show/report/quantities.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace plimsoll {
namespace {

constexpr size_t kWidestBar = 30;
constexpr size_t kNarrowestBar = 6;

// Formats four significant digits and keeps trailing zeros, so that the line does not change its width:
// "1.042", "0.0312", "12.31".
std::string format_loss(double loss) {
  if (!std::isfinite(loss)) return fmt::format("{}", loss);
  const double magnitude = std::fabs(loss);
  return magnitude >= 100  ? fmt::format("{:.1f}", loss)
         : magnitude >= 10 ? fmt::format("{:.2f}", loss)
                           : fmt::format("{:.3f}", loss);
}

std::string head(const ProgressFigures& figures) {
  const std::string total = fmt::format("{}", figures.max_steps);
  const int64_t percent = figures.max_steps > 0 ? 100 * figures.step / figures.max_steps : 0;
  return fmt::format("step {:>{}}/{} {:>3} %", figures.step, total.size(), total, percent);
}

std::vector<std::string> parts(const ProgressFigures& figures) {
  std::vector<std::string> list{"loss " + format_loss(figures.loss),
                                fmt::format("|g| {:.2g}", figures.grad_norm),
                                fmt::format("lr {:.1e}", figures.learning_rate)};
  list.push_back(format_grouped(std::llround(std::clamp(figures.tokens_per_s, 0.0, 1e15))) + " tok/s");
  if (figures.model_flops_utilization)
    list.push_back(fmt::format("MFU {:.0f} %", 100.0 * *figures.model_flops_utilization));
  if (figures.memory_bytes > 0)
    list.push_back(fmt::format("{:.0f} MiB", static_cast<double>(figures.memory_bytes) / 1048576.0));
  return list;
}

std::string clock(const ProgressFigures& figures) {
  return format_clock(figures.elapsed_s) + " < " + format_clock(figures.remaining_s);
}

std::string drawn_bar(double done, size_t width, Characters characters) {
  const bool unicode = characters == Characters::kUnicode;
  const auto full = static_cast<size_t>(std::clamp(done, 0.0, 1.0) * static_cast<double>(width));
  std::string bar;
  for (size_t i = 0; i < width; ++i) {
    if (i < full) {
      bar += unicode ? "━" : "=";
    } else if (i == full) {
      bar += unicode ? "╺" : ">";
    } else {
      bar += unicode ? "─" : "-";
    }
  }
  return bar;
}

}  // namespace

namespace {

// Returns the numbers of the progress line that fit into `columns`, with two spaces before each. If not all fit,
// those at the end are omitted first, except that elapsed and remaining time are omitted last.
std::string tail_within(const ProgressFigures& figures, size_t columns) {
  const std::string time = "  " + clock(figures);
  if (time.size() > columns) return {};
  std::string tail;
  for (const std::string& part : parts(figures)) {
    if (tail.size() + 2 + part.size() + time.size() > columns) break;
    tail += "  " + part;
  }
  return tail + time;
}

}  // namespace

std::string progress_bar(const ProgressFigures& figures, size_t columns, Characters characters) {
  const std::string start = head(figures);
  const size_t least = start.size() + 1 + kNarrowestBar;
  const std::string tail = tail_within(figures, columns > least ? columns - least : 0);
  if (tail.empty())
    return (start + tail_within(figures, columns > start.size() ? columns - start.size() : 0))
        .substr(0, columns);
  const size_t width = std::min(kWidestBar, columns - start.size() - 1 - tail.size());
  const double done = figures.max_steps > 0
                          ? static_cast<double>(figures.step) / static_cast<double>(figures.max_steps)
                          : 0.0;
  return start + " " + drawn_bar(done, width, characters) + tail;
}

std::string progress_line(const ProgressFigures& figures, size_t columns) {
  const std::string start = head(figures);
  if (columns == std::string::npos) return start + tail_within(figures, columns);
  return (start + tail_within(figures, columns > start.size() ? columns - start.size() : 0))
      .substr(0, columns);
}

}  // namespace plimsoll
