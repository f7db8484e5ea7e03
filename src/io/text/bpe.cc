#include "io/text/bpe.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"
#include "io/text/byte_level.h"
#include "io/text/unicode.h"

namespace plimsoll::text {
namespace {

// The ids of single characters below this code point are stored in an array, and those of other characters in the hash table of
// tokens.
constexpr char32_t kNumDirect = 0x10000;

// Words of at most this number of symbols (tokens before merging) are merged by scanning all adjacent pairs for the best one.
// Longer words use a heap, which is slower for short words: for English words of 4 to 8 bytes with GPT-2's merges, it takes 2.5
// times as long.
constexpr size_t kMaxShort = 40;

constexpr uint32_t kNoRank = std::numeric_limits<uint32_t>::max();

// Returns true if the byte can occur in valid UTF-8: all bytes can except 0xC0, 0xC1 and those above 0xF4.
bool occurs_in_utf8(size_t byte) {
  return byte != 0xC0 && byte != 0xC1 && byte <= 0xF4;
}

// Appends the bytes that the characters of a byte-level token represent. Returns false if one of the characters represents no
// byte.
bool append_raw_bytes(std::string_view token, std::string* out) {
  for (size_t i = 0; i < token.size();) {
    const DecodedCodePoint c = decode_valid_utf8(token.data() + i);
    const auto byte = byte_of_character(c.value);
    if (!byte) return false;
    out->push_back(static_cast<char>(*byte));
    i += c.num_bytes;
  }
  return true;
}

// The comparison for the heap of possible merges. The heap functions of the standard library put the largest element first. The merge with
// the lowest rank must come first (of equal ranks the leftmost), so it has to compare as the largest.
bool comes_later(const BpeScratch::Candidate& a, const BpeScratch::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
}

}  // namespace

Bpe::Bpe(const Vocabulary& vocabulary, const TokenIds& ids, const BpeSpec& spec)
    : ids_(ids), spec_(spec), unk_id_(spec.unk_token ? ids.find(*spec.unk_token) : kNoToken) {
  const size_t size = std::bit_ceil(2 * spec.merges.size() + 2);
  merges_.resize(size);
  shift_ = 64 - static_cast<uint32_t>(std::bit_width(size) - 1);
  for (size_t i = 0; i < spec.merges.size(); ++i) add_merge(spec.merges[i], narrow<uint32_t>(i));

  character_ids_.resize(kNumDirect, kNoToken);
  for (const auto& [token, id] : vocabulary) {
    if (token.empty() || token.size() > 3) continue;
    const DecodedCodePoint c = decode_valid_utf8(token.data());
    if (c.num_bytes == token.size()) character_ids_[c.value] = id;
  }
  bool has_all_bytes = true;
  for (size_t byte = 0; byte < 256; ++byte) {
    fallback_ids_[byte] = ids.find(fmt::format("<0x{:02X}>", byte));
    byte_ids_[byte] = character_ids_[byte_character(static_cast<uint8_t>(byte))];
    if (occurs_in_utf8(byte) && byte_ids_[byte] == kNoToken) has_all_bytes = false;
  }
  is_byte_level_ = has_all_bytes && spec.continuing_prefix.empty() && spec.end_suffix.empty();
  if (!is_byte_level_ || !spec.ignore_merges) return;
  size_t num_bytes = 0;
  for (const auto& entry : vocabulary) num_bytes += entry.first.size();
  // Reserves the final size, because the strings in raw_ids_ are views into this text, which must not be moved.
  raw_text_.reserve(num_bytes);
  raw_ids_.reserve(vocabulary.size());
  for (const auto& [token, id] : vocabulary) {
    const size_t begin = raw_text_.size();
    if (append_raw_bytes(token, &raw_text_)) {
      raw_ids_.insert(std::string_view(raw_text_).substr(begin), id);
    } else {
      raw_text_.resize(begin);
    }
  }
}

void Bpe::add_merge(const BpeMerge& merge, uint32_t rank) {
  const uint64_t pair = pair_of(merge.left, merge.right);
  size_t i = (pair * 0x9E3779B97F4A7C15u) >> shift_;
  while (merges_[i].pair != kNoPair && merges_[i].pair != pair) i = (i + 1) & (merges_.size() - 1);
  // if the merges contain a pair twice, the rank of the second occurrence is used
  merges_[i] = {pair, rank, merge.result};
}

const Bpe::Merge* Bpe::find(int32_t left, int32_t right) const {
  const uint64_t pair = pair_of(left, right);
  for (size_t i = (pair * 0x9E3779B97F4A7C15u) >> shift_;; i = (i + 1) & (merges_.size() - 1)) {
    if (merges_[i].pair == pair) return &merges_[i];
    if (merges_[i].pair == kNoPair) return nullptr;
  }
}

bool Bpe::splits_before(std::string_view mark, const Vocabulary& vocabulary) const {
  if (ids_.find(mark) == kNoToken || !spec_.continuing_prefix.empty() || !spec_.end_suffix.empty() ||
      spec_.ignore_merges) {
    return false;
  }
  // If the model has neither an unknown token nor byte fallback, a character without a token is dropped, and the offsets of the later
  // tokens of the word are too small by its length, as in Hugging Face's tokenizers. Parts of a word that are split separately would not
  // have this error and thus have other offsets, so the function returns false for such a model.
  const bool has_bytes = spec_.byte_fallback && std::all_of(fallback_ids_.begin(), fallback_ids_.end(),
                                                            [](int32_t id) { return id != kNoToken; });
  if (unk_id_ == kNoToken && !has_bytes) return false;
  // Dividing a word before each `mark` changes no token unless some token contains the mark after other text, because only such a
  // token could extend across a division.
  return std::none_of(vocabulary.begin(), vocabulary.end(), [&](const auto& entry) {
    const std::string_view token = entry.first;
    for (size_t at = token.find(mark, 1); at != std::string_view::npos; at = token.find(mark, at + 1)) {
      if (!token.substr(0, at).ends_with(mark)) return true;
    }
    return false;
  });
}

// Initializes the symbols of a word, one per character. A character without a token becomes its bytes or the unknown token. If
// the model has neither, the character is dropped and the tokens after it get offsets as if it had not existed, as in Hugging
// Face's tokenizers.
void Bpe::add_characters(std::string_view word, BpeScratch& scratch) const {
  const auto add = [&](int32_t id, size_t length) {
    const auto position = static_cast<int32_t>(scratch.symbols.size());
    scratch.symbols.push_back({id, position - 1, position + 1, static_cast<uint32_t>(length)});
  };
  const bool is_plain = spec_.continuing_prefix.empty() && spec_.end_suffix.empty();
  size_t unknown = 0;  // number of bytes of the unknown characters so far that have not become a symbol yet
  for (size_t i = 0; i < word.size();) {
    const DecodedCodePoint c = decode_valid_utf8(word.data() + i);
    std::string_view text = word.substr(i, c.num_bytes);
    int32_t id = kNoToken;
    if (is_plain) {
      id = c.value < kNumDirect ? character_ids_[c.value] : ids_.find(text);
    } else {
      scratch.text = i > 0 ? spec_.continuing_prefix : "";
      scratch.text += text;
      if (i + c.num_bytes == word.size()) scratch.text += spec_.end_suffix;
      text = scratch.text;
      id = ids_.find(text);
    }
    i += c.num_bytes;
    if (id != kNoToken) {
      if (unknown > 0) add(unk_id_, unknown);
      unknown = 0;
      add(id, c.num_bytes);
      continue;
    }
    const bool has_bytes = spec_.byte_fallback && std::all_of(text.begin(), text.end(), [&](char byte) {
                             return fallback_ids_[static_cast<unsigned char>(byte)] != kNoToken;
                           });
    // The `unknown` bytes of earlier characters of the word may not have become a symbol yet. The bytes of this character are nevertheless
    // added first, so that they come before the unknown token, as in Hugging Face's tokenizers.
    if (has_bytes) {
      for (const char byte : text) add(fallback_ids_[static_cast<unsigned char>(byte)], 1);
      continue;
    }
    if (!spec_.unk_token) continue;
    if (unk_id_ == kNoToken) {
      throw_error(ErrorCode::kBadData,
                  "the vocabulary has no token for '{}', nor the unknown token '{}'; correct unk_token in "
                  "tokenizer.json or remove the character",
                  text, *spec_.unk_token);
    }
    if (unknown > 0 && !spec_.fuse_unk) {
      add(unk_id_, unknown);
      unknown = 0;
    }
    unknown += c.num_bytes;
  }
  if (unknown > 0) add(unk_id_, unknown);
  if (!scratch.symbols.empty()) scratch.symbols.back().next = -1;
}

void Bpe::split(std::string_view word, BpeScratch& scratch, std::vector<WordToken>* out) const {
  if (spec_.ignore_merges) {
    if (const int32_t id = ids_.find(word); id != kNoToken) {
      out->push_back({id, 0, static_cast<uint32_t>(word.size())});
      return;
    }
  }
  scratch.symbols.clear();
  add_characters(word, scratch);
  merge_all(scratch);
  append(scratch, out);
}

void Bpe::split_bytes(std::string_view bytes, BpeScratch& scratch, std::vector<WordToken>* out) const {
  if (spec_.ignore_merges) {
    if (const int32_t id = raw_ids_.find(bytes); id != kNoToken) {
      out->push_back({id, 0, static_cast<uint32_t>(bytes.size())});
      return;
    }
  }
  scratch.symbols.clear();
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto position = static_cast<int32_t>(i);
    scratch.symbols.push_back(
        {byte_ids_[static_cast<unsigned char>(bytes[i])], position - 1, position + 1, 1});
  }
  scratch.symbols.back().next = -1;
  merge_all(scratch);
  append(scratch, out);
}

