// The parts that the models of tokenizers share: the tokens of a word, the map from a token's text to its id, and the
// cache of words.
//
// A TokenIds is immutable after its construction and then thread-safe. A WordCache belongs to one thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll::text {

// A token of a word: bytes [begin, end) of the word. With byte fallback, several tokens can have the same bytes.
struct WordToken {
  int32_t id = 0;
  uint32_t begin = 0;
  uint32_t end = 0;
};

inline constexpr int32_t kNoToken = -1;

// A constant map from the text of a token to its id. It keeps views of the texts, which the caller owns.
class TokenIds {
 public:
  TokenIds() = default;
  // If the same text occurs twice in `tokens`, find() returns the later id.
  explicit TokenIds(const std::vector<std::pair<std::string, int32_t>>& tokens);

  // Adds room for `count` tokens to an empty map.
  void reserve(size_t count);
  void insert(std::string_view token, int32_t id);

  // Returns the id, or kNoToken.
  int32_t find(std::string_view token) const;
  bool empty() const { return entries_.empty(); }

 private:
  struct Entry {
    std::string_view token;
    int32_t id = kNoToken;
    uint32_t hash = 0;
  };
  size_t place(std::string_view token, uint32_t hash) const;

  std::vector<Entry> entries_;  // an open hash table whose size is a power of two
};

// A cache of the tokens of short words. It is a hash table in which a new word replaces the word in its slot. The
// table grows with the number of words to 1 MiB, which fits into the second-level cache of a core.
class WordCache {
 public:
  // Appends the tokens of a word and returns true, if the word is in the cache.
  bool find(std::string_view word, std::vector<WordToken>* out) const;
  // Stores the tokens of a word unless it is too long, or they are too many or overlap.
  void store(std::string_view word, std::span<const WordToken> tokens);
  void clear();

 private:
  static constexpr size_t kKeyBytes = 32;
  static constexpr size_t kMaxTokens = 6;
  static constexpr size_t kFirstEntries = size_t{1} << 8;
  static constexpr size_t kMaxEntries = size_t{1} << 14;
  using Key = std::array<char, kKeyBytes>;  // the bytes of a word, zeros, and the length plus one
  struct alignas(64) Entry {
    Key key{};
    std::array<int32_t, kMaxTokens> ids{};
    std::array<uint8_t, kMaxTokens> ends{};
    uint8_t count = 0;
  };
  static Key key_of(std::string_view word);
  size_t place(const Key& key) const;
  void grow();

  std::vector<Entry> entries_;  // the number of entries is a power of two
  size_t num_stored_ = 0;       // number of words stored since the table last grew
};

}  // namespace plimsoll::text
