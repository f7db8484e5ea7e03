// Figures as people read them, and texts of a given width. Pure; thread-safe. Nothing here depends on the
// locale.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll {

// What a terminal or a log can show.
enum class Characters : uint8_t { kUnicode, kAscii };

// "1278.4" MiB; "-" for none.
std::string format_mib(int64_t bytes);
// "335.1M", "22.7M", "4.4k", "812".
std::string format_count(int64_t count);
// "9,412".
std::string format_grouped(int64_t value);
// "1:12", "1:02:03"; "?" for a negative or not finite number of seconds.
std::string format_clock(double seconds);
// Three significant digits without an exponent where that is short: "12.1", "0.184", "4072".
std::string short_number(double value);
// "94 %", "0.2 %"; "-" where the whole is 0.
std::string format_share(double part, double whole);

// Words of a sentence in lines of at most `width` columns, broken at blanks; lines after the first are
// indented. Newline at the end. A word that is longer stays whole.
std::string wrapped(std::string_view text, size_t width = 100, size_t indent = 2);
// A name in at most `width` bytes: its end tells more than its start, so that "..", then the end.
std::string shortened(std::string_view name, size_t width);

// Columns that a UTF-8 text takes on a terminal, each code point one column.
size_t display_width(std::string_view text);
std::string left_aligned(std::string_view text, size_t width);
std::string right_aligned(std::string_view text, size_t width);

}  // namespace plimsoll
