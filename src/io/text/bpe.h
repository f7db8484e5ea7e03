// Byte pair encoding: joins the characters of a word pair by pair, in the order in which training learned the pairs
// (Sennrich, Haddow and Birch, "Neural Machine Translation of Rare Words with Subword Units", ACL 2016), with the
// options of Hugging Face's tokenizers.
//
// It neither normalizes text nor finds words. Immutable after construction; thread-safe with one BpeScratch per thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/text/subwords.h"
#include "io/text/tokenizer_spec.h"

namespace plimsoll::text {

// Buffers of one thread.
struct BpeScratch {
  // A part of a word, as an element of a linked list of the parts.
  struct Symbol {
    int32_t id;
    int32_t previous, next;  // positions; -1 at the ends
    uint32_t length;         // bytes; 0 once it was joined to the one before it
  };
  // A pair that may be joined: the symbol at `position` and the one after it.
  struct Candidate {
    uint32_t rank;
    int32_t position;
    int32_t result;
  };
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
  std::string text;
};

class Bpe {
 public:
  Bpe(const Vocabulary& vocabulary, const TokenIds& ids, const BpeSpec& spec);

  // Appends the tokens of one word. Requires: word is valid UTF-8, not empty, under 4 GiB. Errors: kBadData if a
  // character has no token and the unknown token is not in the vocabulary. Cost: O(n log n) for n characters.
  void split(std::string_view word, BpeScratch& scratch, std::vector<WordToken>* out) const;

  // Returns true if the vocabulary has the characters of all bytes that UTF-8 uses (byte_level.h), and no option of
  // the model concerns single characters.
  bool is_byte_level() const { return is_byte_level_; }
  // Splits a word as split() does, but takes the bytes of the word instead of the characters that represent them.
  // Offsets of tokens count these bytes. Requires: is_byte_level(); valid UTF-8.
  void split_bytes(std::string_view bytes, BpeScratch& scratch, std::vector<WordToken>* out) const;

  // Returns true if a text may be divided before every `mark` that does not follow another mark, and the parts give
  // the same tokens as the whole: no token contains a mark after other text.
  bool splits_before(std::string_view mark, const Vocabulary& vocabulary) const;

  int32_t unk_id() const { return unk_id_; }

 private:
  struct Merge {
    uint64_t pair = kNoPair;
    uint32_t rank = 0;
    int32_t result = 0;
  };
  static constexpr uint64_t kNoPair = ~uint64_t{0};
  static uint64_t pair_of(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }

  const Merge* find(int32_t left, int32_t right) const;
  void add_merge(const BpeMerge& merge, uint32_t rank);
  void add_characters(std::string_view word, BpeScratch& scratch) const;
  void push_candidate(int32_t position, BpeScratch& scratch) const;
  void merge_all(BpeScratch& scratch) const;
  void merge_short(BpeScratch& scratch) const;
  void merge_long(BpeScratch& scratch) const;
  static void append(const BpeScratch& scratch, std::vector<WordToken>* out);

  const TokenIds& ids_;
  const BpeSpec& spec_;
  std::vector<Merge> merges_;  // an open hash table whose size is a power of two
  uint32_t shift_ = 0;         // reduces a hash to a position in the table
  int32_t unk_id_ = kNoToken;
  std::vector<int32_t> character_ids_;       // ids of code points below kNumDirect, without prefix and suffix
  std::array<int32_t, 256> fallback_ids_{};  // ids of the tokens <0x00> to <0xFF>
  std::array<int32_t, 256> byte_ids_{};      // ids of the characters that represent bytes
  TokenIds raw_ids_;      // ids of tokens whose characters all represent bytes, by those bytes
  std::string raw_text_;  // storage of the keys of raw_ids_
  bool is_byte_level_ = false;
};

}  // namespace plimsoll::text
