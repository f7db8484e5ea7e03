// Tokenizes every Unicode code point in three contexts with each setting of the normalizer, using a vocabulary with a token for
// each code point. The hash of all ids and offsets must equal that of Hugging Face's tokenizer.
#include <gtest/gtest.h>

#include "io/text/testing/tokenizer_fixtures.h"
#include "io/text/unicode.h"
#include "tests/support/fnv1a.h"

namespace plimsoll::text {
namespace {

constexpr bool is_surrogate(char32_t c) {
  return c >= 0xD800 && c < 0xE000;
}

TokenizerSpec every_code_point_spec() {
  TokenizerSpec spec;
  spec.where = "every code point";
  spec.model.vocab = {{"[UNK]", 0}};
  for (char32_t c = 0; c < kNumCodePoints; ++c) {
    if (is_surrogate(c)) continue;
    std::string token;
    append_utf8(c, &token);
    spec.model.vocab.emplace_back(token, static_cast<int32_t>(2 * c + 1));
    spec.model.vocab.emplace_back("##" + token, static_cast<int32_t>(2 * c + 2));
  }
  return spec;
}

uint64_t add(uint64_t hash, int64_t number) {
  return test::fnv1a(hash, static_cast<uint64_t>(number));
}

class EveryCodePointTest : public testing::TestWithParam<std::string> {};

TEST_P(EveryCodePointTest, AsHuggingFace) {
  TokenizerSpec spec = every_code_point_spec();
  spec.normalizer = normalizer_setting(GetParam());
  const Tokenizer tokenizer(std::move(spec));
  TokenizerScratch scratch;
  Encoding encoding;
  std::string text;
  int num_contexts = 0;
  for (const auto& c : read_json_fixture("code_points.json")) {
    if (c.at("setting") != GetParam()) continue;
    const std::string context = c.at("context");
    const size_t place = context.find("{}");
    uint64_t hash = test::kFnv1aStart;
    for (char32_t code_point = 0; code_point < kNumCodePoints; ++code_point) {
      if (is_surrogate(code_point)) continue;
      text.assign(context, 0, place);
      append_utf8(code_point, &text);
      text.append(context, place + 2);
      encoding.clear();
      tokenizer.append({text, std::nullopt}, {}, scratch, &encoding);
      hash = add(hash, static_cast<int64_t>(encoding.ids.size()));
      for (const int32_t id : encoding.ids) hash = add(hash, id);
      for (const TextSpan& span : encoding.offsets) hash = add(add(hash, span.begin), span.end);
    }
    EXPECT_EQ(to_hex(hash), c.at("fnv1a").get<std::string>()) << GetParam() << " " << context;
    ++num_contexts;
  }
  EXPECT_EQ(num_contexts, 3);
}

INSTANTIATE_TEST_SUITE_P(Settings, EveryCodePointTest,
                         testing::Values("uncased", "cased", "cased_stripped", "uncased_accents", "raw"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace plimsoll::text
