// A text file that is read once into memory and validated (UTF-8, no NUL), and positions in it for error messages. table_reader.h has the
// parsers. Thread-safe: the types are plain values. A TextFile owns its bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/check.h"

namespace plimsoll {

// A position in a text. Line and column count from 1. A column is a code point, as in editors.
struct TextPlace {
  int64_t line = 1;
  int64_t column = 1;
};

struct TextFile {
  std::string name;           // the path that the user gave, for messages
  std::string bytes;          // content of the file without a leading byte-order mark
  uint64_t content_hash = 0;  // XXH3 of the bytes on disk
  int64_t first_line = 1;     // the line number of the first byte; above 1 if this is a later part of a file
};

// Reads and validates the file. A UTF-8 byte-order mark is dropped. Errors: kBadData if the file cannot be opened, is a folder, is empty,
// contains a NUL byte or is not UTF-8 (the message contains the position and the remedy; UTF-16 is recognized). Memory: the size of the
// file. A file whose name ends in .gz or .zst is decompressed; errors are then also those of decompress(). `max_bytes` is the maximum
// size of the decompressed text (0: no limit).
TextFile read_data_file(const std::filesystem::path& path, int64_t max_bytes = 0);

// Creates a TextFile from bytes that are already in memory, after validating them as read_data_file() does.
TextFile text_file_from_memory(std::string name, std::string bytes, int64_t first_line = 1);

// Returns the line and column of a byte offset. Cost: a scan from the start. Requires: offset <= text.size().
TextPlace place_of(std::string_view text, int64_t offset);

// Returns the line and column of a byte offset in a file. The bytes may be a later part of the file, which begins at the line first_line.
TextPlace place_in(const TextFile& file, int64_t offset);

// Returns the start of a text for an error message: at most `max_code_points`, with control characters
// escaped, followed by "..." if it was cut.
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
