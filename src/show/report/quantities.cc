#include "show/report/quantities.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace plimsoll {

std::string format_mib(int64_t bytes) {
  return bytes == 0 ? "-" : fmt::format("{:.1f}", static_cast<double>(bytes) / 1048576.0);
}

std::string format_count(int64_t count) {
  const auto value = static_cast<double>(count);
  if (count >= 1'000'000'000) return fmt::format("{:.2f}G", value / 1e9);
  if (count >= 1'000'000) return fmt::format("{:.1f}M", value / 1e6);
  if (count >= 1'000) return fmt::format("{:.1f}k", value / 1e3);
  return fmt::format("{}", count);
}

std::string format_grouped(int64_t value) {
  const std::string digits = fmt::format("{}", value);
  const size_t first = digits.starts_with('-') ? 1 : 0;
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > first && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string format_clock(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9) return "?";
  const auto whole = static_cast<int64_t>(seconds);
  const int64_t hours = whole / 3600;
  const int64_t minutes = whole / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string short_number(double value) {
  const double magnitude = std::fabs(value);
  if (!std::isfinite(value)) return fmt::format("{}", value);
  if (value == 0) return "0";
  if (magnitude >= 1e9 || magnitude < 1e-4) return fmt::format("{:.2e}", value);
  if (magnitude >= 100) return fmt::format("{:.0f}", value);
  if (magnitude >= 10) return fmt::format("{:.1f}", value);
  if (magnitude >= 1) return fmt::format("{:.2f}", value);
  return fmt::format("{:.3g}", value);
}

std::string format_share(double part, double whole) {
  if (!(whole > 0)) return "-";
  const double percent = 100.0 * part / whole;
  return percent >= 0.95 || percent == 0 ? fmt::format("{:.0f} %", percent)
                                         : fmt::format("{:.1f} %", percent);
}

std::string wrapped(std::string_view text, size_t width, size_t indent) {
  std::string lines;
  size_t used = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    const size_t columns = display_width(word);
    if (used > 0 && used + 1 + columns > width) {
      lines += "\n" + std::string(indent, ' ');
      used = indent;
    } else if (!lines.empty()) {
      lines += ' ';
      ++used;
    }
    lines += word;
    used += columns;
    text.remove_prefix(std::min(text.size(), word.size() + 1));
  }
  return lines + "\n";
}

std::string shortened(std::string_view name, size_t width) {
  if (name.size() <= width || width < 2) return std::string(name);
  return ".." + std::string(name.substr(name.size() - (width - 2)));
}

size_t display_width(std::string_view text) {
  size_t width = 0;
  for (unsigned char c : text) width += (c & 0xc0u) != 0x80u ? 1 : 0;
  return width;
}

std::string left_aligned(std::string_view text, size_t width) {
  std::string padded(text);
  const size_t used = display_width(text);
  if (used < width) padded.append(width - used, ' ');
  return padded;
}

std::string right_aligned(std::string_view text, size_t width) {
  const size_t used = display_width(text);
  return std::string(used < width ? width - used : 0, ' ') + std::string(text);
}

}  // namespace plimsoll
