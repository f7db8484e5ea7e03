#include "io/text/added_tokens.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "io/text/unicode.h"

namespace plimsoll::text {
namespace {

size_t start_of_last_code_point(std::string_view text) {
  size_t i = text.size() - 1;
  while (i > 0 && (text[i] & 0xC0) == 0x80) --i;
  return i;
}

bool has_flag(std::string_view text, size_t at, uint8_t flag) {
  return (UnicodeTable::get().flags(decode_valid_utf8(text.data() + at).value) & flag) != 0;
}

bool ends_with_word(std::string_view text) {
  return !text.empty() && has_flag(text, start_of_last_code_point(text), kWordCharacter);
}

bool starts_with_word(std::string_view text) {
  return !text.empty() && has_flag(text, 0, kWordCharacter);
}

// Returns the position at which the trailing white space of the text starts, or the length of the text if it has none.
size_t trailing_space(std::string_view text) {
  while (!text.empty()) {
    const size_t last = start_of_last_code_point(text);
    if (!has_flag(text, last, kWhitespace)) break;
    text = text.substr(0, last);
  }
  return text.size();
}

// Returns the length in bytes of the leading white space of the text.
size_t leading_space(std::string_view text) {
  size_t i = 0;
  while (i < text.size() && has_flag(text, i, kWhitespace)) i += decode_valid_utf8(text.data() + i).num_bytes;
  return i;
}

std::vector<std::pair<std::string_view, int32_t>> trie_entries(
    const std::vector<AddedTokenMatcher::Pattern>& patterns) {
  std::vector<std::pair<std::string_view, int32_t>> entries;
  for (size_t i = 0; i < patterns.size(); ++i) entries.emplace_back(patterns[i].text, narrow<int32_t>(i));
  return entries;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<Pattern> patterns, bool ignore_special)
    : patterns_(std::move(patterns)), trie_(trie_entries(patterns_)), ignore_special_(ignore_special) {
  for (const Pattern& pattern : patterns_) {
    PLIMSOLL_CHECK(!pattern.text.empty());
    starts_[static_cast<unsigned char>(pattern.text[0])] = true;
  }
  if (std::count(starts_.begin(), starts_.end(), true) == 1) {
    only_start_ = static_cast<int>(std::find(starts_.begin(), starts_.end(), true) - starts_.begin());
  }
}

bool AddedTokenMatcher::surely_absent(std::string_view text) const {
  if (patterns_.empty() || text.empty()) return true;
  if (only_start_ >= 0) return std::memchr(text.data(), only_start_, text.size()) == nullptr;
  return std::none_of(text.begin(), text.end(),
                      [&](char c) { return starts_[static_cast<unsigned char>(c)]; });
}

void AddedTokenMatcher::split(std::string_view text, std::vector<TextPart>* parts) const {
  size_t done = 0;  // end of the text that the elements of `parts` cover so far
  size_t at = 0;
  while (at < text.size()) {
    if (!starts_[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    ByteTrie::Node node = ByteTrie::kRoot, longest = ByteTrie::kNone;
    size_t match_end = at;
    for (size_t i = at; i < text.size();) {
      node = trie_.child(node, static_cast<unsigned char>(text[i]));
      if (node == ByteTrie::kNone) break;
      ++i;
      if (trie_.has_value(node)) {
        longest = node;
        match_end = i;
      }
    }
    if (longest == ByteTrie::kNone) {
      ++at;
      continue;
    }
    const AddedToken& token = patterns_[static_cast<size_t>(trie_.value(longest))].token;
    size_t begin = at, end = match_end;
    // The search continues after the matched text, even if a condition below rejects the match. White space to the right that the token
    // absorbs (rstrip) is not skipped, so another token may still be found in it.
    at = match_end;
    if (ignore_special_ && token.special) continue;
    if (token.single_word && (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end)))) {
      continue;
    }
    if (token.lstrip) begin = std::max(trailing_space(text.substr(0, begin)), done);
    if (token.rstrip) end += leading_space(text.substr(end));
    if (done < begin) parts->push_back({TextPart::kPlainText, done, begin});
    if (begin < end) parts->push_back({token.id, begin, end});
    done = end;
  }
  // `done` is the end of the last token, including white space that it absorbed. Text after it that belongs to no token is
  // appended as plain text.
  if (done < text.size()) parts->push_back({TextPart::kPlainText, done, text.size()});
}

int32_t checked_id(int64_t id, const std::string& name) {
  if (id < 0 || id >= std::numeric_limits<int32_t>::max()) {
    throw_error(ErrorCode::kBadData, "{}: id {} is outside 0 to {}; correct the file or copy it again", name,
                id, std::numeric_limits<int32_t>::max() - 1);
  }
  return static_cast<int32_t>(id);
}

StatedToken read_added_token(const JsonFields& fields) {
  StatedToken result;
  AddedToken& token = result.token;
  const auto content = fields.text("content");
  if (!content) {
    throw_error(ErrorCode::kBadData,
                "{} is missing: an added token needs its text; correct the file or copy it again",
                fields.name_of("content"));
  }
  token.content = *content;
  token.special = fields.flag_or("special", false);
  token.single_word = fields.flag_or("single_word", false);
  token.lstrip = fields.flag_or("lstrip", false);
  token.rstrip = fields.flag_or("rstrip", false);
  token.normalized = fields.flag("normalized").value_or(!token.special);
  if (const auto id = fields.integer("id")) result.id = checked_id(*id, fields.name_of("id"));
  return result;
}

StatedToken read_special_token(const Json& value, const std::string& where, const std::string& name) {
  StatedToken result;
  if (value.is_string()) {
    result.token.content = value.get<std::string>();
    result.token.special = true;
    return result;
  }
  result = read_added_token(JsonFields(value, where, name));
  result.token.special = true;
  return result;
}

}  // namespace plimsoll::text
