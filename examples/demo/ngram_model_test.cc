// Tests the n-gram model: probabilities that add up to 1, values that were computed by hand, and the reader of token ids.
#include "ngram_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>

namespace plimsoll::demo {
namespace {

// Returns pseudo-random ids in which sequences repeat, as in a text: numbers of a linear congruential generator modulo a small
// number.
std::vector<int32_t> text_of(int length, int32_t vocab_size) {
  std::vector<int32_t> text;
  uint32_t state = 7;
  for (int i = 0; i < length; ++i) {
    state = state * 1664525u + 1013904223u;
    const uint32_t draw = state >> 24;
    text.push_back(static_cast<int32_t>(draw * draw / 256u) * vocab_size / 256);
  }
  return text;
}

TEST(NgramModel, ProbabilitiesAddUpToOne) {
  constexpr int32_t kVocab = 23;
  const std::vector<int32_t> text = text_of(2000, kVocab);
  for (int order = 1; order <= 6; ++order) {
    const NgramModel model(text, order, kVocab);
    const std::vector<std::vector<int32_t>> pasts = {{},
                                                     {3},
                                                     {22, 22},
                                                     {1, 0, 0},
                                                     {text[10], text[11], text[12], text[13]},
                                                     {text.begin() + 40, text.begin() + 46}};
    for (const std::vector<int32_t>& past : pasts) {
      double sum = 0;
      for (int32_t token = 0; token < kVocab; ++token) {
        const double probability = model.probability(past, token);
        EXPECT_GT(probability, 0);
        sum += probability;
      }
      EXPECT_NEAR(sum, 1.0, 1e-9) << "order " << order;
    }
  }
}

// In the text "0 0 0 1" the unigrams have the counts 3 and 1. No unigram occurs 2 or 4 times, so the discounts for the counts 1, 2 and
// 3 or more are 0.5, 1 and 1.5. The probability that the discounts free is distributed evenly over the 3 tokens of the vocabulary.
TEST(NgramModel, UnigramsByHand) {
  const std::vector<int32_t> text = {0, 0, 0, 1};
  const NgramModel model(text, 1, 3);
  const double freed = (0.5 + 1.5) / 4.0 / 3.0;
  EXPECT_NEAR(model.probability({}, 0), (3 - 1.5) / 4.0 + freed, 1e-12);
  EXPECT_NEAR(model.probability({}, 1), (1 - 0.5) / 4.0 + freed, 1e-12);
  EXPECT_NEAR(model.probability({}, 2), freed, 1e-12);
}

// In a text that repeats sequences, models with longer n-grams must have a smaller loss.
TEST(NgramModel, LongerPastsPredictBetter) {
  std::vector<int32_t> text;
  for (int i = 0; i < 300; ++i) text.insert(text.end(), {0, 1, 2, 0, 3, 4});
  double last = 1e9;
  for (int order = 1; order <= 3; ++order) {
    const TextScore score = score_text(NgramModel(text, order, 6), text, 1000000);
    EXPECT_EQ(score.num_tokens, std::ssize(text) - 1);
    EXPECT_LT(score.perplexity(), last);
    last = score.perplexity();
  }
  EXPECT_LT(last, 1.1);
}

// The first token of each block must not be counted, because a language model does not predict it.
TEST(NgramModel, BlocksLeaveOutTheirFirstToken) {
  const std::vector<int32_t> text = text_of(100, 5);
  const NgramModel model(text, 2, 5);
  EXPECT_EQ(score_text(model, text, 10).num_tokens, 90);
  EXPECT_EQ(score_text(model, text, 33).num_tokens, 96);
}

TEST(NgramModel, ReadsTheLinesOfTokenize) {
  std::istringstream lines(
      "{\"ids\": [5, 17], \"offsets\": [[0, 1], [1, 2]]}\n{\"ids\": [], \"offsets\": []}\n{\"ids\": [3]}\n");
  EXPECT_EQ(read_token_ids(lines, "x"), (std::vector<int32_t>{5, 17, 3}));
  std::istringstream wrong("{\"ids\": [5]}\nno ids\n");
  try {
    read_token_ids(wrong, "x");
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "x:2: expected a line of `plimsoll tokenize` with \"ids\": [...]");
  }
}

TEST(NgramModel, RefusesWhatItCannotCount) {
  const std::vector<int32_t> text = {0, 1, 9};
  EXPECT_THROW(NgramModel(text, 2, 9), std::invalid_argument);
  EXPECT_THROW(NgramModel(text, 0, 10), std::invalid_argument);
  EXPECT_THROW(NgramModel(text, 2, 0), std::invalid_argument);
  EXPECT_THROW(NgramModel(text, 6, 2048), std::invalid_argument);
  EXPECT_NO_THROW(NgramModel(text, 5, 2048));
  EXPECT_NO_THROW(NgramModel(text, 3, 100000));
}

// Different n-grams must have different keys, also for the largest id of a vocabulary whose size is a power of two.
TEST(NgramModel, KeysOfDifferentTokensDiffer) {
  for (const int32_t vocab : {1, 2, 7, 8, 2048}) {
    const std::vector<int32_t> text = {0, vocab - 1, vocab - 1, 0, vocab - 1};
    const NgramModel model(text, std::min(4, NgramModel::longest_order(vocab)), vocab);
    double sum = 0;
    for (int32_t token = 0; token < vocab; ++token)
      sum += model.probability(std::vector<int32_t>{vocab - 1, 0}, token);
    EXPECT_NEAR(sum, 1.0, 1e-9) << vocab;
  }
}

// A loss of ln 2 per token is one bit per token. With 30 tokens and 120 bytes, this is 0.25 bits per byte.
TEST(NgramModel, BitsPerByteByHand) {
  const TextScore score{.num_tokens = 30, .mean_loss = std::log(2.0)};
  EXPECT_NEAR(score.bits_per_byte(120), 0.25, 1e-12);
  EXPECT_NEAR(score.perplexity(), 2.0, 1e-12);
}

}  // namespace
}  // namespace plimsoll::demo
