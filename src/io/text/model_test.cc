// Compares tokenizers with every kind of model and decoder with recorded results of Hugging Face's tokenizers. Also checks that
// the fast path for byte-level tokenizers gives the same result as the general pipeline.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "io/text/byte_level.h"
#include "io/text/pattern.h"
#include "io/text/testing/tokenizer_fixtures.h"
#include "io/text/unicode.h"

namespace plimsoll::text {
namespace {

using Ids = std::vector<int32_t>;

TEST(ModelTest, IdsOffsetsAndTextsAsHuggingFace) {
  const nlohmann::json fixture = read_json_fixture("models.json");
  const auto lines = fixture.at("lines").get<std::vector<std::string>>();
  size_t num_texts = 0;
  for (const auto& c : fixture.at("cases")) {
    const std::string name = c.at("name");
    const Tokenizer tokenizer(parse_tokenizer_json(c.at("tokenizer").dump(), "tokenizer.json"));
    for (size_t i = 0; i < lines.size(); ++i) {
      const std::string label = name + " " + nlohmann::json(lines[i]).dump();
      const Encoding got = tokenizer.encode(lines[i]);
      EXPECT_EQ(got.ids, c.at("ids")[i].get<Ids>()) << label;
      EXPECT_EQ(flat(got.offsets), c.at("offsets")[i].get<Ids>()) << label;
      EXPECT_EQ(tokenizer.decode(got.ids, {.skip_special_tokens = true}),
                c.at("decoded")[i].get<std::string>())
          << label;
      ++num_texts;
    }
    const Encoding pair = tokenizer.encode_pair(lines[1], lines[2]);
    EXPECT_EQ(pair.ids, c.at("pair").at("ids").get<Ids>()) << name;
    EXPECT_EQ(pair.type_ids, c.at("pair").at("types").get<Ids>()) << name;
    for (const auto& chosen : c.at("chosen")) {
      const Ids ids = chosen.at("ids").get<Ids>();
      EXPECT_EQ(tokenizer.decode(ids), chosen.at("all").get<std::string>()) << name << " " << chosen;
      if (chosen.at("plain").is_null()) continue;
      EXPECT_EQ(tokenizer.decode(ids, {.skip_special_tokens = true}), chosen.at("plain").get<std::string>())
          << name << " " << chosen;
    }
  }
  EXPECT_GT(num_texts, 1500u);
}

TEST(ModelTest, StreamsGiveTheSameTextInWholeCharacters) {
  const nlohmann::json fixture = read_json_fixture("models.json");
  size_t num_pushes = 0;
  for (const auto& c : fixture.at("cases")) {
    const Tokenizer tokenizer(parse_tokenizer_json(c.at("tokenizer").dump(), "tokenizer.json"));
    for (const auto& line : c.at("ids")) {
      const Ids ids = line.get<Ids>();
      TokenStream stream(tokenizer);
      std::string text;
      for (const int32_t id : ids) {
        const std::string part = stream.push(id);
        EXPECT_TRUE(is_valid_utf8(part));
        text += part;
        ++num_pushes;
      }
      text += stream.finish();
      EXPECT_EQ(text, tokenizer.decode(ids, {.skip_special_tokens = true})) << c.at("name") << " " << line;
    }
  }
  EXPECT_GT(num_pushes, 10000u);
}

TEST(ModelTest, EveryCodePointAsHuggingFace) {
  const nlohmann::json fixture = read_json_fixture("models.json");
  std::map<std::string, nlohmann::json> tokenizers;
  for (const auto& c : fixture.at("cases")) tokenizers[c.at("name")] = c.at("tokenizer");
  size_t num_sums = 0;
  for (const auto& expected : read_json_fixture("model_code_points.json")) {
    const Tokenizer tokenizer(
        parse_tokenizer_json(tokenizers.at(expected.at("name")).dump(), "tokenizer.json"));
    ASSERT_EQ(expected.at("context"), "a{0} {0}b");
    TokenizerScratch scratch;
    Encoding encoding;
    uint64_t sum = 0, position = 0;
    const auto add = [&](int64_t number) {
      sum += (static_cast<uint64_t>(number) + 1) * (position++ * 0x9E3779B97F4A7C15u | 1u);
    };
    for (char32_t code_point = 0; code_point < kNumCodePoints; ++code_point) {
      if (code_point >= 0xD800 && code_point < 0xE000) continue;
      std::string text = "a";
      append_utf8(code_point, &text);
      text += ' ';
      append_utf8(code_point, &text);
      text += 'b';
      encoding.clear();
      tokenizer.append({text, std::nullopt}, {}, scratch, &encoding);
      add(static_cast<int64_t>(encoding.ids.size()));
      for (const int32_t id : encoding.ids) add(id);
      for (const TextSpan& span : encoding.offsets) {
        add(span.begin);
        add(span.end);
      }
    }
    EXPECT_EQ(to_hex(sum), expected.at("sum").get<std::string>()) << expected;
    ++num_sums;
  }
  EXPECT_GT(num_sums, 8u);
}

// Returns a random text made of strings that the three regular expressions of byte_level.h treat differently.
std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> parts = {"a",
                                                 "B",
                                                 "s",
                                                 "S",
                                                 "t",
                                                 "re",
                                                 "VE",
                                                 "ll",
                                                 "'",
                                                 "'",
                                                 "\xC5\xBF",
                                                 " ",
                                                 " ",
                                                 "  ",
                                                 "\n",
                                                 "\r",
                                                 "\r\n",
                                                 "\t",
                                                 "\xC2\xA0",
                                                 "\xE3\x80\x80",
                                                 "1",
                                                 "23",
                                                 "4567",
                                                 "\xD9\xA3",
                                                 "\xC2\xBD",
                                                 "\xE2\x85\xA7",
                                                 "!",
                                                 ".",
                                                 "-",
                                                 "\xE2\x80\xA6",
                                                 "\xC3\xA9",
                                                 "e\xCC\x81",
                                                 "\xE4\xB8\xAD",
                                                 "\xF0\x9F\xA4\x96",
                                                 "\xEF\xBF\xBD",
                                                 "\xC2\x85",
                                                 "\xE2\x80\xA8",
                                                 "\v",
                                                 "\x1C",
                                                 "\xCC\x81"};
  std::string text;
  for (size_t n = random() % 14; n > 0; --n) text += parts[random() % parts.size()];
  return text;
}

TEST(ByteLevelTest, ScansWordsAsTheExpressions) {
  std::mt19937 random(7);
  for (const WordPattern pattern : {WordPattern::kGpt2, WordPattern::kThreeDigits, WordPattern::kOneDigit}) {
    const Regex regex(word_pattern_regex(pattern), "pattern");
    for (int i = 0; i < 60000; ++i) {
      const std::string text = random_text(random);
      const std::u32string chars = to_code_points(text);
      Matches expected, got;
      regex.find_all(chars, &expected);
      const auto position = [&](size_t byte) {
        return static_cast<size_t>(count_code_points(std::string_view(text).substr(0, byte)));
      };
      for (size_t begin = 0; begin < text.size();) {
        const size_t end = byte_level_word_end(pattern, text, begin);
        got.push_back({position(begin), position(end)});
        begin = end;
      }
      ASSERT_EQ(got, expected) << nlohmann::json(text);
    }
  }
}

TEST(ByteLevelTest, KnowsTextsThatTheNormalFormLeaves) {
  std::mt19937 random(11);
  size_t num_left = 0;
  for (int i = 0; i < 300000; ++i) {
    std::string text;
    for (int n = 0; n < 3; ++n) {
      auto c = static_cast<char32_t>(random() % (random() % 4 == 0 ? uint32_t{kNumCodePoints} : 0x3200u));
      if (c >= 0xD800 && c < 0xE000) c = U'x';
      append_utf8(c, &text);
    }
    if (!surely_composed(text)) continue;
    ++num_left;
    AlignedText aligned;
    aligned.assign(text, 0);
    apply_normal_form(NormalForm::kNfc, &aligned);
    ASSERT_EQ(aligned.chars, to_code_points(text)) << nlohmann::json(text);
  }
  EXPECT_GT(num_left, 100000u);
}

// Returns the text of a tokenizer.json file that contains this model, followed by the additional fields in `tail`.
std::string with_model(const std::string& model, const std::string& tail = "") {
  return "{\"model\": " + model + tail + "}";
}

TEST(ModelFileTest, NamesWhatIsWrong) {
  const std::string vocab = R"("vocab": {"<unk>": 0, "a": 1, "b": 2, "ab": 3})";
  const std::map<std::string, std::string> models = {
      {R"({"type": "BPE", )" + vocab + R"(, "merges": ["a b", "ab"]})",
       "model.merges[1] is 'ab' but should be two tokens"},
      {R"({"type": "BPE", )" + vocab + R"(, "merges": ["a  b"]})", "model.merges[0] is 'a  b'"},
      {R"({"type": "BPE", )" + vocab + R"(, "merges": [["a"]]})", "model.merges[0] is of type array"},
      {R"({"type": "BPE", )" + vocab + R"(, "merges": [["a", "b"], ["b", "a"]]})",
       "model.merges[1] joins 'b' and 'a', but the vocabulary does not have 'ba'"},
      {R"({"type": "BPE", )" + vocab + R"(, "merges": ["a c"]})", "does not have 'c'"},
      {R"({"type": "BPE", )" + vocab + R"(, "merges": ["a b"], "continuing_subword_prefix": "##"})",
       "shorter than the continuing_subword_prefix '##'"},
      {R"({"type": "BPE", )" + vocab + R"(, "merges": [], "dropout": 0.1})", "model.dropout is 0.1"},
      {R"({"type": "BPE", )" + vocab + R"(})", "model.merges is missing"},
      {R"({"type": "BPE", "merges": []})", "model.vocab is missing"},
      {R"({"type": "BPE", "vocab": {"a": 1, "b": 1}, "merges": []})", "'a' and 'b' the same id 1"},
      {R"({"type": "BPE", "vocab": {"a": -1}, "merges": []})", "id -1"},
      {R"({"type": "Unigram", "vocab": [["a", "x"]]})",
       "model.vocab[0]: the score of 'a' should be a number but is of type string"},
      {R"({"type": "Unigram", "vocab": [["a", null]]})", "of type null"},
      {R"({"type": "Unigram", "vocab": [["a", 1, 2]]})", "model.vocab[0] should be a token and its score"},
      {R"({"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": 1})",
       "model.unk_id is 1, but the vocabulary has 1 tokens"},
      {R"({"type": "Unigram", "vocab": {"a": 1}})", "model.vocab"},
      {R"({"type": "WordLevel", "vocab": {"a": 1}})", "model.unk_token is missing"},
      {R"({"type": "Other", "vocab": {}})", "model.type is 'Other'"}};
  for (const auto& [model, message] : models) {
    const std::string got = error_message([&] { parse_tokenizer_json(with_model(model), "tokenizer.json"); },
                                          ErrorCode::kBadData);
    EXPECT_NE(got.find(message), std::string::npos) << model << ": " << got;
    EXPECT_TRUE(got.starts_with("tokenizer.json: ")) << got;
  }
  const std::string model = R"({"type": "BPE", )" + vocab + R"(, "merges": []})";
  const std::map<std::string, std::string> decoders = {
      {R"({"type": "Other"})", "decoder.type is 'Other', a decoder that Plimsoll does not have"},
      {R"({"type": "WordPiece"})", "decoder.prefix is missing"},
      {R"({"type": "Strip", "content": "ab", "start": 1, "stop": 0})", "decoder.content is 'ab'"},
      {R"({"type": "Strip", "content": "a", "start": -1, "stop": 0})", "decoder.start is -1"},
      {R"({"type": "Replace", "content": "a"})", "decoder.pattern"},
      {R"({"type": "Sequence"})", "decoder.decoders is missing"},
      {R"({"type": "Sequence", "decoders": [{"type": "CTC"}]})", "decoder.decoders[0].pad_token is missing"}};
  for (const auto& [decoder, message] : decoders) {
    const std::string got = error_message(
        [&] { parse_tokenizer_json(with_model(model, ", \"decoder\": " + decoder), "tokenizer.json"); },
        ErrorCode::kBadData);
    EXPECT_NE(got.find(message), std::string::npos) << decoder << ": " << got;
  }
}

// Numbers must get the values that serde_json gives them. For the first four, this value differs from the nearest double in the
// last bit, so the test fails if a correctly rounding parser is used.
TEST(ModelFileTest, ReadsNumbersAsHuggingFace) {
  const std::vector<std::pair<std::string, double>> numbers = {
      {"-3.0123284804704786", -0x1.8193faca370cdp+1},
      {"-14.825037124029805", -0x1.da66b44136347p+3},
      {"-1.2806287645399461", -0x1.47d7496604157p+0},
      {"-15.164604925736347", -0x1.e544718c998a4p+3},
      {"-3.5", -0x1.c000000000000p+1},
      {"0.0", 0x0.0p+0},
      {"1e-5", 0x1.4f8b588e368f1p-17},
      {"-12345678901234567890123.5", -0x1.4ea15b273b38ap+73},
      {"1.5e300", 0x1.1eb2d66005835p+997},
      {"2.5e-310", 0x0.02e055c9a3f6cp-1022},
      {"0.00000000000000000000000000012345678901234567", 0x1.39000987328e8p-93}};
  for (const auto& [text, value] : numbers) {
    const Json document = parse_tokenizer_text("[[\"x\", " + text + "]]", "tokenizer.json");
    EXPECT_EQ(document[0][1].get<double>(), value) << text;
  }
  EXPECT_NE(std::strtod(numbers[0].first.c_str(), nullptr), numbers[0].second);
}

TEST(ModelFileTest, NamesTheTextWithoutAToken) {
  const std::map<std::string, std::string> models = {
      {R"({"type": "BPE", "vocab": {"a": 1}, "merges": [], "unk_token": "<unk>"})",
       "no token for 'b', nor the unknown token '<unk>'"},
      {R"({"type": "Unigram", "vocab": [["a", 0.0]]})", "no token for 'b'"},
      {R"({"type": "WordLevel", "vocab": {"a": 1}, "unk_token": "?"})", "no token for the word 'ab'"}};
  for (const auto& [model, message] : models) {
    const Tokenizer tokenizer(parse_tokenizer_json(with_model(model), "tokenizer.json"));
    const std::string got = error_message([&] { tokenizer.encode("ab"); }, ErrorCode::kBadData);
    EXPECT_NE(got.find(message), std::string::npos) << model << ": " << got;
  }
}

TEST(ModelFileTest, MergesWithLineNumbers) {
  const std::string vocab = R"({"a": 0, "b": 1, "ab": 2, "abb": 3})";
  const auto parse = [&](const std::string& merges) {
    return parse_vocab_and_merges(vocab, "vocab.json", merges, "merges.txt");
  };
  EXPECT_EQ(std::get<BpeSpec>(parse("#version: 0.2\na b\r\nab b").kind).merges.size(), 2u);
  EXPECT_EQ(std::get<BpeSpec>(parse("a b\n").kind).merges.size(), 1u);
  EXPECT_EQ(std::get<BpeSpec>(parse("").kind).merges.size(), 0u);
  const std::map<std::string, std::string> files = {
      {"#version: 0.2\na b\nab\n", "merges.txt:3: the line 'ab' should be two tokens"},
      {"a b\n\nab b\n", "merges.txt:2: the line '' should be"},
      {"a b c\n", "merges.txt:1: the line 'a b c'"},
      {"a b\nb a\n", "merges.txt:2: the line joins 'b' and 'a', but the vocabulary does not have 'ba'"},
      {"a b\n\xFF b\n", "merges.txt:2: the line is not valid UTF-8"}};
  for (const auto& [merges, message] : files) {
    const std::string got = error_message([&] { parse(merges); }, ErrorCode::kBadData);
    EXPECT_TRUE(got.starts_with(message)) << got;
  }
}

TokenizerFiles files_of_case(const nlohmann::json& c, const nlohmann::json& tokenizer) {
  TokenizerFiles files;
  files.folder = "folder";
  nlohmann::json document = tokenizer;
  document.update(c.at("change"));
  if (c.at("form") == "json") {
    files.tokenizer_json = document.dump();
  } else {
    files.vocab_json = document.at("model").at("vocab").dump();
    files.merges_txt = "#version: 0.2\n";
    for (const auto& merge : document.at("model").at("merges")) {
      *files.merges_txt += merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\n";
    }
  }
  if (!c.at("config").is_null()) files.tokenizer_config = c.at("config").dump();
  if (!c.at("model").is_null()) files.model_config = c.at("model").dump();
  if (c.contains("special_tokens_map")) files.special_tokens_map = c.at("special_tokens_map").dump();
  return files;
}

TEST(ModelFolderTest, ClassesAsTransformers) {
  const nlohmann::json fixture = read_json_fixture("class_folders.json");
  std::map<std::string, nlohmann::json> tokenizers;
  const nlohmann::json models = read_json_fixture("models.json");
  for (const auto& c : models.at("cases")) tokenizers[c.at("name")] = c.at("tokenizer");
  const auto texts = fixture.at("texts").get<std::vector<std::string>>();
  for (const auto& [name, c] : fixture.at("cases").items()) {
    const nlohmann::json& expected = c.at("expected");
    ASSERT_FALSE(expected.contains("error")) << name << expected;
    const Tokenizer tokenizer(parse_tokenizer_files(files_of_case(c, tokenizers.at(c.at("tokenizer")))));
    for (size_t i = 0; i < texts.size(); ++i) {
      const Encoding got = tokenizer.encode(texts[i]);
      EXPECT_EQ(got.ids, expected.at("ids")[i].get<Ids>()) << name << " " << texts[i];
      EXPECT_EQ(flat(got.offsets), expected.at("offsets")[i].get<Ids>()) << name << " " << texts[i];
      EXPECT_EQ(tokenizer.decode(got.ids), expected.at("decoded")[i].get<std::string>())
          << name << " " << texts[i];
    }
    EXPECT_EQ(tokenizer.encode_pair(texts[0], texts[1]).ids, expected.at("pair").get<Ids>()) << name;
    EXPECT_EQ(tokenizer.vocab_size(), expected.at("size").get<int64_t>()) << name;
    const SpecialTokenIds& ids = tokenizer.special_ids();
    const std::pair<const char*, std::optional<int32_t>> roles[] = {
        {"bos_token", ids.bos}, {"eos_token", ids.eos}, {"unk_token", ids.unk},  {"sep_token", ids.sep},
        {"pad_token", ids.pad}, {"cls_token", ids.cls}, {"mask_token", ids.mask}};
    for (const auto& [role, id] : roles) {
      const nlohmann::json& wanted = expected.at("roles").at(role);
      // Plimsoll gives the unknown token of the model the role unk_token even if no file assigns this role.
      if (wanted.is_null() && std::string(role) == "unk_token") continue;
      EXPECT_EQ(id, wanted.is_null() ? std::nullopt : std::optional(wanted.get<int32_t>()))
          << name << " " << role;
    }
  }
}

TEST(ModelFolderTest, SaysWhatIsMissing) {
  TokenizerFiles files;
  files.folder = "folder";
  files.vocab_json = R"({"a": 0})";
  const auto message = [&] {
    return error_message([&] { parse_tokenizer_files(files); }, ErrorCode::kBadData);
  };
  EXPECT_TRUE(message().starts_with("folder/vocab.json does not say how to split texts, and no file names"))
      << message();
  files.model_config = R"({"model_type": "bert"})";
  EXPECT_NE(message().find("folder/config.json: model_type is 'bert'"), std::string::npos) << message();
  files.model_config = R"({"model_type": "gpt2"})";
  EXPECT_TRUE(message().starts_with("folder/vocab.json needs merges.txt")) << message();
  files.merges_txt = "a b\n";
  EXPECT_TRUE(message().starts_with("folder/merges.txt:1: the line joins 'a' and 'b', but")) << message();
  files.merges_txt = "";
  files.vocab_json = R"({"a": "x"})";
  EXPECT_TRUE(message().starts_with("folder/vocab.json: a should be an integer")) << message();
  files.vocab_json = R"([])";
  EXPECT_TRUE(message().starts_with("folder/vocab.json: the document should be an object")) << message();
  files.vocab_json.reset();
  files.tokenizer_json = R"({"model": {"type": "WordPiece", "vocab": {"[UNK]": 0}}})";
  EXPECT_NE(message().find(
                "which needs a tokenizer model of the type BPE, but the model in tokenizer.json is neither"),
            std::string::npos)
      << message();
  files.model_config = R"({"model_type": "xlm-roberta"})";
  EXPECT_NE(message().find("needs a tokenizer model of the type Unigram, but"), std::string::npos)
      << message();
}

}  // namespace
}  // namespace plimsoll::text
