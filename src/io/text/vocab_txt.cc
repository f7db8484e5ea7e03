// Reads vocab.txt and determines the ids of added tokens.
#include <algorithm>
#include <limits>
#include <unordered_map>

#include "base/check.h"
#include "io/text/tokenizer_spec.h"
#include "io/text/unicode.h"

namespace plimsoll::text {
namespace {

// Removes white space at the end of a line. Requires: valid UTF-8.
std::string_view trim_end(std::string_view line) {
  while (!line.empty()) {
    size_t last = line.size() - 1;
    while (last > 0 && (line[last] & 0xC0) == 0x80) --last;
    const char32_t c = decode_valid_utf8(line.data() + last).value;
    if ((UnicodeTable::get().flags(c) & kWhitespace) == 0) break;
    line = line.substr(0, last);
  }
  return line;
}

}  // namespace

Vocabulary parse_vocab_txt(std::string_view text, const std::string& where) {
  if (text.empty()) {
    throw_error(ErrorCode::kBadData, "{} is empty; copy the file again from its source", where);
  }
  std::unordered_map<std::string_view, int32_t> ids;
  int64_t line_number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (!is_valid_utf8(line)) {
      throw_error(ErrorCode::kBadData, "{}:{}: the line is not valid UTF-8; save the file as UTF-8", where,
                  line_number + 1);
    }
    ids[trim_end(line)] = narrow<int32_t>(line_number);
    ++line_number;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  Vocabulary vocab(ids.begin(), ids.end());
  std::sort(vocab.begin(), vocab.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return vocab;
}

void resolve_added_tokens(const std::vector<int32_t>& stated, TokenizerSpec* spec) {
  PLIMSOLL_CHECK(stated.size() == spec->added_tokens.size());
  // Finds which added tokens are in the vocabulary, and their ids. Only these are put into the map, because the vocabulary is large.
  std::unordered_map<std::string_view, int32_t> vocab;
  for (const AddedToken& token : spec->added_tokens) vocab[token.content] = -1;
  for (const auto& [token, id] : spec->model.vocab) {
    if (const auto found = vocab.find(token); found != vocab.end()) found->second = id;
  }
  auto next_id = narrow<int32_t>(spec->model.vocab.size());
  std::vector<AddedToken> settled;
  std::unordered_map<std::string, size_t> places;
  for (size_t i = 0; i < stated.size(); ++i) {
    AddedToken token = spec->added_tokens[i];
    if (token.content.empty()) continue;
    const auto known = places.find(token.content);
    if (known != places.end()) {
      token.id = settled[known->second].id;
    } else if (const int32_t id = vocab.at(token.content); id >= 0) {
      token.id = id;
    } else {
      token.id = next_id++;
    }
    if (stated[i] >= 0 && stated[i] != token.id) {
      throw_error(ErrorCode::kBadData,
                  "{}: added token '{}' is stored with id {}, but Hugging Face would give it id {} (the "
                  "vocabulary has {} tokens); make the files of the folder agree",
                  spec->where, token.content, stated[i], token.id, spec->model.vocab.size());
    }
    if (known != places.end()) {
      // If a token is added twice, its later properties are used, but a token that was special once remains special.
      token.special = token.special || settled[known->second].special;
      settled[known->second] = token;
    } else {
      places[token.content] = settled.size();
      settled.push_back(token);
    }
  }
  spec->added_tokens = std::move(settled);
}

}  // namespace plimsoll::text
