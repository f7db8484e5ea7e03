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

// Temporary memory for merging, which is reused for all words. Each thread needs its own.
struct BpeScratch {
  // A token of a partly merged word, as an element of a doubly linked list.
  struct Symbol {
    int32_t id;
    int32_t previous, next;  // indices of the neighbours in `symbols`; -1 if there is none
    uint32_t length;  // number of bytes in the word; 0 after the symbol was merged into the one before it
  };
  // A possible merge of the symbol at index `position` with the next one into the token `result`.
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

  // Appends the tokens of one word. Requires: the word is valid UTF-8, not empty, and smaller than 4 GiB. Errors: kBadData if a
  // character has no token and the model's unknown token is not in the vocabulary. Cost: O(n log n) for n characters.
  void split(std::string_view word, BpeScratch& scratch, std::vector<WordToken>* out) const;

  // Returns true if split_bytes() may be used: the vocabulary contains the character of each byte that occurs in UTF-8
  // (byte_level.h), and the model has no option that treats single characters specially.
  bool is_byte_level() const { return is_byte_level_; }
  // Splits a word like split(), but takes the original bytes of the word instead of the printable characters that represent them
  // in byte-level BPE. Token offsets count these bytes. Requires: is_byte_level(); valid UTF-8.
  void split_bytes(std::string_view bytes, BpeScratch& scratch, std::vector<WordToken>* out) const;

  // Returns true if splitting the parts of a text separately gives the same tokens as splitting it at once, when the text is
  // divided before each `mark` that does not follow another mark. This holds if no token contains a mark after other text.
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
  std::vector<Merge> merges_;  // a hash table with open addressing, whose size is a power of two
  uint32_t shift_ = 0;         // the right shift that turns a hash into an index of merges_
  int32_t unk_id_ = kNoToken;
  std::vector<int32_t> character_ids_;       // token ids of single characters below kNumDirect
  std::array<int32_t, 256> fallback_ids_{};  // token ids of the byte tokens <0x00> to <0xFF>
  // token ids of the characters that represent the bytes in byte-level BPE
  std::array<int32_t, 256> byte_ids_{};
  TokenIds raw_ids_;      // maps the bytes that a byte-level token represents to the token id
  std::string raw_text_;  // the bytes to which the keys of raw_ids_ refer
  bool is_byte_level_ = false;
};

}  // namespace plimsoll::text
