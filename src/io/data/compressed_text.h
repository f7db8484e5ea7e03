// Decompresses data files: gzip (.gz, zlib) and Zstandard (.zst, libzstd). Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace plimsoll {

enum class Compression : uint8_t { kNone, kGzip, kZstd };

// Returns the compression that the last extension of a path implies, in any case of letters.
Compression compression_of(const std::filesystem::path& path);
// Returns the path without the extension of its compression: "a.csv" for "a.csv.gz".
std::filesystem::path without_compression(const std::filesystem::path& path);

// The largest size that compressed text is decompressed to: this many times its own, or this many bytes if
// that is more. Text hardly ever shrinks to less than a fiftieth; gzip reaches a thousandth for zeros.
inline constexpr int64_t kMostExpansion = 200;
inline constexpr int64_t kLeastLimit = int64_t{256} << 20;

// Decompresses the bytes of a file. All members of gzip and all frames of Zstandard are read, as gzip and
// zstd do. Errors: kBadData for bytes that are not compressed in this way, a damaged or cut file (the message
// says after how many bytes), other bytes after the end, and more than the limit above; kWillNotFit for more
// than `max_bytes`, which is --memory_limit (0: none). Memory: both texts.
std::string decompress(const std::string& name, std::string_view bytes, Compression compression,
                       int64_t max_bytes);

}  // namespace plimsoll
