#include "io/gguf/sentence_piece_scores.h"

#include <fmt/format.h>

#include <string_view>
#include <unordered_map>

#include "base/utf8.h"

namespace plimsoll {
namespace {

uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

SentencePieceScores sentence_piece_scores(std::span<const std::string> tokens,
                                          std::span<const text::BpeMerge> merges,
                                          const std::unordered_set<int32_t>& added) {
  SentencePieceScores result;
  const float lowest = -static_cast<float>(merges.size());
  result.scores.assign(tokens.size(), lowest);
  std::unordered_set<int32_t> joined;
  std::unordered_set<uint64_t> pairs;
  int32_t last = -1;
  for (const text::BpeMerge& merge : merges) {
    pairs.insert(pair_key(merge.left, merge.right));
    if (merge.result == last) continue;
    last = merge.result;
    const std::string& token = tokens[static_cast<size_t>(merge.result)];
    if (!joined.insert(merge.result).second) {
      result.problem =
          fmt::format("the merges that make '{}' are not next to each other in the list of merges", token);
      return result;
    }
    result.scores[static_cast<size_t>(merge.result)] = -static_cast<float>(joined.size() - 1);
  }
  std::unordered_map<std::string_view, int32_t> ids;
  for (size_t id = 0; id < tokens.size(); ++id) ids.emplace(tokens[id], static_cast<int32_t>(id));
  for (size_t id = 0; id < tokens.size(); ++id) {
    const std::string_view token = tokens[id];
    if (added.contains(static_cast<int32_t>(id))) continue;
    for (size_t at = 1; at < token.size(); ++at) {
      if (is_utf8_continuation(token[at])) continue;
      const auto left = ids.find(token.substr(0, at)), right = ids.find(token.substr(at));
      if (left == ids.end() || right == ids.end()) continue;
      if (pairs.contains(pair_key(left->second, right->second))) continue;
      result.problem = fmt::format(
          "'{}' and '{}' make the token '{}', but no merge joins them, so the merges "
          "were not converted from a SentencePiece model",
          left->first, right->first, token);
      return result;
    }
  }
  return result;
}

}  // namespace plimsoll
