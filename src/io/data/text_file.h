// A text file read once into memory, checked to be text (UTF-8, no NUL), and the places in it that errors
// name. It is not a parser: csv_reader.h and json_reader.h are. Thread-safe: values only. A TextFile owns its
// bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/check.h"

namespace plimsoll {

// Line and column count from 1; a column is a code point, as editors count them.
struct TextPlace {
  int64_t line = 1;
  int64_t column = 1;
};

struct TextFile {
  std::string name;           // as the user gave it, for messages
  std::string bytes;          // without a leading byte order mark
  uint64_t content_hash = 0;  // XXH3 of the bytes as they are on disk
};

// Reads and checks the file. A UTF-8 byte order mark is dropped.
// Errors: kBadData if the file cannot be opened, is a folder, is empty, holds a NUL byte or is not UTF-8 (the
// place and what to do are in the message; UTF-16 is recognised). Memory: the file's size.
TextFile read_data_file(const std::filesystem::path& path);

// The same checks on bytes that are in memory already.
TextFile text_file_from_memory(std::string name, std::string bytes);

// The place of a byte offset. Cost: a scan from the beginning. Requires: offset <= text.size().
TextPlace place_of(std::string_view text, int64_t offset);

// The start of a text as an error message shows it: at most `max_code_points`, control characters escaped,
// "..." if cut.
std::string excerpt(std::string_view text, int64_t max_code_points = 40);

// Throws kBadData with "file:line: message" or "file:line:column: message".
template <typename... Args>
[[noreturn]] void throw_at_line(const std::string& file, int64_t line, fmt::format_string<Args...> format,
                                Args&&... args) {
  throw Error(ErrorCode::kBadData,
              fmt::format("{}:{}: {}", file, line, fmt::format(format, std::forward<Args>(args)...)));
}
template <typename... Args>
[[noreturn]] void throw_at_place(const std::string& file, TextPlace place, fmt::format_string<Args...> format,
                                 Args&&... args) {
  throw Error(ErrorCode::kBadData, fmt::format("{}:{}:{}: {}", file, place.line, place.column,
                                               fmt::format(format, std::forward<Args>(args)...)));
}

}  // namespace plimsoll
