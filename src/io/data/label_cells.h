// Parses the labels of single rows. It is used by labels.cc and label_encoding.cc only. Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/data/table_reader.h"
#include "io/data/text_split.h"

namespace plimsoll {

// Parses the complete text, except for surrounding blanks, as an integer; a leading '+' is allowed.
std::optional<int64_t> as_integer(std::string_view text);
// Parses a number. Also accepts "nan" and "inf", which the caller refuses with a specific message.
std::optional<double> as_number(std::string_view text);

// Parses an integer, or a float whose value is an integer, such as 1.0 or 1e3.
std::optional<int64_t> as_whole_number(std::string_view text);

// Returns the name of the class that a label means. This is the text of the label. If labels are integers, '+' and leading zeros are
// removed, so that "+07" and "7" are one class. Requires: with `integers`, the text is an integer.
std::string class_name(std::string_view text, bool integers);

// Throws kBadData with the message and the file and line of the row.
[[noreturn]] void fail_at_row(const TextSplit& split, int64_t row, const std::string& message);

// Returns true if the label is null or contains only blanks.
bool is_label_missing(const TextSplit& split, int64_t row);

// Returns true if the label is a JSON list, or text that is one or begins like one (written_list.h).
bool is_label_list(const TextSplit& split, int64_t row);

// Parses the text as a number that is finite in fp32. Errors: kBadData with the file:line of the row.
double finite_number(const TextSplit& split, int64_t row, std::string_view text);

// Throws kBadData for a label that is a JSON object or a Python dictionary, with the file:line of the row.
[[noreturn]] void fail_dictionary(const TextSplit& split, int64_t row);

// Returns the items of a multi-label cell: the items of a list, or text separated by the delimiter. true and false become "1" and "0" of
// kind kBool. Errors: kBadData with the file:line of the row for an item that is not a label, for text that begins with '[' but is
// not a list, and for an object.
std::vector<JsonItem> label_items(const TextSplit& split, int64_t row, std::string_view delimiter);

}  // namespace plimsoll
