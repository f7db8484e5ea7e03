#include "generate/stop_strings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "base/utf8.h"
#include "io/text/testing/tokenizer_fixtures.h"
#include "io/text/tokenizer_spec.h"

namespace plimsoll {
namespace {

using Ids = std::vector<int32_t>;

Tokenizer tokenizer_of(const nlohmann::json& c) {
  return Tokenizer(text::parse_tokenizer_json(c.at("tokenizer").dump(), "tokenizer.json"));
}

// For every tokenizer, uses texts of its fixture, and stop strings cut out of the decoded text. find() must return a stop string for the
// first time at the token with which the decoded text contains it for the first time.
TEST(StopStrings, StopAtTheFirstTokenThatCompletesTheText) {
  const nlohmann::json fixture = text::read_json_fixture("models.json");
  std::mt19937 random(11);
  size_t num_found = 0;
  size_t num_across_tokens = 0;
  for (const auto& c : fixture.at("cases")) {
    const Tokenizer tokenizer = tokenizer_of(c);
    const DecodeOptions options{.skip_special_tokens = false, .clean_up_spaces = false};
    for (const auto& line : c.at("ids")) {
      const Ids ids = line.get<Ids>();
      const std::string whole = tokenizer.decode(ids, options);
      if (ids.size() > 60 || whole.size() < 3 || whole.find("\xEF\xBF\xBD") != std::string::npos) continue;
      for (int repetition = 0; repetition < 3; ++repetition) {
        size_t begin = 1 + random() % (whole.size() - 1);
        while (is_utf8_continuation(whole[begin])) --begin;
        size_t end = std::min(whole.size(), begin + 1 + random() % 12);
        while (end < whole.size() && is_utf8_continuation(whole[end])) ++end;
        const std::string wanted = whole.substr(begin, end - begin);
        const StopStrings stop(tokenizer, {"\x01never\x01", wanted});
        std::string trace = c.at("name").get<std::string>();
        trace.append(" '").append(wanted).append("' in '").append(whole).append("'");
        SCOPED_TRACE(trace);
        bool is_found = false;
        for (size_t n = 1; n <= ids.size() && !is_found; ++n) {
          const std::string so_far = tokenizer.decode(std::span(ids).first(n), options);
          const bool is_complete = so_far.find(wanted) != std::string::npos;
          const auto match = stop.find(std::span(ids).first(n));
          ASSERT_EQ(match.has_value(), is_complete) << "after " << n << " tokens, at '" << so_far << "'";
          if (!match) continue;
          is_found = true;
          ++num_found;
          EXPECT_EQ(match->index, 1u);
          EXPECT_EQ(so_far.substr(so_far.size() - static_cast<size_t>(match->bytes_after) - wanted.size(),
                                  wanted.size()),
                    wanted);
          if (match->bytes_before < 0) ++num_across_tokens;
        }
        EXPECT_TRUE(is_found);
      }
    }
  }
  EXPECT_GT(num_found, 300u);
  EXPECT_GT(num_across_tokens, 30u);
}

// Returns a byte-level BPE tokenizer without merges: every byte is a token, and there is one special token.
Tokenizer byte_tokenizer() {
  nlohmann::json vocab = nlohmann::json::object();
  int id = 0;
  for (int byte = 0; byte < 256; ++byte) {
    // Byte-level BPE represents each byte by a character: a printable byte by itself, the others by the characters from U+0100
    // on.
    const bool is_printable =
        (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    static int next = 0;
    if (byte == 0) next = 0;
    const int point = is_printable ? byte : 0x100 + next++;
    std::string character;
    if (point < 0x80) {
      character = static_cast<char>(point);
    } else {
      character = {static_cast<char>(0xC0 | point >> 6), static_cast<char>(0x80 | (point & 0x3F))};
    }
    vocab[character] = id++;
  }
  vocab["<|im_end|>"] = id;
  const nlohmann::json file = {
      {"version", "1.0"},
      {"added_tokens",
       {{{"id", id},
         {"content", "<|im_end|>"},
         {"single_word", false},
         {"lstrip", false},
         {"rstrip", false},
         {"normalized", false},
         {"special", true}}}},
      {"pre_tokenizer",
       {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}},
      {"decoder",
       {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", nlohmann::json::array()}}}};
  return Tokenizer(text::parse_tokenizer_json(file.dump(), "tokenizer.json"));
}

TEST(StopStrings, PartsOfCharactersSpecialTokensAndOverlaps) {
  const Tokenizer tokenizer = byte_tokenizer();
  const auto ids = [&](const std::string& text) { return tokenizer.encode(text).ids; };
  const auto find = [&](std::vector<std::string> texts, const Ids& tokens) {
    return StopStrings(tokenizer, std::move(texts)).find(tokens);
  };
  // If a stop string is a single character of four bytes, it must be found when the token with its last byte has been generated.
  const Ids smile = ids("a\xF0\x9F\x98\x80");
  ASSERT_EQ(smile.size(), 5u);
  for (size_t n = 1; n < 5; ++n)
    EXPECT_FALSE(find({"\xF0\x9F\x98\x80"}, {smile.begin(), smile.begin() + static_cast<long>(n)}));
  EXPECT_TRUE(find({"\xF0\x9F\x98\x80"}, smile));
  // Special tokens must be part of the text in which stop strings are searched.
  const StopMatch special = find({"<|im_end|>"}, ids("hi<|im_end|>")).value();
  EXPECT_EQ(special, (StopMatch{0, 0, 0}));
  EXPECT_EQ(find({"i<|im"}, ids("hi<|im_end|>")), (StopMatch{0, -1, 6}));
  // An occurrence that overlaps an earlier occurrence of the same stop string must be found. An occurrence that was already complete
  // before the last token must not be found.
  EXPECT_TRUE(find({"aba"}, ids("ababa")));
  EXPECT_FALSE(find({"aba"}, ids("abab")));
  // If several stop strings match, find() must return the one that ends first.
  EXPECT_EQ(find({"im_end", "im"}, ids("hi<|im_end|>")).value().index, 1u);
  EXPECT_FALSE(find({}, ids("x")));
  EXPECT_FALSE(find({"x"}, {}));
  // A stop string may be longer than the text, or equal to all of it.
  EXPECT_FALSE(find({std::string(1000, 'x')}, ids("xxx")));
  EXPECT_TRUE(find({"\n\nUser:"}, ids("\n\nUser:")));
}

}  // namespace
}  // namespace plimsoll
