// Replaces values in a JSON text that a parser refuses although their extent is clear, so that a file can be
// read if such values are only in columns that nobody reads. For json_reader.cc. Thread-safe: a pure
// function.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

struct ReplacedValue {
  size_t offset = 0;     // in RepairedJson::text
  std::string original;  // NaN, 123...456, \ud83d
};

struct RepairedJson {
  std::string text;
  std::vector<ReplacedValue> replaced;  // in order; empty if the text is unchanged
};

// Replaces NaN, Infinity and -Infinity (as Python's json writes them) by null, numbers that 64 bits cannot
// hold by 0, and halves of surrogate pairs in strings by U+FFFD. Does not validate the rest.
RepairedJson repair_json(std::string_view text);

}  // namespace plimsoll
