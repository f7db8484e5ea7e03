// Formats numbers for people, and texts with a given width. Pure; thread-safe. Nothing here depends on the locale.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll {

// Selects the characters that a terminal or a log can show: Unicode or only ASCII.
enum class Characters : uint8_t { kUnicode, kAscii };

// Formats bytes in MiB: "1278.4"; "-" for 0.
std::string format_mib(int64_t bytes);
// Formats a count: "335.1M", "22.7M", "4.4k", "812".
std::string format_count(int64_t count);
// Formats an integer with separators: "9,412".
std::string format_grouped(int64_t value);
// Formats a duration: "1:12", "1:02:03"; "?" for a negative or not finite number of seconds.
std::string format_clock(double seconds);
// Formats three significant digits, without an exponent if that is short: "12.1", "0.184", "4072".
std::string short_number(double value);
// Formats `part` as a percentage of `whole`: "94 %", "0.2 %"; "-" if `whole` is 0.
std::string format_share(double part, double whole);

// Breaks a sentence at blanks into lines of at most `width` columns; lines after the first are indented.
// There is a newline at the end. A longer word is not broken.
std::string wrapped(std::string_view text, size_t width = 100, size_t indent = 2);
// Shortens a name to at most `width` bytes: ".." and the end of the name, which identifies it better than its
// start.
std::string shortened(std::string_view name, size_t width);

// Returns the number of columns of a UTF-8 text on a terminal; each code point counts as one column.
size_t display_width(std::string_view text);
std::string left_aligned(std::string_view text, size_t width);
std::string right_aligned(std::string_view text, size_t width);

// The functions below format the progress of a run: a line for a terminal that is overwritten, and a plain line for a
// log. Pure; thread-safe. The caller adds carriage returns and newlines.

struct ProgressFigures {
  int64_t step = 0;
  int64_t max_steps = 0;
  double loss = 0;
  double grad_norm = 0;
  double learning_rate = 0;
  double tokens_per_s = 0;  // tokens per second, without padding
  // Share of the device's peak rate of floating-point operations that the model reaches, from 0 to 1. Not shown if unset.
  std::optional<double> model_flops_utilization = {};
  int64_t memory_bytes = 0;  // planned memory of the run
  double elapsed_s = 0;
  double remaining_s = -1;  // estimated time until the end; negative if unknown
};

// Formats a progress bar such as "step  418/1195  35 % ━━━━╺─────  loss 1.042  |g| 3.1  lr 3.2e-05  9,412 tok/s  611
// MiB  1:12 < 2:14", never wider than `columns`. The bar uses the space that the numbers leave. If not all numbers
// fit, those at the end are omitted first, but elapsed and remaining time last.
std::string progress_bar(const ProgressFigures& figures, size_t columns = 100,
                         Characters characters = Characters::kUnicode);
// Formats the same numbers as progress_bar() in one line without a bar, for a log. If not all of them fit, they are omitted
// in the same order as in progress_bar().
std::string progress_line(const ProgressFigures& figures, size_t columns = std::string::npos);

}  // namespace plimsoll
