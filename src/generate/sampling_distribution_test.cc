// Compares the frequencies of drawn tokens with the exact probabilities that result from transformers' logits processors
// (fixtures/sampling.json, made by make_sampling.py). The comparison is Pearson's chi-square test. Seeds are fixed, so that the result is
// always the same.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "base/guarded_json.h"
#include "generate/logits_processors.h"
#include "generate/testing/chi_square.h"
#include "generate/testing/table_model.h"
#include "generate/token_selection.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

constexpr int64_t kDraws = 40000;

// Even if the code is correct, the statistic exceeds chi_square_limit() with a probability of 10^-6.
// If the seeds were random, one of the 3 seeds x 13 cases would fail with a probability of 4e-5.

struct Outcome {
  double chi_square = 0;
  double limit = 0;
};

// Tokens that are expected fewer than 5 times are combined into one class. Requires: no token with a probability of 0 was drawn.
Outcome compare(const std::vector<int64_t>& drawn, const std::vector<double>& probabilities) {
  const double draws = static_cast<double>(std::accumulate(drawn.begin(), drawn.end(), int64_t{0}));
  double rare_expected = 0;
  double rare_drawn = 0;
  Outcome outcome;
  double classes = 0;
  const auto add = [&](double count, double expected) {
    if (expected <= 0) return;
    outcome.chi_square += (count - expected) * (count - expected) / expected;
    classes += 1;
  };
  for (size_t v = 0; v < drawn.size(); ++v) {
    const double expected = draws * probabilities[v];
    if (expected >= 5) {
      add(static_cast<double>(drawn[v]), expected);
    } else {
      rare_expected += expected;
      rare_drawn += static_cast<double>(drawn[v]);
    }
  }
  // If fewer than one draw is expected in the combined class, it is left out, because its statistic does not follow the chi-square
  // distribution.
  if (rare_expected >= 1) add(rare_drawn, rare_expected);
  outcome.limit = classes > 1 ? chi_square_limit(classes - 1) : 1e-9;
  return outcome;
}

class Distribution : public ::testing::Test {
 protected:
  static const Json& fixture() {
    static const Json kFixture = read_json_object(PLIMSOLL_SOURCE_DIR "/src/generate/fixtures/sampling.json");
    return kFixture;
  }
  // Returns the processed scores from which a case of the fixture draws its tokens.
  static std::vector<float> scores_of(const Json& settings_json) {
    const auto vocab = fixture().at("vocab").get<int64_t>();
    const auto history = fixture().at("history").get<std::vector<int32_t>>();
    GenerationSettings settings;
    read_generation_config(settings_json, "the fixture", &settings);
    std::vector<float> scores = table_logits(fixture().at("salt").get<uint32_t>(), history, vocab);
    LogitsProcessors(settings, vocab).apply(history, std::ssize(history), scores);
    return scores;
  }
  // Draws tokens for many sequences and positions, as a run does.
  static std::vector<int64_t> draw(const std::vector<float>& scores, uint64_t seed) {
    constexpr int64_t kSequences = 200;
    std::vector<int64_t> drawn(scores.size());
    for (int64_t i = 0; i < kDraws; ++i) {
      const double number =
          sampling_number(seed, static_cast<uint64_t>(i % kSequences), static_cast<uint32_t>(i / kSequences));
      ++drawn[static_cast<size_t>(select_sampled(scores, number))];
    }
    return drawn;
  }
};

TEST_F(Distribution, DrawsHaveTheProbabilitiesOfTransformers) {
  ASSERT_GE(fixture().at("cases").size(), 13u);
  for (const Json& item : fixture().at("cases")) {
    const std::vector<float> scores = scores_of(item.at("settings"));
    const auto probabilities = item.at("probabilities").get<std::vector<double>>();
    for (const uint64_t seed : {1u, 42u, 20261126u}) {
      SCOPED_TRACE(item.at("settings").dump() + ", seed " + std::to_string(seed));
      const std::vector<int64_t> drawn = draw(scores, seed);
      for (size_t v = 0; v < drawn.size(); ++v) {
        if (probabilities[v] == 0) {
          EXPECT_EQ(drawn[v], 0) << "token " << v;
        }
      }
      const Outcome outcome = compare(drawn, probabilities);
      EXPECT_LE(outcome.chi_square, outcome.limit);
    }
  }
}

// Compares the probabilities themselves with those of transformers, in addition to the frequencies of draws above. The relative tolerance
// is 2e-6, because scores are rounded to fp32.
TEST_F(Distribution, ScoresHaveTheProbabilitiesOfTransformers) {
  for (const Json& item : fixture().at("cases")) {
    std::vector<float> scores = scores_of(item.at("settings"));
    const double normalizer = log_sum_exp(scores);
    const auto probabilities = item.at("probabilities").get<std::vector<double>>();
    for (size_t v = 0; v < scores.size(); ++v) {
      const double probability = std::exp(static_cast<double>(scores[v]) - normalizer);
      EXPECT_NEAR(probability, probabilities[v], 2e-6 * probabilities[v])
          << item.at("settings") << " token " << v;
    }
  }
}

// The test must be able to detect wrong distributions: a temperature that differs by 6 %, one token less, another penalty, another top-p.
TEST_F(Distribution, TheTestFindsWrongDistributions) {
  const auto exact = [&](size_t i) {
    return fixture().at("cases")[i].at("probabilities").get<std::vector<double>>();
  };
  const auto outcome_of = [&](const Json& settings, size_t case_number) {
    return compare(draw(scores_of(settings), 7), exact(case_number));
  };
  const Outcome same = outcome_of({{"do_sample", true}, {"top_k", 0}, {"temperature", 0.5}}, 1);
  EXPECT_LE(same.chi_square, same.limit);
  for (const double temperature : {0.47, 0.53}) {
    const Outcome other = outcome_of({{"do_sample", true}, {"top_k", 0}, {"temperature", temperature}}, 1);
    EXPECT_GT(other.chi_square, other.limit) << temperature;
  }
  const Outcome fewer = outcome_of({{"do_sample", true}, {"top_k", 4}}, 3);
  EXPECT_GT(fewer.chi_square, fewer.limit);
  const Outcome penalty = outcome_of({{"do_sample", true}, {"top_k", 0}, {"repetition_penalty", 1.8}}, 8);
  EXPECT_GT(penalty.chi_square, penalty.limit);
  const Outcome less = outcome_of({{"do_sample", true}, {"top_k", 0}, {"top_p", 0.55}}, 5);
  EXPECT_GT(less.chi_square, less.limit);
}

}  // namespace
}  // namespace plimsoll