void Bpe::append(const BpeScratch& scratch, std::vector<WordToken>* out) {
  uint32_t end = 0;
  for (const BpeScratch::Symbol& symbol : scratch.symbols) {
    if (symbol.length == 0) continue;
    out->push_back({symbol.id, end, end + symbol.length});
    end += symbol.length;
  }
}

// Merges adjacent symbols until no merge applies, by scanning all pairs or with a heap. The two methods give the same tokens if the text of
// a merged token is the concatenated text of the two tokens from which it was made. This is not so if tokens inside a word have a prefix
// such as "##", which a merge removes, so models with such a prefix always use the heap.
void Bpe::merge_all(BpeScratch& scratch) const {
  if (scratch.symbols.size() <= kMaxShort && spec_.continuing_prefix.empty()) return merge_short(scratch);
  merge_long(scratch);
}

// Repeatedly merges the pair with the lowest rank, the leftmost one if several have it, until no merge applies.
void Bpe::merge_short(BpeScratch& scratch) const {
  std::vector<BpeScratch::Symbol>& symbols = scratch.symbols;
  if (symbols.size() < 2) return;
  std::array<uint32_t, kMaxShort> ranks;
  std::array<int32_t, kMaxShort> results;
  size_t num_pairs = symbols.size() - 1;
  const auto look_up = [&](size_t i) {
    const Merge* merge = find(symbols[i].id, symbols[i + 1].id);
    ranks[i] = merge == nullptr ? kNoRank : merge->rank;
    results[i] = merge == nullptr ? kNoToken : merge->result;
  };
  for (size_t i = 0; i < num_pairs; ++i) look_up(i);
  while (num_pairs > 0) {
    const auto begin = ranks.begin();
    const auto best = std::min_element(begin, begin + static_cast<std::ptrdiff_t>(num_pairs));
    if (*best == kNoRank) break;
    const auto i = static_cast<size_t>(best - begin);
    symbols[i].id = results[i];
    symbols[i].length += symbols[i + 1].length;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    --num_pairs;
    std::copy(ranks.begin() + static_cast<std::ptrdiff_t>(i) + 1,
              ranks.begin() + static_cast<std::ptrdiff_t>(num_pairs) + 1,
              ranks.begin() + static_cast<std::ptrdiff_t>(i));
    std::copy(results.begin() + static_cast<std::ptrdiff_t>(i) + 1,
              results.begin() + static_cast<std::ptrdiff_t>(num_pairs) + 1,
              results.begin() + static_cast<std::ptrdiff_t>(i));
    if (i > 0) look_up(i - 1);
    if (i < num_pairs) look_up(i);
  }
}

