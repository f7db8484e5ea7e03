#include "io/text/word_piece.h"

#include "base/check.h"
#include "io/text/unicode.h"

namespace plimsoll::text {
namespace {

ByteTrie build_trie(const Vocabulary& vocabulary) {
  std::vector<std::pair<std::string_view, int32_t>> entries;
  entries.reserve(vocabulary.size());
  for (const auto& [token, id] : vocabulary) entries.emplace_back(token, id);
  return ByteTrie(std::move(entries));
}

}  // namespace

WordPiece::WordPiece(const Vocabulary& vocabulary, const WordPieceSpec& spec)
    : trie_(build_trie(vocabulary)),
      continuing_root_(trie_.walk(ByteTrie::kRoot, spec.continuing_prefix)),
      unk_id_(trie_.find(spec.unk_token)),
      max_chars_per_word_(narrow<size_t>(spec.max_chars_per_word)) {
  PLIMSOLL_CHECK(unk_id_ != ByteTrie::kNoValue,
                 "the vocabulary of WordPiece needs the token '{}', but does not contain it", spec.unk_token);
}

void WordPiece::split(std::string_view word, std::vector<WordToken>* out) const {
  const size_t first_token = out->size();
  const auto unknown = [&] {
    out->resize(first_token);
    out->push_back({unk_id_, 0, static_cast<uint32_t>(word.size())});
  };
  // Counts the code points only if the word has more bytes than the limit: a word has at most as many code points as bytes.
  if (word.size() > max_chars_per_word_ &&
      count_code_points(word) > static_cast<int64_t>(max_chars_per_word_)) {
    return unknown();
  }
  ByteTrie::Node root = ByteTrie::kRoot;
  size_t begin = 0;
  while (begin < word.size()) {
    // Tokens and the word are valid UTF-8, so a matching token ends at the end of a code point of the word.
    ByteTrie::Node node = root, longest = ByteTrie::kNone;
    size_t end = begin;
    for (size_t i = begin; i < word.size() && node != ByteTrie::kNone;) {
      node = trie_.child(node, static_cast<unsigned char>(word[i]));
      ++i;
      if (node != ByteTrie::kNone && trie_.has_value(node)) {
        longest = node;
        end = i;
      }
    }
    if (longest == ByteTrie::kNone) return unknown();
    out->push_back({trie_.value(longest), static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
    begin = end;
    root = continuing_root_;
    if (root == ByteTrie::kNone && begin < word.size()) return unknown();
  }
}

}  // namespace plimsoll::text
