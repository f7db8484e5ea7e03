
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "show/report/experiment_report.h"
#include "show/report/quantities.h"
#include "show/report/svg.h"

namespace plimsoll {
namespace {

constexpr int kWidth = 1280;
constexpr int kTop = 128;
constexpr int kNames = 330;  // left edge of the first panel
constexpr int kBetween = 84;
constexpr int kRight = 86;      // free space to the right of the rightmost panel
constexpr int kLine = 16;       // line height of the caption
constexpr double kNumber = 44;  // width of a number of four digits and of its distance from the bar
constexpr std::string_view kInk = "#222222";
constexpr std::string_view kPale = "#666666";
constexpr std::string_view kGrey = "#dddddd";
constexpr std::string_view kOurs = "#0072B2";
constexpr std::string_view kPeers = "#E69F00";

// The largest number of characters in a line of the caption, in an experiment's name on one line, and in each line of
// a name that is broken into two lines.
constexpr size_t kCaptionColumns = 190;
constexpr size_t kNameColumns = 44;
constexpr size_t kSmallNameColumns = 54;

struct Bar {
  double measured = 0;
  double predicted = 0;
  std::optional<double> peer = {};
};

// One row of the plot, which shows one experiment.
struct Band {
  std::string name;
  Bar memory;
  Bar speed;
  Bar metric;  // the metric of the evaluation after training, such as accuracy; 0 if there is none
  // text that replaces the bar of Hugging Face's Trainer if Trainer did not run this row
  std::string no_peer;
};

// The heights of a row and of a bar, in pixels.
struct Heights {
  double row = 0;
  double bar = 0;
  double peer_bar = 0;
};

// Returns the heights for a number of rows. With many rows they are smaller, so that the plot still fits on a slide.
Heights heights_of(size_t num_rows, bool has_peers) {
  if (has_peers) return num_rows > 20 ? Heights{31, 13, 11} : Heights{36, 16, 13};
  return num_rows > 24 ? Heights{23, 14, 0} : Heights{28, 18, 0};
}

// Returns the name of the evaluation metric that the plot shows: accuracy if it was measured, otherwise the first
// name in alphabetical order that is neither a loss nor a speed nor measured on MNLI's second (mismatched) test
// set. Returns "" if there was no evaluation.
std::string shown_metric(const std::vector<ExperimentRow>& rows) {
  std::string shown;
  for (const ExperimentRow& row : rows) {
    if (!row.figures) continue;
    for (const auto& [name, value] : row.figures->evaluation) {
      bool is_other = !name.starts_with("eval_");
      for (const std::string_view end : {"_loss", "_runtime", "_per_second", "_samples", "_mm"})
        is_other = is_other || name.ends_with(end);
      if (is_other) continue;
      if (name == "eval_accuracy") return name;
      if (shown.empty() || name < shown) shown = name;
    }
  }
  return shown;
}

std::vector<Band> bands_of(const std::vector<ExperimentRow>& rows) {
  const std::string metric = shown_metric(rows);
  std::vector<Band> bands;
  for (const ExperimentRow& row : rows) {
    if (!row.figures) continue;
    const ExperimentFigures& f = *row.figures;
    Band band{.name = row.experiment.name,
              .memory = {.measured = static_cast<double>(f.measured_bytes) / kMiB,
                         .predicted = static_cast<double>(f.predicted_bytes) / kMiB},
              .speed = {.measured = f.samples_per_s, .predicted = f.predicted_samples_per_s},
              .metric = {},
              .no_peer = "not run by Trainer"};
    if (const auto found = f.evaluation.find(metric); found != f.evaluation.end())
      band.metric.measured = found->second;
    if (row.peer && row.peer->refused.empty()) {
      band.memory.peer = static_cast<double>(row.peer->measured_bytes) / kMiB;
      band.speed.peer = row.peer->samples_per_s;
    }
    bands.push_back(std::move(band));
  }
  return bands;
}

// Returns a name on one line, or on two lines that are broken at the blank nearest to the middle.
std::pair<std::string, std::string> lines_of(const std::string& name) {
  if (display_width(name) <= kNameColumns) return {name, ""};
  size_t at = std::string::npos;
  const auto distance = [&](size_t place) {
    return place > name.size() / 2 ? place - name.size() / 2 : name.size() / 2 - place;
  };
  for (size_t blank = name.find(' '); blank != std::string::npos; blank = name.find(' ', blank + 1)) {
    if (at == std::string::npos || distance(blank) < distance(at)) at = blank;
  }
  if (at == std::string::npos) return {shortened(name, kSmallNameColumns), ""};
  return {shortened(name.substr(0, at), kSmallNameColumns),
          shortened(name.substr(at + 1), kSmallNameColumns)};
}

class Drawing {
 public:
  Drawing(const std::vector<ExperimentRow>& rows, const ExperimentOrigin& origin)
      : rows_(rows),
        bands_(bands_of(rows)),
        metric_(shown_metric(rows)),
        panel_(metric_.empty() ? (kWidth - kNames - kBetween - kRight) / 2
                               : (kWidth - kNames - 2 * kBetween - kRight) / 3),
        has_peers_(std::any_of(bands_.begin(), bands_.end(),
                               [](const Band& band) { return band.speed.peer.has_value(); })),
        heights_(heights_of(bands_.size(), has_peers_)),
        caption_(caption(origin)),
        bottom_(kTop + heights_.row * static_cast<double>(bands_.size())),
        height_(static_cast<int>(bottom_) + 46 + kLine * static_cast<int>(caption_.size())),
        picture_(kWidth, height_, "Memory and speed by method") {}

