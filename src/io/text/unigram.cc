#include "io/text/unigram.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "io/text/unicode.h"

namespace plimsoll::text {
namespace {

// The score of a character without a token is the lowest score of all tokens minus this number.
constexpr double kUnknownPenalty = 10.0;

ByteTrie build_trie(const Vocabulary& vocabulary, const TokenIds& ids) {
  std::vector<std::pair<std::string_view, int32_t>> entries;
  entries.reserve(vocabulary.size());
  for (const auto& [token, id] : vocabulary) {
    // If several tokens have the same text, only the last one is used.
    if (!token.empty() && ids.find(token) == id) entries.emplace_back(token, id);
  }
  return ByteTrie(std::move(entries));
}

}  // namespace

Unigram::Unigram(const Vocabulary& vocabulary, const TokenIds& ids, const UnigramSpec& spec)
    : ids_(ids), spec_(spec), trie_(build_trie(vocabulary, ids)) {
  double lowest = std::numeric_limits<double>::infinity();
  for (const double score : spec.scores) lowest = std::min(lowest, score);
  unk_score_ = lowest - kUnknownPenalty;
  for (size_t byte = 0; byte < 256; ++byte) fallback_ids_[byte] = ids.find(fmt::format("<0x{:02X}>", byte));
}

void Unigram::split(std::string_view word, UnigramScratch& scratch, std::vector<WordToken>* out) const {
  using Node = UnigramScratch::Node;
  std::vector<Node>& nodes = scratch.nodes;
  nodes.assign(word.size() + 1, Node{});
  const auto offer = [&](size_t begin, size_t end, double score, int32_t id) {
    Node& node = nodes[end];
    if (node.begin >= 0 && score <= node.score) return;
    node = {score, id, static_cast<int32_t>(begin)};
  };
  for (size_t begin = 0; begin < word.size();) {
    const double here = nodes[begin].score;
    const uint32_t char_bytes = decode_valid_utf8(word.data() + begin).num_bytes;
    bool has_single = false;
    ByteTrie::Node at = ByteTrie::kRoot;
    for (size_t end = begin; end < word.size();) {
      at = trie_.child(at, static_cast<unsigned char>(word[end]));
      if (at == ByteTrie::kNone) break;
      ++end;
      if (!trie_.has_value(at)) continue;
      const int32_t id = trie_.value(at);
      offer(begin, end, spec_.scores[static_cast<size_t>(id)] + here, id);
      has_single = has_single || end == begin + char_bytes;
    }
    if (!has_single) {
      const Node& node = nodes[begin + char_bytes];
      if (!spec_.unk_id && (node.begin < 0 || unk_score_ + here > node.score)) {
        throw_error(ErrorCode::kBadData,
                    "the vocabulary has no token for '{}', and the model has no unk_id; add unk_id to "
                    "tokenizer.json or remove the character",
                    word.substr(begin, char_bytes));
      }
      offer(begin, begin + char_bytes, unk_score_ + here, unk_id());
    }
    begin += char_bytes;
  }
  // Collects the tokens from the end of the word to its beginning. Adjacent unknown parts are joined to one token.
  scratch.parts.clear();
  bool after_unknown = false;
  for (auto end = static_cast<int32_t>(word.size()); end > 0;) {
    const Node& node = nodes[static_cast<size_t>(end)];
    const bool unknown = spec_.unk_id && node.id == *spec_.unk_id;
    if (unknown && after_unknown) {
      scratch.parts.back().first = static_cast<uint32_t>(node.begin);
    } else {
      scratch.parts.push_back({static_cast<uint32_t>(node.begin), static_cast<uint32_t>(end)});
    }
    after_unknown = unknown;
    end = node.begin;
  }
  for (auto part = scratch.parts.rbegin(); part != scratch.parts.rend(); ++part) {
    const auto [begin, end] = *part;
    const std::string_view text = word.substr(begin, end - begin);
    int32_t id = ids_.find(text);
    if (id == kNoToken && spec_.byte_fallback && std::all_of(text.begin(), text.end(), [&](char c) {
          return fallback_ids_[static_cast<unsigned char>(c)] != kNoToken;
        })) {
      for (const char c : text) out->push_back({fallback_ids_[static_cast<unsigned char>(c)], begin, end});
      continue;
    }
    if (id == kNoToken) id = *spec_.unk_id;
    out->push_back({id, begin, end});
  }
}

}  // namespace plimsoll::text
