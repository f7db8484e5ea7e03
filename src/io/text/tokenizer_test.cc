// Compares the tokenizer with recorded results of Hugging Face's tokenizers. Also tests threads, the reuse of buffers, content
// hashes and invalid UTF-8.
#include "io/text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "io/text/testing/tokenizer_fixtures.h"
#include "io/text/tokenizer_impl.h"

namespace plimsoll::text {
namespace {

using Ids = std::vector<int32_t>;

TEST(TokenizerTest, TrickyLinesAsHuggingFace) {
  std::map<std::string, std::unique_ptr<Tokenizer>> tokenizers;
  size_t num_cases = 0;
  for (const auto& c : read_json_fixture("lines.json")) {
    const std::string setting = c.at("setting");
    auto& tokenizer = tokenizers[setting];
    if (!tokenizer) tokenizer = std::make_unique<Tokenizer>(make_tokenizer(setting));
    const Encoding got = tokenizer->encode(c.at("text").get<std::string>());
    EXPECT_EQ(got.ids, c.at("ids").get<Ids>()) << setting << " " << c.at("text");
    EXPECT_EQ(flat(got.offsets), c.at("offsets").get<Ids>()) << setting << " " << c.at("text");
    ++num_cases;
  }
  EXPECT_GT(num_cases, 1000u);
}

EncodeOptions options_of(const nlohmann::json& c) {
  EncodeOptions options;
  options.max_length = c.at("max_length").get<int64_t>();
  const std::string strategy = c.at("strategy");
  if (strategy == "only_first") options.truncation = Truncation::kOnlyFirst;
  if (strategy == "only_second") options.truncation = Truncation::kOnlySecond;
  options.truncation_side = c.at("side") == "left" ? TextSide::kLeft : TextSide::kRight;
  options.special_tokens = c.at("special").get<bool>() ? SpecialTokens::kAdd : SpecialTokens::kOmit;
  return options;
}

TEST(TokenizerTest, TruncationAsHuggingFace) {
  const Tokenizer tokenizer = make_tokenizer("uncased");
  size_t num_cut = 0, num_refused = 0, num_cases = 0;
  for (const auto& c : read_json_fixture("pairs.json")) {
    const auto texts = c.at("texts").get<std::vector<std::string>>();
    const auto encode = [&] {
      return texts.size() == 2 ? tokenizer.encode_pair(texts[0], texts[1], options_of(c))
                               : tokenizer.encode(texts[0], options_of(c));
    };
    ++num_cases;
    if (c.contains("error")) {
      EXPECT_NE(error_message(encode, ErrorCode::kUsage).find("truncation only_"), std::string::npos) << c;
      ++num_refused;
      continue;
    }
    const Encoding got = encode();
    EXPECT_EQ(got.ids, c.at("ids").get<Ids>()) << c;
    EXPECT_EQ(got.type_ids, c.at("types").get<Ids>()) << c;
    EXPECT_EQ(flat(got.offsets), c.at("offsets").get<Ids>()) << c;
    EncodeOptions whole = options_of(c);
    whole.max_length = std::nullopt;
    const size_t all = texts.size() == 2 ? tokenizer.encode_pair(texts[0], texts[1], whole).ids.size()
                                         : tokenizer.encode(texts[0], whole).ids.size();
    EXPECT_EQ(got.num_cut, static_cast<int64_t>(all - got.ids.size())) << c;
    num_cut += got.num_cut > 0;
  }
  EXPECT_GT(num_cases, 250u);
  EXPECT_GT(num_cut, 50u);
  EXPECT_GT(num_refused, 10u);
}

// Checks how many tokens of each text remain. The expected numbers come from Hugging Face's tokenizers 0.23.3; versions 0.13.3,
// 0.15.2, 0.21.0 and 0.22.2 give the same. Version 0.23.2 differs: if the first text was longer, it leaves the odd token to the
// second text.
TEST(TokenizerTest, LongestFirstAsTokenizers0233) {
  EXPECT_EQ(read_json_fixture("made_with.json").at("tokenizers"), "0.23.3");
  size_t num_odd = 0;
  for (const auto& c : read_json_fixture("truncation.json")) {
    const KeptTokens kept = truncate(c[0], c[1], c[2], Truncation::kLongestFirst);
    EXPECT_EQ(kept.first, c[3].get<int64_t>()) << c;
    EXPECT_EQ(kept.second, c[4].get<int64_t>()) << c;
    num_odd += kept.first == kept.second + 1 && c[0] > c[1];
  }
  EXPECT_GT(num_odd, 30u);
}

TEST(TokenizerTest, WordsAsTransformersInRunNer) {
  std::map<std::string, std::unique_ptr<Tokenizer>> tokenizers;
  TokenizerScratch scratch;
  Encoding all;
  Ids all_starts;
  size_t num_cases = 0, num_cut = 0, num_lost_words = 0;
  for (const auto& c : read_json_fixture("words.json")) {
    const std::string setting = c.at("setting");
    auto& tokenizer = tokenizers[setting];
    if (!tokenizer) tokenizer = std::make_unique<Tokenizer>(make_tokenizer(setting));
    const auto words = c.at("words").get<std::vector<std::string>>();
    const std::vector<std::string_view> views(words.begin(), words.end());
    const EncodeOptions options{
        .max_length = c.at("max_length").get<int64_t>(),
        .truncation_side = c.at("side") == "left" ? TextSide::kLeft : TextSide::kRight,
        .special_tokens = c.at("special").get<bool>() ? SpecialTokens::kAdd : SpecialTokens::kOmit};
    const Encoding got = tokenizer->encode_words(views, options);
    EXPECT_EQ(got.ids, c.at("ids").get<Ids>()) << c;
    EXPECT_EQ(got.type_ids, c.at("types").get<Ids>()) << c;
    EXPECT_EQ(got.word_starts, c.at("starts").get<Ids>()) << c;
    EXPECT_EQ(flat(got.offsets), c.at("offsets").get<Ids>()) << c;
    ++num_cases;
    num_cut += got.num_cut > 0;
    const auto found =
        std::count_if(got.word_starts.begin(), got.word_starts.end(), [](int32_t w) { return w >= 0; });
    num_lost_words += got.num_cut == 0 && found < static_cast<std::ptrdiff_t>(words.size());
    tokenizer->append_words(views, options, scratch, &all);
    all_starts.insert(all_starts.end(), got.word_starts.begin(), got.word_starts.end());
    EXPECT_EQ(all.ids.size(), all.word_starts.size());
  }
  EXPECT_EQ(all.word_starts, all_starts);
  EXPECT_GT(num_cases, 300u);
  EXPECT_GT(num_cut, 100u);
  EXPECT_GT(num_lost_words, 50u);
}

TEST(TokenizerTest, AddedTokensAsHuggingFace) {
  const nlohmann::json vocab = nlohmann::json::parse(read_fixture("bert/tokenizer.json"))["model"]["vocab"];
  size_t num_cases = 0;
  for (const auto& group : read_json_fixture("added.json")) {
    nlohmann::json document = group.at("tokenizer");
    document["model"]["vocab"] = vocab;
    const Tokenizer tokenizer(parse_tokenizer_json(document.dump(), "tokenizer.json"));
    for (const auto& c : group.at("cases")) {
      const Encoding got = tokenizer.encode(c.at("text").get<std::string>());
      EXPECT_EQ(got.ids, c.at("ids").get<Ids>()) << c << group.at("tokenizer").at("added_tokens");
      EXPECT_EQ(flat(got.offsets), c.at("offsets").get<Ids>())
          << c << group.at("tokenizer").at("added_tokens");
      ++num_cases;
    }
  }
  EXPECT_GT(num_cases, 500u);
}

TEST(TokenizerTest, LoadsAFolder) {
  const auto tokenizer = Tokenizer::load(fixture_path("bert"));
  EXPECT_EQ(tokenizer->source(), "tokenizer.json");
  EXPECT_EQ(tokenizer->model_max_length(), 512);
  EXPECT_EQ(tokenizer->special_ids().pad, 0);
  EXPECT_EQ(tokenizer->special_ids().unk, 1);
  EXPECT_EQ(tokenizer->special_ids().cls, 2);
  EXPECT_EQ(tokenizer->special_ids().sep, 3);
  EXPECT_EQ(tokenizer->special_ids().mask, 4);
  EXPECT_EQ(tokenizer->special_ids().bos, std::nullopt);
  EXPECT_EQ(tokenizer->token(2), "[CLS]");
  EXPECT_EQ(tokenizer->token(tokenizer->max_id() + 1), std::nullopt);
  EXPECT_EQ(tokenizer->token(-1), std::nullopt);
  EXPECT_EQ(tokenizer->id("##ing").value(), tokenizer->encode("toking").ids[2]);
  EXPECT_EQ(tokenizer->id("no such token"), std::nullopt);
  EXPECT_EQ(tokenizer->num_special_tokens(false), 2);
  EXPECT_EQ(tokenizer->num_special_tokens(true), 3);
  EXPECT_EQ(tokenizer->added_tokens().size(), 5u);
  EXPECT_EQ(tokenizer->vocab_size(), tokenizer->max_id() + 1);
  for (int32_t id = 0; id <= tokenizer->max_id(); ++id) {
    ASSERT_TRUE(tokenizer->token(id)) << id;
    EXPECT_EQ(tokenizer->id(*tokenizer->token(id)), id);
  }
}

TEST(TokenizerTest, BatchesGiveTheSameOnAnyNumberOfThreads) {
  const Tokenizer tokenizer = make_tokenizer("uncased");
  std::vector<std::string> lines;
  for (const auto& c : read_json_fixture("lines.json")) lines.push_back(c.at("text"));
  std::vector<TextPair> texts;
  for (size_t i = 0; i < lines.size(); ++i) {
    texts.push_back({lines[i], std::nullopt});
    if (i % 3 == 0) texts.back().second = lines[lines.size() - 1 - i];
  }
  const EncodeOptions options{.max_length = 40};
  for (const int threads : {1, 2, 7}) {
    const std::vector<Encoding> got = tokenizer.encode_batch(texts, options, threads);
    ASSERT_EQ(got.size(), texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      const Encoding want = texts[i].second ? tokenizer.encode_pair(texts[i].first, *texts[i].second, options)
                                            : tokenizer.encode(texts[i].first, options);
      ASSERT_EQ(got[i].ids, want.ids);
      ASSERT_EQ(got[i].type_ids, want.type_ids);
      ASSERT_EQ(got[i].offsets, want.offsets);
      ASSERT_EQ(got[i].num_cut, want.num_cut);
    }
  }
  EXPECT_TRUE(tokenizer.encode_batch({}, options, 3).empty());
}

TEST(TokenizerTest, ABatchReportsTheFirstTextThatFails) {
  const Tokenizer tokenizer = make_tokenizer("uncased");
  std::vector<TextPair> texts(500, TextPair{"the token", std::nullopt});
  texts[100] = {"the token of the token", "hello"};
  texts[400] = {"the token of the token of the token", "hello"};
  const EncodeOptions options{.max_length = 5, .truncation = Truncation::kOnlySecond};
  for (const int threads : {1, 4}) {
    const std::string message =
        error_message([&] { tokenizer.encode_batch(texts, options, threads); }, ErrorCode::kUsage);
    EXPECT_NE(message.find("only_second has to remove 4 tokens"), std::string::npos) << message;
  }
}

TEST(TokenizerTest, AppendsBehindWhatIsThere) {
  const Tokenizer tokenizer = make_tokenizer("uncased");
  TokenizerScratch scratch;
  Encoding all;
  const AppendedTokens first =
      tokenizer.append({"hello world", std::nullopt}, {.max_length = 3}, scratch, &all);
  EXPECT_EQ(first.num_tokens, 3);
  EXPECT_EQ(first.num_cut, 1);
  const Encoding before = all;
  EXPECT_THROW(tokenizer.append({"x", "y"}, {.max_length = 2}, scratch, &all), Error);
  EXPECT_EQ(all.ids, before.ids);  // the failed call has not changed the encoding
  const AppendedTokens second = tokenizer.append({"the \xE4\xB8\xAD", "foo"}, {}, scratch, &all);
  EXPECT_EQ(second.num_tokens, 6);
  const Encoding pair = tokenizer.encode_pair("the \xE4\xB8\xAD", "foo");
  EXPECT_EQ(Ids(all.ids.begin() + 3, all.ids.end()), pair.ids);
  EXPECT_EQ(Ids(all.type_ids.begin() + 3, all.type_ids.end()), pair.type_ids);
  EXPECT_EQ(all.num_cut, 1);
  Encoding ids_only;
  tokenizer.append({"the \xE4\xB8\xAD", "foo"}, {.offsets = Offsets::kSkip}, scratch, &ids_only);
  EXPECT_EQ(ids_only.ids, pair.ids);
  EXPECT_TRUE(ids_only.offsets.empty());
}

TEST(TokenizerTest, InvalidUtf8CountsAsReplacementCharacters) {
  const Tokenizer tokenizer = make_tokenizer("uncased");
  // The text contains invalid UTF-8: C3 before "h", the incomplete sequences E2 82 and F0 9F 98, and single bytes FF. Each
  // maximal invalid part must count as one code point in offsets, as in Python.
  const Encoding got = tokenizer.encode("\xC3hello \xE2\x82 \xF0\x9F\x98[SEP]\xFF\xFFworld");
  EXPECT_EQ(got.ids, tokenizer.encode("hello [SEP] world").ids);
  EXPECT_EQ(flat(got.offsets), (Ids{0, 0, 1, 6, 10, 15, 17, 22, 0, 0}));
}

TEST(TokenizerTest, RefusesALengthWithoutRoomForSpecialTokens) {
  const Tokenizer tokenizer = make_tokenizer("uncased");
  const auto message = [&](int64_t max_length) {
    return error_message([&] { tokenizer.encode("x", {.max_length = max_length}); }, ErrorCode::kUsage);
  };
  EXPECT_EQ(message(1),
            "a maximum length of 1 tokens has no room for the 2 special tokens of a text; raise it");
  EXPECT_NE(message(-5), "");
  EXPECT_EQ(message(2), "");  // max_length 2 leaves exactly enough for [CLS] and [SEP]
  EXPECT_EQ(tokenizer.encode("x", {.max_length = 2}).ids, (Ids{2, 3}));
}

TEST(TokenizerTest, ContentHashFollowsWhatChangesIds) {
  TokenizerFiles files;
  files.vocab_txt = read_fixture("bert/vocab.txt");
  files.tokenizer_config = read_fixture("bert/tokenizer_config.json");
  const Tokenizer from_vocab(parse_tokenizer_files(files));
  EXPECT_EQ(from_vocab.content_hash(), Tokenizer::load(fixture_path("bert"))->content_hash());
  EXPECT_EQ(from_vocab.source(), "vocab.txt");
  files.tokenizer_config = R"({"do_lower_case": false})";
  EXPECT_NE(from_vocab.content_hash(), Tokenizer(parse_tokenizer_files(files)).content_hash());
  files.tokenizer_config = std::nullopt;
  *files.vocab_txt += "extra\n";
  EXPECT_NE(from_vocab.content_hash(), Tokenizer(parse_tokenizer_files(files)).content_hash());
}

}  // namespace
}  // namespace plimsoll::text