  Picture draw() && {
    draw_title();
    if (!bands_.empty()) {
      draw_legend();
      draw_names();
      const bool is_narrow = !metric_.empty();
      draw_panel(kNames, is_narrow ? "memory at the peak, MiB" : "memory at the peak, MiB (less is better)",
                 &Band::memory);
      draw_panel(kNames + panel_ + kBetween,
                 is_narrow ? "speed, samples/s" : "speed, samples/s (more is better)", &Band::speed);
      if (is_narrow)
        draw_panel(kNames + 2 * (panel_ + kBetween), metric_.substr(5) + " of the evaluation", &Band::metric);
    }
    for (size_t i = 0; i < caption_.size(); ++i) {
      const double y = height_ - 14 - kLine * static_cast<double>(caption_.size() - 1 - i);
      picture_.text(24, y, caption_[i], 12, kPale);
    }
    return std::move(picture_);
  }

 private:
  // Returns the caption: what was run, with which version of the program and when, and which experiments are not shown.
  std::vector<std::string> caption(const ExperimentOrigin& origin) const {
    std::string text = "one process each";
    if (!origin.version.empty())
      text += fmt::format("; Plimsoll {}, {}", origin.version, origin.date.substr(0, 10));
    if (!origin.driver.empty()) text += ", driver " + origin.driver;
    std::string missing;
    for (const ExperimentRow& row : rows_) {
      if (!row.figures) missing += (missing.empty() ? "" : "; ") + row.experiment.name;
    }
    std::vector<std::string> lines{text};
    if (missing.empty()) return lines;
    const std::string wrapped_text =
        wrapped("not shown, because the program refuses them or they failed: " + missing, kCaptionColumns, 0);
    for (size_t at = 0; at < wrapped_text.size();) {
      const size_t end = wrapped_text.find('\n', at);
      lines.push_back(wrapped_text.substr(at, end - at));
      at = end + 1;
    }
    return lines;
  }

  void draw_title() {
    const ExperimentRow* reference = reference_row(rows_);
    const std::string what = reference == nullptr ? "no run"
                                                  : fmt::format("{}, {} tokens", reference->figures->model,
                                                                reference->figures->sequence_length);
    picture_.text(24, 36, "Memory and speed by method: " + what, 21, kInk, TextAnchor::kStart,
                  TextWeight::kBold);
    if (reference != nullptr) picture_.text(24, 60, reference->figures->device, 14, kPale);
  }

  void draw_legend() {
    double x = kNames;
    const double y = 84;
    const auto swatch = [&](std::string_view colour, std::string_view words) {
      picture_.rectangle(x, y - 10, 22, 11, colour);
      picture_.text(x + 28, y, words, 13, kInk);
      x += 28 + 7.2 * static_cast<double>(words.size()) + 24;
    };
    swatch(kOurs, has_peers_ ? "Plimsoll, measured" : "measured");
    if (has_peers_) swatch(kPeers, "Hugging Face's Trainer, measured");
    picture_.line(x + 3, y - 13, x + 3, y + 4, "#000000", 2.5);
    picture_.text(x + 14, y, "predicted before the run", 13, kInk);
    x += 14 + 7.2 * 24 + 24;
    picture_.line(x + 3, y - 13, x + 3, y + 4, kPale, 1);
    picture_.text(x + 14, y, "the first row", 13, kInk);
  }

