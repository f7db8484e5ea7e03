// Types that the tokenizer models (WordPiece, BPE, Unigram, WordLevel) share: a token of a word, the map from the text of a token
// to its id, and the cache of the tokens of words.
//
// A TokenIds is immutable and thread-safe after its construction. Each thread needs its own WordCache.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll::text {

// A token and the range [begin, end) of bytes that it covers in its word. With byte fallback, several tokens can have the same
// range.
struct WordToken {
  int32_t id = 0;
  uint32_t begin = 0;
  uint32_t end = 0;
};

inline constexpr int32_t kNoToken = -1;

// A constant map from the text of a token to its id. It does not copy the texts, which must outlive it.
class TokenIds {
 public:
  TokenIds() = default;
  // If the same text occurs twice in `tokens`, find() returns the later id.
  explicit TokenIds(const std::vector<std::pair<std::string, int32_t>>& tokens);

  // Allocates memory for `count` tokens. Requires: the map is empty.
  void reserve(size_t count);
  void insert(std::string_view token, int32_t id);

  // Returns the id of the token with this text, or kNoToken if there is none.
  int32_t find(std::string_view token) const;
  bool empty() const { return entries_.empty(); }

 private:
  struct Entry {
    std::string_view token;
    int32_t id = kNoToken;
    uint32_t hash = 0;
  };
  size_t place(std::string_view token, uint32_t hash) const;

  std::vector<Entry> entries_;  // a hash table with open addressing, whose size is a power of two
};

// A cache of the tokens of short words: a hash table in which a new word overwrites the word with the same hash index. It grows
// with the number of words, up to 1 MiB, so that it fits into the second-level cache of a processor core.
class WordCache {
 public:
  // If the cache contains the word, appends its tokens and returns true.
  bool find(std::string_view word, std::vector<WordToken>* out) const;
  // Stores the tokens of a word. Does nothing if the word is too long, or if its tokens are too many or overlap.
  void store(std::string_view word, std::span<const WordToken> tokens);
  void clear();

 private:
  static constexpr size_t kKeyBytes = 32;
  static constexpr size_t kMaxTokens = 6;
  static constexpr size_t kFirstEntries = size_t{1} << 8;
  static constexpr size_t kMaxEntries = size_t{1} << 14;
  // the bytes of a word, then zeros, and the length of the word plus one in the last byte
  using Key = std::array<char, kKeyBytes>;
  struct alignas(64) Entry {
    Key key{};
    std::array<int32_t, kMaxTokens> ids{};
    std::array<uint8_t, kMaxTokens> ends{};
    uint8_t count = 0;
  };
  static Key key_of(std::string_view word);
  size_t place(const Key& key) const;
  void grow();

  std::vector<Entry> entries_;  // a hash table, whose size is a power of two
  size_t num_stored_ = 0;       // number of words stored since the table last grew
};

}  // namespace plimsoll::text
