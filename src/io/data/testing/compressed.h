// Compresses texts for tests and fuzzers of the decompressor. Thread-safe: pure functions.
#pragma once

#include <zlib.h>
#include <zstd.h>

#include <string>

namespace plimsoll {

// Returns a gzip member of the text. `level` is zlib's, from 1 (fast) to 9 (small).
inline std::string gzipped(const std::string& text, int level = 9) {
  z_stream stream{};
  deflateInit2(&stream, level, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// Returns a Zstandard frame of the text.
inline std::string zstd_packed(const std::string& text, int level = 3) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), level));
  return out;
}

}  // namespace plimsoll
