#include "generate/stop_strings.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace plimsoll {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Returns the text without the replacement characters (U+FFFD) at its end, which the decoder writes for incomplete characters.
std::string_view complete_part(std::string_view text) {
  while (text.ends_with(kReplacement)) text.remove_suffix(kReplacement.size());
  return text;
}

}  // namespace

StopStrings::StopStrings(const Tokenizer& tokenizer, std::vector<std::string> texts)
    : tokenizer_(tokenizer), texts_(std::move(texts)) {
  for (const std::string& text : texts_) {
    PLIMSOLL_CHECK(!text.empty());
    longest_ = std::max(longest_, text.size());
  }
}

std::optional<StopMatch> StopStrings::find(std::span<const int32_t> tokens) const {
  if (texts_.empty() || tokens.empty()) return std::nullopt;
  const DecodeOptions options{.skip_special_tokens = false, .clean_up_spaces = false};
  // Decodes the last token and, before it, one token more than the longest stop string has bytes. No stop
  // string can then begin in the first decoded token, from which decoders remove a leading space. More
  // tokens are decoded if some have no text, or if the first one begins within a character: a decoder
  // with byte fallback would otherwise mark all bytes up to the next token that is not a byte as invalid.
  size_t size = std::min(tokens.size(), longest_ + 2);
  std::string text;
  std::string before;
  while (true) {
    const auto window = tokens.last(size);
    text = tokenizer_.decode(window, options);
    before = tokenizer_.decode(window.first(size - 1), options);
    const bool is_cut = text.starts_with(kReplacement) || before.starts_with(kReplacement);
    if (size == tokens.size() || (!is_cut && complete_part(before).size() >= longest_)) break;
    size = std::min(tokens.size(), 2 * size);
  }
  const std::string_view seen = complete_part(before);
  if (!std::string_view(text).starts_with(seen)) return std::nullopt;
  std::optional<StopMatch> best;
  for (size_t i = 0; i < texts_.size(); ++i) {
    // Finds the first occurrence of the stop string that ends in the text of the last token.
    const size_t from = seen.size() >= texts_[i].size() ? seen.size() - texts_[i].size() + 1 : 0;
    const size_t at = text.find(texts_[i], from);
    if (at == std::string::npos) continue;
    const auto after = static_cast<int64_t>(text.size() - at - texts_[i].size());
    if (best && after <= best->bytes_after) continue;
    best = StopMatch{i, static_cast<int64_t>(at) - static_cast<int64_t>(seen.size()), after};
  }
  return best;
}

}  // namespace plimsoll
