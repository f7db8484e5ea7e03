#include "base/hash.h"

#include <gtest/gtest.h>

#include <string>

namespace plimsoll {
namespace {

// The published test vectors of XXH3 with seed 0.
TEST(Hash, KnownValues) {
  EXPECT_EQ(to_hex(hash64("")), "2d06800538d394c2");
  EXPECT_EQ(to_hex(hash128("")), "99aa06d3014798d86001c324468d497f");
}

TEST(Hash, PiecesDoNotMatter) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text.push_back(static_cast<char>(i * 7));
  for (const size_t piece : {1u, 3u, 64u, 255u, 1024u, 5000u}) {
    HashStream64 stream64;
    HashStream128 stream128;
    for (size_t at = 0; at < text.size(); at += piece) {
      stream64.update(std::string_view(text).substr(at, piece));
      stream128.update(std::string_view(text).substr(at, piece));
    }
    EXPECT_EQ(stream64.digest(), hash64(text)) << piece;
    EXPECT_EQ(stream128.digest(), hash128(text)) << piece;
  }
}

TEST(Hash, DigestMayBeTakenOnTheWay) {
  HashStream128 stream;
  stream.update("plim");
  EXPECT_EQ(stream.digest(), hash128("plim"));
  stream.update("soll");
  EXPECT_EQ(stream.digest(), hash128("plimsoll"));
}

TEST(Hash, HexRoundTrip) {
  const Hash128 hash = hash128("plimsoll");
  EXPECT_EQ(parse_hash128(to_hex(hash)), hash);
  EXPECT_EQ(parse_hash128(""), std::nullopt);
  EXPECT_EQ(parse_hash128(to_hex(hash).substr(1)), std::nullopt);
  EXPECT_EQ(parse_hash128(to_hex(hash).substr(1) + "G"), std::nullopt);
  EXPECT_EQ(parse_hash128(to_hex(hash) + "0"), std::nullopt);
}

}  // namespace
}  // namespace plimsoll