void Bpe::push_candidate(int32_t position, BpeScratch& scratch) const {
  const BpeScratch::Symbol& left = scratch.symbols[static_cast<size_t>(position)];
  if (left.next < 0) return;
  const Merge* merge = find(left.id, scratch.symbols[static_cast<size_t>(left.next)].id);
  if (merge == nullptr) return;
  scratch.heap.push_back({merge->rank, position, merge->result});
  std::push_heap(scratch.heap.begin(), scratch.heap.end(), comes_later);
}

void Bpe::merge_long(BpeScratch& scratch) const {
  std::vector<BpeScratch::Symbol>& symbols = scratch.symbols;
  scratch.heap.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i) push_candidate(static_cast<int32_t>(i), scratch);
  while (!scratch.heap.empty()) {
    const BpeScratch::Candidate top = scratch.heap.front();
    std::pop_heap(scratch.heap.begin(), scratch.heap.end(), comes_later);
    scratch.heap.pop_back();
    BpeScratch::Symbol& left = symbols[static_cast<size_t>(top.position)];
    if (left.length == 0 || left.next < 0) continue;
    BpeScratch::Symbol& right = symbols[static_cast<size_t>(left.next)];
    const Merge* merge = find(left.id, right.id);
    // skips an outdated heap entry, whose pair was changed by another merge
    if (merge == nullptr || merge->result != top.result) continue;
    left.id = top.result;
    left.length += right.length;
    left.next = right.next;
    right.length = 0;
    if (right.next >= 0) symbols[static_cast<size_t>(right.next)].previous = top.position;
    if (left.previous >= 0) push_candidate(left.previous, scratch);
    push_candidate(top.position, scratch);
  }
}

}  // namespace plimsoll::text
