#include "io/data/text_file.h"

#include <simdjson.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/disguised_file.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "io/data/table_reader.h"

namespace plimsoll {
namespace {

// Returns the command that converts the text to UTF-8. Texts that were not read from a file have names with a blank, such as
// "standard input", and are converted on the way.
std::string conversion_of(const std::string& name, std::string_view encoding) {
  const std::string command = fmt::format("iconv -f {} -t UTF-8", encoding);
  std::error_code ignored;
  const bool is_file = name.find(' ') == std::string::npos || std::filesystem::exists(name, ignored);
  if (!is_file) return fmt::format("pipe it through {}", command);
  const Compression compression = compression_of(name);
  if (compression == Compression::kNone) return fmt::format("{} {} > converted", command, name);
  return fmt::format("{} {} | {} > converted", unpacking_command(compression), name, command);
}

void check_is_text(const TextFile& file) {
  const std::string& bytes = file.bytes;
  if (const std::string_view encoding = encoding_of_mark(bytes); !encoding.empty()) {
    throw_error(ErrorCode::kBadData,
                "{}: the file begins with a {} byte-order mark, but UTF-8 is expected\n  convert it: {}",
                file.name, encoding, conversion_of(file.name, encoding));
  }
  refuse_disguised_text(std::string_view(bytes).substr(0, kDisguiseBytes), file.name);
  if (const size_t nul = bytes.find('\0'); nul != std::string::npos) {
    const auto offset = static_cast<int64_t>(nul);
    throw_at_place(file.name, place_in(file, offset),
                   "NUL byte (0x00) at byte {}: this is not a text file, or it is UTF-16 without a "
                   "byte-order mark\n  examine it with `file`; text must be UTF-8",
                   offset);
  }
  if (!simdjson::validate_utf8(bytes.data(), bytes.size())) {
    const size_t offset = find_invalid_utf8(bytes);
    PLIMSOLL_CHECK(offset < bytes.size(), "two UTF-8 checks disagree");
    throw_at_place(file.name, place_in(file, static_cast<int64_t>(offset)),
                   "byte 0x{:02X} is not valid UTF-8\n  if the file is Latin-1: {}",
                   static_cast<unsigned>(static_cast<unsigned char>(bytes[offset])),
                   conversion_of(file.name, "LATIN1"));
  }
}

}  // namespace

TextFile text_file_from_memory(std::string name, std::string bytes, int64_t first_line) {
  TextFile file;
  file.first_line = first_line;
  file.name = std::move(name);
  file.content_hash = hash64(bytes);
  if (bytes.starts_with("\xEF\xBB\xBF")) {
    bytes.erase(0, 3);
  }
  file.bytes = std::move(bytes);
  if (file.bytes.empty()) {
    throw_error(ErrorCode::kBadData, "{}: the file is empty; check that it is complete, or name another",
                file.name);
  }
  check_is_text(file);
  return file;
}

TextFile read_data_file(const std::filesystem::path& path, int64_t max_bytes) {
  const std::string name = path.string();
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    throw_error(ErrorCode::kBadData, "{}: this is a folder, but a data file is expected; give a file in it",
                name);
  }
  errno = 0;
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  if (!stream) {
    throw_error(ErrorCode::kBadData, "{}: cannot open the file: {}; check its name and permissions", name,
                std::strerror(errno));
  }
  // A pipe has no size, so it is read in pieces.
  const std::streamoff size = stream.tellg();
  std::string bytes;
  if (size >= 0) {
    stream.seekg(0);
    bytes.resize(static_cast<size_t>(size));
    stream.read(bytes.data(), size);
    bytes.resize(static_cast<size_t>(stream.gcount()));
  } else {
    stream.clear();
    std::string piece(1 << 16, '\0');
    while (stream.read(piece.data(), static_cast<std::streamsize>(piece.size())) || stream.gcount() > 0) {
      bytes.append(piece.data(), static_cast<size_t>(stream.gcount()));
    }
  }
  if (stream.bad()) {
    throw_error(ErrorCode::kBadData,
                "{}: reading failed after {} bytes: {}; check the disk, or copy the file again", name,
                bytes.size(), std::strerror(errno));
  }
  const Compression compression = compression_of(path);
  if (compression != Compression::kNone) bytes = decompress(name, bytes, compression, max_bytes);
  return text_file_from_memory(name, std::move(bytes));
}

TextPlace place_of(std::string_view text, int64_t offset) {
  TextPlace place;
  for (size_t i = 0; i < static_cast<size_t>(offset); ++i) {
    const bool lone_cr = text[i] == '\r' && (i + 1 >= text.size() || text[i + 1] != '\n');
    if (text[i] == '\n' || lone_cr) {
      ++place.line;
      place.column = 1;
    } else if (!is_utf8_continuation(text[i])) {
      ++place.column;
    }
  }
  return place;
}

TextPlace place_in(const TextFile& file, int64_t offset) {
  TextPlace place = place_of(file.bytes, offset);
  place.line += file.first_line - 1;
  return place;
}

std::string excerpt(std::string_view text, int64_t max_code_points) {
  std::string shown;
  int64_t count = 0;
  for (const char byte : text) {
    if (!is_utf8_continuation(byte) && ++count > max_code_points) {
      return shown + "...";
    }
    const auto value = static_cast<unsigned char>(byte);
    if (byte == '\n') {
      shown += "\\n";
    } else if (byte == '\r') {
      shown += "\\r";
    } else if (byte == '\t') {
      shown += "\\t";
    } else if (value < 0x20 || value == 0x7F) {
      shown += fmt::format("\\x{:02X}", static_cast<unsigned>(value));
    } else {
      shown += byte;
    }
  }
  return shown;
}

}  // namespace plimsoll