  double top_of(size_t row) const { return kTop + heights_.row * static_cast<double>(row); }

  void draw_names() {
    for (size_t i = 0; i < bands_.size(); ++i) {
      const auto [first, second] = lines_of(bands_[i].name);
      const double middle = top_of(i) + heights_.row / 2;
      const bool is_small = !second.empty() || display_width(first) > kNameColumns;
      const double size = is_small ? 10.5 : 13;
      picture_.text(kNames - 12, second.empty() ? middle + 4.5 : middle - 1, first, size, kInk,
                    TextAnchor::kEnd);
      if (!second.empty()) picture_.text(kNames - 12, middle + 10, second, size, kInk, TextAnchor::kEnd);
    }
  }

  double largest(Bar Band::*which) const {
    double most = 0;
    for (const Band& band : bands_) {
      const Bar& bar = band.*which;
      most = std::max({most, bar.measured, bar.predicted, bar.peer.value_or(0)});
    }
    return most > 0 ? most : 1;
  }

  void draw_panel(double left, std::string_view title, Bar Band::*which) {
    const double most = largest(which);
    const double scale = panel_ / (1.12 * most);
    picture_.text(left, kTop - 14, title, 14, kInk, TextAnchor::kStart, TextWeight::kBold);
    for (const double tick : round_ticks(0, most, metric_.empty() ? 5 : 3)) {
      const double x = left + tick * scale;
      picture_.line(x, kTop, x, bottom_, kGrey, 1);
      picture_.text(x, bottom_ + 18, fmt::format("{:g}", tick), 12, kInk, TextAnchor::kMiddle);
    }
    const double first = left + (bands_[0].*which).measured * scale;
    picture_.line(first, kTop, first, bottom_, kPale, 1);
    for (size_t i = 0; i < bands_.size(); ++i) draw_bar(left, top_of(i), scale, bands_[i], bands_[i].*which);
    picture_.line(left, kTop, left, bottom_, kInk, 1);
  }

  void draw_bar(double left, double top, double scale, const Band& band, const Bar& bar) {
    const double y = top + (heights_.row - heights_.bar - heights_.peer_bar) / 2;
    const double length = bar.measured * scale;
    picture_.rectangle(left, y, length, heights_.bar, kOurs);
    const double mark = bar.predicted * scale;
    if (bar.predicted > 0)
      picture_.line(left + mark, y - 2, left + mark, y + heights_.bar + (has_peers_ ? 0 : 2), "#000000", 2.5);
    // The number is written after the end of the bar, or after the mark of the predicted value if the mark would cross
    // the number.
    const bool is_free = bar.predicted <= 0 || mark <= length || mark > length + kNumber;
    write_number(left + (is_free ? length : mark), y + heights_.bar / 2, short_number(bar.measured), kInk);
    // Hugging Face's Trainer trains but does not evaluate in this comparison, so it has no bar for the metric.
    if (!has_peers_ || &bar == &band.metric) return;
    const double peer_y = y + heights_.bar;
    const double peer_length = bar.peer.value_or(0) * scale;
    if (bar.peer) picture_.rectangle(left, peer_y, peer_length, heights_.peer_bar, kPeers);
    write_number(left + peer_length, peer_y + heights_.peer_bar / 2,
                 bar.peer ? short_number(*bar.peer) : band.no_peer, bar.peer ? kInk : kPale);
  }

  // Writes a number after the end of a bar, on a white background so that lines do not cross it.
  void write_number(double end, double middle, const std::string& words, std::string_view colour) {
    const double size = has_peers_ ? 11 : 12;
    picture_.rectangle(end + 4, middle - size / 2 + 0.5, 0.58 * size * static_cast<double>(words.size()) + 4,
                       size - 1, "#ffffff");
    picture_.text(end + 6, middle + size * 0.36, words, size, colour);
  }

  const std::vector<ExperimentRow>& rows_;
  std::vector<Band> bands_;
  std::string metric_;  // name of the metric that the plot shows; "" for none
  int panel_;           // width of a panel
  bool has_peers_;
  Heights heights_;
  std::vector<std::string> caption_;
  double bottom_;
  int height_;
  Picture picture_;
};

}  // namespace

Picture experiment_picture(const std::vector<ExperimentRow>& rows, const ExperimentOrigin& origin) {
  PLIMSOLL_CHECK(!rows.empty(), "a plot of experiments needs at least one row");
  return Drawing(rows, origin).draw();
}

}  // namespace plimsoll
