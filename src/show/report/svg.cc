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
  PLIMSOLL_CHECK(low < high && std::isfinite(low) && std::isfinite(high), "axis from {} to {}", low, high);
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
    : text_(std::move(text)), x_low_(x_low), x_high_(x_high), y_low_(y_low), y_high_(y_high) {
  PLIMSOLL_CHECK(
      x_low < x_high && y_low < y_high && std::isfinite(x_high - x_low) && std::isfinite(y_high - y_low),
      "plot of [{}, {}] x [{}, {}]", x_low, x_high, y_low, y_high);
}

std::string SvgPlot::format_x(double x) const {
  return fmt::format("{:.1f}", kLeft + kColumns * (x - x_low_) / (x_high_ - x_low_));
}

std::string SvgPlot::format_y(double y) const {
  return fmt::format("{:.1f}", kTop + kRows * (y_high_ - y) / (y_high_ - y_low_));
}

void SvgPlot::line(const std::vector<PlotPoint>& points, std::string_view colour, std::string_view dashes) {
  std::string path;
  bool pen_down = false;
  for (const auto& [x, y] : points) {
    const bool finite = std::isfinite(x) && std::isfinite(y);
    if (finite) path += fmt::format("{}{} {}", pen_down ? "L" : "M", format_x(x), format_y(y));
    pen_down = finite;
  }
  if (path.empty()) return;
  body_ += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>\n", path, colour,
                       dashes.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", dashes));
}

void SvgPlot::dots(const std::vector<PlotPoint>& points, std::string_view colour) {
  for (const auto& [x, y] : points) {
    if (!std::isfinite(x) || !std::isfinite(y)) continue;
    body_ += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"3.5\" fill=\"{}\"/>\n", format_x(x), format_y(y),
                         colour);
  }
}

void SvgPlot::area(const std::vector<PlotPoint>& lower, const std::vector<PlotPoint>& upper,
                   std::string_view colour) {
  if (lower.empty() || upper.empty()) return;
  std::string path;
  for (const auto& [x, y] : upper)
    path += fmt::format("{}{} {}", path.empty() ? "M" : "L", format_x(x), format_y(y));
  for (auto it = lower.rbegin(); it != lower.rend(); ++it)
    path += fmt::format("L{} {}", format_x(it->first), format_y(it->second));
  body_ += fmt::format("<path d=\"{}Z\" fill=\"{}\"/>\n", path, colour);
}

void SvgPlot::vertical_mark(double x, std::string_view word) {
  marks_ += fmt::format(
      "<path d=\"M{0} {1}V{2}\" stroke=\"#333333\" stroke-width=\"1\" stroke-dasharray=\"3 3\"/>\n",
      format_x(x), kTop, kTop + kRows);
  marks_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"12\" dx=\"4\">{}</text>\n", format_x(x),
                        kTop - 6, xml_escaped(word));
}

void SvgPlot::horizontal_mark(double y, std::string_view word) {
  marks_ += fmt::format(
      "<path d=\"M{0} {1}H{2}\" stroke=\"#333333\" stroke-width=\"1\" stroke-dasharray=\"6 3\"/>\n", kLeft,
      format_y(y), kLeft + kColumns);
  marks_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"12\">{}</text>\n", kLegendLeft, format_y(y),
                        xml_escaped(word));
}

void SvgPlot::legend_entry(std::string_view colour, std::string_view dashes, std::string_view word) {
  const int y = kTop + 60 + 20 * num_legend_++;
  if (dashes == "area") {
    legend_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"14\" height=\"12\" fill=\"{}\"/>\n", kLegendLeft,
                           y - 10, colour);
  } else {
    legend_ += fmt::format("<path d=\"M{} {}h18\" stroke=\"{}\" stroke-width=\"2\"{}/>\n", kLegendLeft, y - 4,
                           colour, dashes.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", dashes));
  }
  legend_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"12\">{}</text>\n", kLegendLeft + 24, y,
                         xml_escaped(word));
}

void SvgPlot::append_axes(std::string& out) const {
  const std::vector<double> y_ticks = round_ticks(y_low_, y_high_, 6);
  const std::vector<double> x_ticks = round_ticks(x_low_, x_high_, 8);
  const auto step = [](const std::vector<double>& ticks) {
    return ticks.size() > 1 ? ticks[1] - ticks[0] : 1.0;
  };
  for (double y : y_ticks) {
    out += fmt::format("<path d=\"M{} {}h{}\" stroke=\"#dddddd\" stroke-width=\"1\"/>\n", kLeft, format_y(y),
                       kColumns);
    out += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"12\" text-anchor=\"end\" dy=\"4\">{}</text>\n",
                       kLeft - 8, format_y(y), format_tick(y, step(y_ticks)));
  }
  for (double x : x_ticks) {
    out += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"12\" text-anchor=\"middle\">{}</text>\n",
                       format_x(x), kTop + kRows + 18, format_tick(x, step(x_ticks)));
  }
  out += fmt::format("<path d=\"M{} {}v{}h{}\" fill=\"none\" stroke=\"#333333\" stroke-width=\"1\"/>\n",
                     kLeft, kTop, kRows, kColumns);
  out += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"13\" text-anchor=\"middle\">{}</text>\n",
                     kLeft + kColumns / 2, kTop + kRows + 40, xml_escaped(text_.x_label));
  out += fmt::format(
      "<text x=\"22\" y=\"{0}\" font-size=\"13\" text-anchor=\"middle\" transform=\"rotate(-90 22 "
      "{0})\">{1}</text>\n",
      kTop + kRows / 2, xml_escaped(text_.y_label));
}

std::string SvgPlot::finish() const {
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" fill=\"#222222\">\n<title>{2}</title>\n<rect width=\"{0}\" height=\"{1}\" "
      "fill=\"#ffffff\"/>\n",
      kWidth, kHeight, xml_escaped(text_.title));
  out += fmt::format("<text x=\"{}\" y=\"24\" font-size=\"16\" font-weight=\"bold\">{}</text>\n", kLeft,
                     xml_escaped(text_.title));
  append_axes(out);
  out += body_ + marks_ + legend_;
  out += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"11\" fill=\"#555555\">{}</text>\n</svg>\n", kLeft,
                     kHeight - 14, xml_escaped(text_.caption));
  return out;
}

}  // namespace plimsoll
