#include "io/text/bert_normalizer.h"

#include <gtest/gtest.h>

#include "io/text/testing/tokenizer_fixtures.h"

namespace plimsoll::text {
namespace {

const std::vector<std::string> kSettings = {"uncased", "cased", "cased_stripped", "uncased_accents", "raw"};

// A random number generator (splitmix64, seeded by the name of the test). It is implemented here instead of taken from the
// standard library so that the tests use the same texts on every machine.
class Random {
 public:
  explicit Random(std::string_view name) : state_(hash64(name)) {}
  uint64_t below(uint64_t bound) {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = state_;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (z ^ z >> 31) % bound;
  }

 private:
  uint64_t state_;
};

std::vector<int32_t> sources(const NormalizedText& text) {
  std::vector<int32_t> result = text.source;
  if (result.empty()) {
    for (size_t i = 0; i < text.bytes.size(); ++i)
      result.push_back(text.first_code_point + static_cast<int32_t>(i));
  }
  return result;
}

TEST(BertNormalizerTest, OnePassAgreesWithTheSteps) {
  Random random("OnePassAgreesWithTheSteps");
  const std::vector<char32_t> combining = UnicodeTable::get().combining_code_points();
  const std::vector<char32_t> mapped = UnicodeTable::get().mapped_code_points();
  int num_cases = 0;
  for (const std::string& setting : kSettings) {
    const BertNormalizer normalizer(normalizer_setting(setting));
    for (int i = 0; i < 20000; ++i) {
      std::string text;
      for (uint64_t n = random.below(12); n > 0; --n) {
        char32_t c = 0;
        switch (random.below(5)) {
          case 0:
            c = combining[random.below(combining.size())];
            break;
          case 1:
            c = mapped[random.below(mapped.size())];
            break;
          case 2:
            c = static_cast<char32_t>(random.below(kNumCodePoints));
            break;
          case 3:
            c = static_cast<char32_t>(0xAC00 + random.below(11172));
            break;
          default:
            c = static_cast<char32_t>(random.below(128));
            break;
        }
        if (c < 0xD800 || c >= 0xE000) append_utf8(c, &text);
      }
      NormalizedText fast, slow;
      EXPECT_EQ(normalizer.normalize(text, 7, &fast), normalizer.normalize_in_steps(text, 7, &slow));
      ASSERT_EQ(fast.bytes, slow.bytes) << setting;
      ASSERT_EQ(sources(fast), sources(slow)) << setting;
      ++num_cases;
    }
  }
  EXPECT_EQ(num_cases, 100000);
}

TEST(BertNormalizerTest, EveryAsciiByteAtEveryPlaceOfAWord) {
  int num_cases = 0;
  for (const std::string& setting : kSettings) {
    const BertNormalizer normalizer(normalizer_setting(setting));
    for (int c = 0; c < 128; ++c) {
      for (size_t place = 0; place < 19; ++place) {
        std::string text = "Abc dEf@[z{`Z!kLMNo";
        text[place] = static_cast<char>(c);
        NormalizedText fast, slow;
        normalizer.normalize(text, 0, &fast);
        normalizer.normalize_in_steps(text, 0, &slow);
        ASSERT_EQ(fast.bytes, slow.bytes) << setting << " " << c << " " << place;
        ASSERT_EQ(sources(fast), sources(slow)) << setting << " " << c << " " << place;
        ++num_cases;
      }
    }
  }
  EXPECT_EQ(num_cases, 5 * 128 * 19);
}

TEST(BertNormalizerTest, ReorderingMovesCharactersButNotTheirSources) {
  const BertNormalizer normalizer(normalizer_setting("cased_stripped"));
  // Canonical ordering moves U+0316 (combining class 220) before U+302E (a spacing mark of class 224). U+0316 is then dropped as
  // an accent. The expected source of U+302E is 2, its position in the sorted text, as in Hugging Face's tokenizers.
  NormalizedText text;
  normalizer.normalize("a\u302E\u0316", 0, &text);
  EXPECT_EQ(text.bytes, "a\u302E");
  EXPECT_EQ(sources(text), (std::vector<int32_t>{0, 2, 2, 2}));
}

}  // namespace
}  // namespace plimsoll::text
