// Passes bytes to the decompressors, as they are or as a text that was compressed, cut and damaged here. The only
// permitted errors are plimsoll::Error for invalid data and for the memory limit. The first byte selects the format and
// the mode, the second the place of the damage.
#include <zlib.h>
#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/testing/fuzz_answer.h"
#include "io/data/table_reader.h"

namespace plimsoll {
namespace {

// Above the texts that a fuzzer compresses, and small enough that a bomb is refused quickly.
constexpr int64_t kMostBytes = int64_t{4} << 20;

std::string gzipped(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 1, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
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

std::string zstd_packed(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 1));
  return out;
}

bool is_refused(const std::string& bytes, Compression compression) {
  try {
    decompress("fuzz", bytes, compression, kMostBytes);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kBadData && error.code() != ErrorCode::kWillNotFit) throw;
    return true;
  }
  return false;
}

// A text comes back whole, a part of its file is refused, and a damaged file is read or refused.
void check_round_trip(const std::string& text, Compression compression, uint8_t place) {
  std::string packed = compression == Compression::kGzip ? gzipped(text) : zstd_packed(text);
  PLIMSOLL_CHECK(decompress("fuzz", packed, compression, kMostBytes) == text, "{} bytes are not read back",
                 text.size());
  const size_t at = packed.size() * place / 256;
  if (at > 0)
    PLIMSOLL_CHECK(is_refused(packed.substr(0, at), compression), "{} of {} bytes are read", at,
                   packed.size());
  packed[at] = static_cast<char>(packed[at] ^ 0x10);
  is_refused(packed, compression);
}

}  // namespace
}  // namespace plimsoll

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const auto compression = (data[0] & 1) != 0 ? plimsoll::Compression::kZstd : plimsoll::Compression::kGzip;
  const std::string bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  if ((data[0] & 2) != 0) {
    plimsoll::check_round_trip(bytes, compression, data[1]);
  } else {
    plimsoll::is_refused(bytes, compression);
  }
  return 0;
}
