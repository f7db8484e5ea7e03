#include "show/report/experiment_plot.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/units.h"
#include "show/report/experiment_table.h"
#include "show/report/quantities.h"
#include "show/report/svg.h"

namespace plimsoll {
namespace {

constexpr int kWidth = 1280;
constexpr int kTop = 92;
constexpr int kRowHeight = 28;
constexpr int kNames = 360;  // where the first panel begins
constexpr int kPanel = 370;  // its width
constexpr int kBetween = 90;
constexpr double kNumber = 52;  // a number of four digits and its distance from the bar
constexpr std::string_view kInk = "#222222";
constexpr std::string_view kGrey = "#dddddd";
constexpr std::string_view kMemory = "#0072B2";
constexpr std::string_view kSpeed = "#E69F00";

struct Bar {
  std::string name;
  double measured = 0;
  double predicted = 0;
};

double largest(const std::vector<Bar>& bars) {
  double most = 0;
  for (const Bar& bar : bars) most = std::max({most, bar.measured, bar.predicted});
  return most > 0 ? most : 1;
}

void draw_panel(Picture& picture, const std::vector<Bar>& bars, double left, std::string_view title,
                std::string_view colour) {
  const double scale = kPanel / (1.12 * largest(bars));
  const double bottom = kTop + kRowHeight * static_cast<double>(bars.size());
  picture.text(left, kTop - 14, title, 14, kInk, TextAnchor::kStart, TextWeight::kBold);
  for (const double tick : round_ticks(0, largest(bars), 4)) {
    picture.line(left + tick * scale, kTop, left + tick * scale, bottom, kGrey, 1);
    picture.text(left + tick * scale, bottom + 18, short_number(tick), 12, kInk, TextAnchor::kMiddle);
  }
  for (size_t i = 0; i < bars.size(); ++i) {
    const double y = kTop + kRowHeight * static_cast<double>(i);
    picture.rectangle(left, y + 5, bars[i].measured * scale, kRowHeight - 10, colour);
    const double mark = left + bars[i].predicted * scale;
    if (bars[i].predicted > 0) picture.line(mark, y + 2, mark, y + kRowHeight - 2, "#000000", 2.5);
    // The number is the bar's: beside the bar, or behind a mark that would cross it.
    const double bar = bars[i].measured * scale;
    const bool is_free = mark - left <= bar || mark - left > bar + kNumber;
    const double end = is_free ? bar : mark - left;
    picture.text(left + end + 6, y + kRowHeight - 9, short_number(bars[i].measured), 12, kInk);
  }
  picture.line(left, kTop, left, bottom, kInk, 1);
}

}  // namespace

Picture experiment_picture(const std::vector<ExperimentRow>& rows) {
  std::vector<Bar> memory;
  std::vector<Bar> speed;
  for (const ExperimentRow& row : rows) {
    if (!row.figures) continue;
    const ExperimentFigures& f = *row.figures;
    memory.push_back({row.experiment.name, static_cast<double>(f.measured_bytes) / kMiB,
                      static_cast<double>(f.predicted_bytes) / kMiB});
    speed.push_back({row.experiment.name, f.samples_per_s, f.predicted_samples_per_s});
  }
  const ExperimentRow* reference = reference_row(rows);
  const std::string what = reference == nullptr ? "no run"
                                                : fmt::format("{}, {} tokens", reference->figures->model,
                                                              reference->figures->sequence_length);
  const int height = kTop + kRowHeight * static_cast<int>(memory.size()) + 76;
  Picture picture(kWidth, height, "Memory and speed by method");
  picture.text(24, 34, "Memory and speed by method: " + what, 19, kInk, TextAnchor::kStart,
               TextWeight::kBold);
  for (size_t i = 0; i < memory.size(); ++i) {
    picture.text(kNames - 14, kTop + kRowHeight * static_cast<double>(i) + kRowHeight - 9, memory[i].name, 13,
                 kInk, TextAnchor::kEnd);
  }
  if (!memory.empty()) {
    draw_panel(picture, memory, kNames, "memory at the peak, MiB (less is better)", kMemory);
    draw_panel(picture, speed, kNames + kPanel + kBetween, "speed, samples/s (more is better)", kSpeed);
  }
  picture.text(24, height - 16,
               fmt::format("{}; bars measured, one process each; black marks predicted before the run",
                           reference == nullptr ? "" : reference->figures->device),
               12, "#555555");
  return picture;
}

}  // namespace plimsoll
