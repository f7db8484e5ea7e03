// How one label cell is read. For labels.cc and label_encoding.cc. Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/data/json_reader.h"
#include "io/data/text_split.h"

namespace plimsoll {

// The whole text, blanks around it aside, as a number; a leading '+' is allowed.
std::optional<int64_t> as_integer(std::string_view text);
// Takes "nan" and "inf" too: the caller refuses them by name.
std::optional<double> as_number(std::string_view text);

// The name of a class: the text, or the canonical form of an integer. Requires: with `integers`, the text is
// one.
std::string class_name(std::string_view text, bool integers);

// Throws kBadData with the row's file:line.
[[noreturn]] void fail_at_row(const TextSplit& split, int64_t row, const std::string& message);

// Null, or text of nothing but blanks.
bool is_label_missing(const TextSplit& split, int64_t row);

// A list of JSON, or text that is written as one, in brackets.
bool is_label_list(const TextSplit& split, int64_t row);

// The text as a number that fp32 holds. Errors: kBadData with the row's file:line.
double finite_number(const TextSplit& split, int64_t row, std::string_view text);

// The items of a multi-label cell: of a list, or of text separated by the delimiter. true and false are 1 and
// 0, of kind kBool. Errors: kBadData with the row's file:line for an item that is no label, and for text that
// begins with '[' and is no list of JSON.
std::vector<JsonItem> label_items(const TextSplit& split, int64_t row, char delimiter);

}  // namespace plimsoll
