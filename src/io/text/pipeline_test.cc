// Compares tokenizers that combine normalizers and pre-tokenizers of different models with recorded results of Hugging Face's
// tokenizers. Also tests the regular expressions.
#include "io/text/pipeline.h"

#include <gtest/gtest.h>

#include <map>

#include "io/text/pattern.h"
#include "io/text/testing/tokenizer_fixtures.h"

namespace plimsoll::text {
namespace {

using Ids = std::vector<int32_t>;

TEST(PipelineTest, MixedPipelinesAsHuggingFace) {
  const nlohmann::json fixture = read_json_fixture("pipelines.json");
  const auto lines = fixture.at("lines").get<std::vector<std::string>>();
  size_t num_cases = 0;
  for (const auto& c : fixture.at("cases")) {
    const std::string name = c.at("name");
    const Tokenizer tokenizer(parse_tokenizer_json(c.at("tokenizer").dump(), "tokenizer.json"));
    for (size_t i = 0; i < lines.size(); ++i) {
      const Encoding got = tokenizer.encode(lines[i]);
      EXPECT_EQ(got.ids, c.at("ids")[i].get<Ids>()) << name << " " << nlohmann::json(lines[i]);
      EXPECT_EQ(flat(got.offsets), c.at("offsets")[i].get<Ids>()) << name << " " << nlohmann::json(lines[i]);
      ++num_cases;
    }
    const Encoding pair = tokenizer.encode_pair(lines[1], lines[2]);
    EXPECT_EQ(pair.ids, c.at("pair").at("ids").get<Ids>()) << name;
    EXPECT_EQ(pair.type_ids, c.at("pair").at("types").get<Ids>()) << name;
  }
  EXPECT_GT(num_cases, 900u);
}

TEST(RegexTest, MatchesAsHuggingFace) {
  const nlohmann::json fixture = read_json_fixture("regex.json");
  size_t num_matches = 0;
  for (const auto& c : fixture.at("cases")) {
    const std::string pattern = c.at("pattern");
    const Regex regex(pattern, "tokenizer.json: pattern");
    for (size_t i = 0; i < fixture.at("texts").size(); ++i) {
      const std::string text = fixture.at("texts")[i];
      Matches matches;
      regex.find_all(to_code_points(text), &matches);
      // The fixture does not record empty matches, so the empty matches of Regex are removed before the comparison.
      std::erase_if(matches, [](const auto& match) { return match.first == match.second; });
      EXPECT_EQ(matches, c.at("matches")[i].get<Matches>()) << pattern << " in " << nlohmann::json(text);
      num_matches += matches.size();
    }
  }
  EXPECT_GT(num_matches, 1000u);
}

TEST(RegexTest, RefusesWhatItDoesNotHave) {
  const std::map<std::string, std::string> patterns = {{R"((a)\1)", "'\\1'"},
                                                       {R"(\p{Han}+)", "the property 'Han'"},
                                                       {R"([a&&b])", "an intersection"},
                                                       {R"(\X)", "'\\X'"},
                                                       {R"((a)", "not closed"},
                                                       {R"(a))", "an unmatched ')'"},
                                                       {R"(*a)", "a repetition"},
                                                       {R"([a)", "not closed"},
                                                       {R"([b-a])", "a malformed range"},
                                                       {R"(\)", "a backslash"},
                                                       {R"((?<=a+)b)", "without a largest"},
                                                       {R"(a{2,1})", "minimum exceeds"},
                                                       {R"(a{5000})", "above 1000"},
                                                       {R"((?~a))", "an unknown kind"},
                                                       {R"(\x{110000})", "a malformed code point"},
                                                       {R"((?:(?:a{1000}){1000}))", "more repetitions"},
                                                       {std::string(100000, '('), "nested too deeply"}};
  for (const auto& [pattern, message] : patterns) {
    const std::string got =
        error_message([&] { Regex(pattern, "tokenizer.json: pattern.Regex"); }, ErrorCode::kBadData);
    EXPECT_TRUE(got.starts_with("tokenizer.json: pattern.Regex: the regular expression has "))
        << pattern << got;
    EXPECT_NE(got.find(message), std::string::npos) << pattern << ": " << got;
  }
}

TEST(RegexTest, LimitsItsSteps) {
  const Regex regex("(a+)+b", "tokenizer.json: pattern");
  Matches matches;
  const std::string message =
      error_message([&] { regex.find_all(std::u32string(60, U'a'), &matches); }, ErrorCode::kBadData);
  EXPECT_NE(message.find("needs more than"), std::string::npos) << message;
}

TEST(NormalFormTest, FormsAndOffsetsAsHuggingFace) {
  const nlohmann::json fixture = read_json_fixture("normal.json");
  const std::map<std::string, NormalForm> forms = {{"NFD", NormalForm::kNfd},
                                                   {"NFKD", NormalForm::kNfkd},
                                                   {"NFC", NormalForm::kNfc},
                                                   {"NFKC", NormalForm::kNfkc}};
  for (const auto& c : fixture.at("cases")) {
    for (size_t i = 0; i < fixture.at("lines").size(); ++i) {
      AlignedText text;
      text.assign(fixture.at("lines")[i].get<std::string>(), 0);
      apply_normal_form(forms.at(c.at("form")), &text);
      EXPECT_EQ(text.chars, to_code_points(c.at("texts")[i].get<std::string>())) << c.at("form") << i;
      EXPECT_EQ(flat(text.spans), c.at("offsets")[i].get<Ids>())
          << c.at("form") << " " << fixture.at("lines")[i];
    }
  }
}

}  // namespace
}  // namespace plimsoll::text
