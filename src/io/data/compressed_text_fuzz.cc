// Passes the input to the decompressors. In one mode the input is passed unchanged; in the other mode it is first compressed, then
// truncated and damaged. The only permitted errors are plimsoll::Error for invalid data and for the memory limit. The first byte selects
// the format and the mode, the second the position of the damaged byte.

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/testing/fuzz_answer.h"
#include "io/data/table_reader.h"
#include "io/data/testing/compressed.h"

namespace plimsoll {
namespace {

// The memory limit for decompressed text. It is larger than any text that the fuzzer compresses, and so small that a decompression bomb
// is refused quickly.
constexpr int64_t kMostBytes = int64_t{4} << 20;

bool is_refused(const std::string& bytes, Compression compression) {
  try {
    decompress("fuzz", bytes, compression, kMostBytes);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kBadData && error.code() != ErrorCode::kWillNotFit) throw;
    return true;
  }
  return false;
}

// Checks that a compressed text is decompressed to the same text, that a truncated file is refused, and that a damaged file is either
// read or refused with an error.
void check_round_trip(const std::string& text, Compression compression, uint8_t place) {
  std::string packed = compression == Compression::kGzip ? gzipped(text, 1) : zstd_packed(text, 1);
  PLIMSOLL_CHECK(decompress("fuzz", packed, compression, kMostBytes) == text,
                 "a text of {} bytes was different after compression and decompression", text.size());
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
