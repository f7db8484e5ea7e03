#include "arguments/value.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <type_traits>

#include "base/check.h"

namespace plimsoll {
namespace {

std::optional<double> end_from_text(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

struct Interval {
  double low, high;
  bool low_open, high_open;
};

// Parses an interval such as "[0, 1)". Intervals are part of the program, so an invalid one is a bug; a test parses all
// of them.
Interval parse_interval(std::string_view text) {
  const size_t comma = text.find(',');
  PLIMSOLL_CHECK(
      text.size() >= 5 && comma != std::string_view::npos && (text.back() == ')' || text.back() == ']'),
      "arguments.inc must give ranges in a form such as '[0, 1)', but has '{}'", text);
  const auto low = end_from_text(text.substr(1, comma - 1));
  const std::string_view high_text = text.substr(comma + 2, text.size() - comma - 3);
  const auto high = high_text == "inf" ? std::numeric_limits<double>::infinity() : end_from_text(high_text);
  PLIMSOLL_CHECK(low && high, "arguments.inc must give ranges in a form such as '[0, 1)', but has '{}'",
                 text);
  return {*low, *high, text.front() == '(', text.back() == ')'};
}

template <typename Number>
void check_interval(const Setting& setting, Number value, std::string_view where) {
  const Interval interval = parse_interval(setting.info.range);
  const double x = static_cast<double>(value);
  const bool low_ok = interval.low_open ? x > interval.low : x >= interval.low;
  const bool high_ok = interval.high_open ? x < interval.high : x <= interval.high;
  if (!(low_ok && high_ok)) {
    throw_error(ErrorCode::kUsage, "{}: {} is outside {}", where, value, setting.info.range);
  }
}

}  // namespace

void check_range(const Arguments& arguments, const Setting& setting, std::string_view where) {
  if (setting.info.range.empty()) return;
  const auto check = [&]<typename T>(const T& value) {
    if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, double>) {
      check_interval(setting, value, where);
    } else if constexpr (std::is_same_v<T, std::optional<int64_t>> ||
                         std::is_same_v<T, std::optional<double>>) {
      if (value) check_interval(setting, *value, where);
    } else if constexpr (std::is_same_v<T, std::string>) {
      const auto choices = split_choices(setting.info.range);
      if (is_default(arguments, setting) ||
          std::ranges::find(choices, std::string_view(value)) != choices.end()) {
        return;
      }
      throw_error(ErrorCode::kUsage, "{}: {} is not one of {}{}", where, in_quotes(value),
                  fmt::join(choices, ", "), did_you_mean(value, choices));
    } else {
      PLIMSOLL_CHECK(false, "arguments.inc declares a range for the setting {}, whose type can have none",
                     setting.info.name);
    }
  };
  std::visit([&](auto member) { check(arguments.*member); }, setting.member);
}

}  // namespace plimsoll
