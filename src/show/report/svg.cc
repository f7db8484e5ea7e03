#include "show/report/svg.h"

#include <fmt/format.h>

#include <cmath>

#include "base/check.h"
#include "show/report/quantities.h"

namespace plimsoll {
namespace {

constexpr int kWidth = 1020;
constexpr int kHeight = 460;
constexpr int kLeft = 80;
constexpr int kTop = 50;
constexpr int kRows = 320;
constexpr int kLegendLeft = kLeft + SvgPlot::kColumns + 20;
constexpr std::string_view kInk = "#222222";
constexpr std::string_view kDark = "#333333";  // colour of axes and tick marks

std::string format_tick(double value, double step) {
  if (std::fabs(value) < step * 1e-6) return "0";
  if (std::fabs(value) >= 1e6 || step < 1e-4) return fmt::format("{:.3g}", value);
  const int decimals = step >= 1 ? 0 : static_cast<int>(std::ceil(-std::log10(step) - 1e-9));
  return fmt::format("{:.{}f}", value, decimals);
}

}  // namespace

std::string xml_escaped(std::string_view text) {
  std::string escaped;
  for (char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    }
  }
  return escaped;
}

std::vector<double> round_ticks(double low, double high, int count) {
  PLIMSOLL_CHECK(low < high && std::isfinite(low) && std::isfinite(high),
                 "an axis must be finite and must not be empty, but goes from {} to {}", low, high);
  const double rough = (high - low) / count;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (double factor : {5.0, 2.0, 1.0}) {
    if (factor * power >= rough) step = factor * power;
  }
  std::vector<double> ticks;
  const double first = std::ceil(low / step - 1e-9);
  for (int i = 0; (first + i) * step <= high + step * 1e-9; ++i) ticks.push_back((first + i) * step);
  return ticks;
}

SvgPlot::SvgPlot(PlotText text, double x_low, double x_high, double y_low, double y_high)
    : text_(std::move(text)),
      x_low_(x_low),
      x_high_(x_high),
      y_low_(y_low),
      y_high_(y_high),
      body_(kWidth, kHeight, ""),
      marks_(kWidth, kHeight, "") {
  PLIMSOLL_CHECK(
      x_low < x_high && y_low < y_high && std::isfinite(x_high - x_low) && std::isfinite(y_high - y_low),
      "the axes of a plot must be finite and must not be empty, but x is [{}, {}] and y is [{}, {}]", x_low,
      x_high, y_low, y_high);
}

double SvgPlot::pixel_x(double x) const {
  return kLeft + kColumns * (x - x_low_) / (x_high_ - x_low_);
}

double SvgPlot::pixel_y(double y) const {
  return kTop + kRows * (y_high_ - y) / (y_high_ - y_low_);
}

std::vector<PlotPoint> SvgPlot::pixels(const std::vector<PlotPoint>& points) const {
  std::vector<PlotPoint> drawn;
  for (const auto& [x, y] : points) drawn.emplace_back(pixel_x(x), pixel_y(y));
  return drawn;
}

void SvgPlot::line(const std::vector<PlotPoint>& points, std::string_view colour, std::string_view dashes) {
  body_.polyline(pixels(points), colour, 2, dashes);
}

void SvgPlot::dots(const std::vector<PlotPoint>& points, std::string_view colour) {
  for (const auto& [x, y] : points) {
    if (std::isfinite(x) && std::isfinite(y)) body_.dot(pixel_x(x), pixel_y(y), 3.5, colour);
  }
}

void SvgPlot::area(const std::vector<PlotPoint>& lower, const std::vector<PlotPoint>& upper,
                   std::string_view colour) {
  if (lower.empty() || upper.empty()) return;
  std::vector<PlotPoint> around = pixels(upper);
  const std::vector<PlotPoint> below = pixels(lower);
  around.insert(around.end(), below.rbegin(), below.rend());
  body_.polygon(std::move(around), colour);
}

void SvgPlot::vertical_mark(double x, std::string_view word) {
  marks_.polyline({{pixel_x(x), kTop}, {pixel_x(x), kTop + kRows}}, kDark, 1, "3 3");
  marks_.text(pixel_x(x) + 4, kTop - 6, word, 12, kInk);
}

void SvgPlot::horizontal_mark(double y, std::string_view word) {
  marks_.polyline({{kLeft, pixel_y(y)}, {kLeft + kColumns, pixel_y(y)}}, kDark, 1, "6 3");
  marks_.text(kLegendLeft, pixel_y(y), word, 12, kInk);
}

void SvgPlot::legend_entry(std::string_view colour, std::string_view dashes, std::string_view word) {
  const double y = kTop + 60 + 20 * num_legend_++;
  if (dashes == "area") {
    if (colour != "none") marks_.rectangle(kLegendLeft, y - 10, 14, 12, colour);
  } else {
    marks_.polyline({{kLegendLeft, y - 4}, {kLegendLeft + 18, y - 4}}, colour, 2, dashes);
  }
  marks_.text(kLegendLeft + 24, y, word, 12, kInk);
}

void SvgPlot::draw_axes(Picture& picture) const {
  const std::vector<double> y_ticks = round_ticks(y_low_, y_high_, 6);
  const std::vector<double> x_ticks = round_ticks(x_low_, x_high_, 8);
  const auto step = [](const std::vector<double>& ticks) {
    return ticks.size() > 1 ? ticks[1] - ticks[0] : 1.0;
  };
  for (double y : y_ticks) {
    picture.line(kLeft, pixel_y(y), kLeft + kColumns, pixel_y(y), "#dddddd", 1);
    picture.text(kLeft - 8, pixel_y(y) + 4, format_tick(y, step(y_ticks)), 12, kInk, TextAnchor::kEnd);
  }
  for (double x : x_ticks)
    picture.text(pixel_x(x), kTop + kRows + 18, format_tick(x, step(x_ticks)), 12, kInk, TextAnchor::kMiddle);
  picture.polyline({{kLeft, kTop}, {kLeft, kTop + kRows}, {kLeft + kColumns, kTop + kRows}}, kDark, 1);
  picture.text(kLeft + kColumns / 2.0, kTop + kRows + 40, text_.x_label, 13, kInk, TextAnchor::kMiddle);
  picture.upward_text(22, kTop + kRows / 2.0, text_.y_label, 13, kInk);
}

Picture SvgPlot::picture() const {
  Picture picture(kWidth, kHeight, text_.title);
  picture.text(kLeft, 24, text_.title, 16, kInk, TextAnchor::kStart, TextWeight::kBold);
  draw_axes(picture);
  picture.append(body_);
  picture.append(marks_);
  picture.text(kLeft, kHeight - 14, text_.caption, 11, "#555555");
  return picture;
}

}  // namespace plimsoll
