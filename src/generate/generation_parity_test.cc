// Compares greedy decoding, logits processors, sampling and beam search with the results of transformers in fixtures/generation.json.
// Where random numbers differ from those of transformers, the test compares with a simple implementation instead.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "base/guarded_json.h"
#include "generate/beam_search.h"
#include "generate/generation_settings.h"
#include "generate/logits_processors.h"
#include "generate/testing/chi_square.h"
#include "generate/testing/table_model.h"
#include "generate/token_selection.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

const Json& fixture() {
  static const Json kFixture = read_json_object(PLIMSOLL_SOURCE_DIR "/src/generate/fixtures/generation.json");
  return kFixture;
}

GenerationSettings settings_of(const Json& json) {
  GenerationSettings settings;
  read_generation_config(json, "the fixture", &settings);
  return settings;
}

std::vector<int32_t> greedy_text(const GenerationSettings& settings, uint32_t salt,
                                 std::vector<int32_t> history, int64_t vocab) {
  const int64_t prompt_length = std::ssize(history);
  const int64_t most = max_new_tokens(settings, prompt_length, 1 << 20);
  LogitsProcessors processors(settings, vocab);
  std::vector<int32_t> text;
  while (std::ssize(text) < most) {
    std::vector<float> scores = table_logits(salt, history, vocab);
    processors.apply(history, prompt_length, scores);
    text.push_back(select_greedy(scores));
    history.push_back(text.back());
    if (is_end_token(settings, text.back())) break;
  }
  return text;
}

// The results of a beam search for one prompt. rows_of_text contains every text that was a beam in some step. For each text it stores two
// things: for each of its tokens, the index of the beam to which the token was appended, and the index of the beam of the text itself.
struct Search {
  std::vector<BeamResult> results;
  std::map<std::vector<int32_t>, std::pair<std::vector<int32_t>, int32_t>> rows_of_text;
  int64_t num_steps = 0;
};

Search search(const GenerationSettings& settings, uint32_t salt, const std::vector<int32_t>& prompt,
              int64_t vocab, uint32_t first_row = 0, const BeamSearch::StopCheck& stop = {}) {
  const int64_t prompt_length = std::ssize(prompt);
  BeamSearch beams(settings, prompt, max_new_tokens(settings, prompt_length, 1 << 20), stop);
  LogitsProcessors processors(settings, vocab);
  Search found;
  found.rows_of_text[{}] = {{}, 0};
  std::vector<std::vector<int32_t>> rows_of_beam = {{}};
  while (!beams.is_done()) {
    std::vector<std::vector<BeamCandidate>> rows(static_cast<size_t>(beams.num_rows()));
    for (size_t b = 0; b < rows.size(); ++b) {
      const auto history = beams.history(static_cast<int64_t>(b));
      std::vector<float> scores = table_logits(salt, history, vocab);
      log_softmax_in_place(scores);
      processors.apply(history, prompt_length, scores);
      select_candidates(settings, scores, first_row + static_cast<uint32_t>(b),
                        static_cast<uint32_t>(beams.num_new_tokens()), &rows[b]);
    }
    std::vector<std::vector<int32_t>> histories;
    for (size_t b = 0; b < rows.size(); ++b) {
      const auto history = beams.history(static_cast<int64_t>(b));
      histories.emplace_back(history.begin(), history.end());
    }
    beams.advance(rows);
    ++found.num_steps;
    std::vector<std::vector<int32_t>> next;
    for (size_t b = 0; b < beams.parents().size(); ++b) {
      const auto parent = static_cast<size_t>(beams.parents()[b]);
      std::vector<int32_t> expected = histories.at(parent);
      expected.push_back(beams.tokens()[b]);
      const auto history = beams.history(static_cast<int64_t>(b));
      EXPECT_EQ(std::vector<int32_t>(history.begin(), history.end()), expected) << "beam " << b;
      next.push_back(rows_of_beam.at(parent));
      next.back().push_back(static_cast<int32_t>(parent));
      const std::vector<int32_t> text(history.begin() + prompt_length, history.end());
      found.rows_of_text.emplace(text, std::pair(next.back(), static_cast<int32_t>(b)));
    }
    rows_of_beam = std::move(next);
  }
  found.results = beams.results();
  return found;
}

TEST(Generation, SearchesAsTransformers) {
  int num_greedy = 0;
  int num_beams = 0;
  for (const Json& c : fixture().at("searches")) {
    SCOPED_TRACE(c.at("settings").dump());
    const GenerationSettings settings = settings_of(c.at("settings"));
    const auto vocab = c.at("vocab").get<int64_t>();
    const auto salt = c.at("salt").get<uint32_t>();
    check_generation_vocabulary(settings, vocab);
    auto expected = c.at("texts").begin();
    int32_t prompt_number = 0;
    for (const Json& ids : c.at("prompts")) {
      const auto prompt = ids.get<std::vector<int32_t>>();
      if (settings.beams.num_beams == 1) {
        EXPECT_EQ(greedy_text(settings, salt, prompt, vocab),
                  expected++->at("tokens").get<std::vector<int32_t>>());
        ++num_greedy;
        continue;
      }
      const Search found = search(settings, salt, prompt, vocab);
      ASSERT_EQ(std::ssize(found.results), settings.num_return_sequences);
      for (const BeamResult& result : found.results) {
        ASSERT_EQ(result.tokens, expected->at("tokens").get<std::vector<int32_t>>());
        // The allowed difference of scores. A score is a sum of at most 30 fp32 numbers below 300, computed from probabilities that
        // differ in their last bits.
        EXPECT_NEAR(result.score, expected->at("score").get<float>(),
                    2e-6f * std::max(1.0f, std::abs(result.score)) * 30);
        const auto& [rows, own] = found.rows_of_text.at({result.tokens.begin(), result.tokens.end() - 1});
        std::vector<int32_t> parents = rows;
        parents.push_back(own);
        for (int32_t& parent : parents)
          parent += prompt_number * static_cast<int32_t>(settings.beams.num_beams);
        EXPECT_EQ(parents, expected->at("parents").get<std::vector<int32_t>>());
        ++expected;
        ++num_beams;
      }
      ++prompt_number;
    }
    EXPECT_EQ(expected, c.at("texts").end());
  }
  EXPECT_GE(num_greedy, 30);
  EXPECT_GE(num_beams, 300);
}

TEST(Generation, ProcessorsAsTransformers) {
  int num_cases = 0;
  for (const Json& c : fixture().at("processors")) {
    SCOPED_TRACE(c.at("settings").dump() + " " + c.at("vocab").dump());
    const GenerationSettings settings = settings_of(c.at("settings"));
    const auto vocab = c.at("vocab").get<int64_t>();
    std::vector<float> scores = table_row(c.at("salt").get<uint32_t>(), 5, 6, vocab);
    for (float& x : scores) {
      x -= 3.0f;
      if (c.at("ties").get<bool>()) x = std::nearbyint(x * 2.0f) / 2.0f;
    }
    LogitsProcessors processors(settings, vocab);
    processors.apply(c.at("history").get<std::vector<int32_t>>(), c.at("prompt_length").get<int64_t>(),
                     scores);
    const Json& kept = c.at("kept");
    if (c.at("ties").get<bool>()) {
      // transformers does not define which of several tokens with equal scores top-p and min-p keep, so only the kept scores are compared.
      std::multiset<float> found, expected;
      for (const float x : scores) {
        if (x > kRemovedScore) found.insert(x);
      }
      for (const Json& x : kept) expected.insert(x.get<float>());
      EXPECT_EQ(found, expected);
      ++num_cases;
      continue;
    }
    for (int64_t v = 0; v < vocab; ++v) {
      const float x = scores[static_cast<size_t>(v)];
      const auto expected = kept.find(std::to_string(v));
      EXPECT_EQ(x, expected == kept.end() ? kRemovedScore : expected->get<float>()) << "token " << v;
    }
    const struct {
      uint64_t seed, sequence;
      uint32_t position;
    } draws[] = {{0, 0, 0}, {42, 7, 3}, {(1ull << 40) + 9, (1ull << 33) + 1, 65}};
    for (size_t i = 0; i < 3; ++i) {
      const double uniform = sampling_number(draws[i].seed, draws[i].sequence, draws[i].position);
      EXPECT_EQ(select_sampled(scores, uniform), c.at("tokens").at(i).get<int32_t>()) << "draw " << i;
    }
    ++num_cases;
  }
  EXPECT_GE(num_cases, 40);
}

// Applies top-p in the simplest way: with a full sort in the order of transformers, by ascending scores and then ascending ids.
std::set<int32_t> top_p_by_sorting(std::span<const float> scores, double top_p, size_t least) {
  std::vector<int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int32_t v) { return scores[static_cast<size_t>(v)]; });
  const double total = log_sum_exp(scores);
  double sum = 0.0;
  std::set<int32_t> kept;
  for (size_t i = 0; i < order.size(); ++i) {
    const double p = std::exp(static_cast<double>(scores[static_cast<size_t>(order[i])]) - total);
    sum += p;
    if (p > 0.0 && (sum > static_cast<double>(static_cast<float>(1.0 - top_p)) || i + least >= order.size()))
      kept.insert(order[i]);
  }
  return kept;
}

TEST(Generation, TopPEqualsAFullSort) {
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    const size_t vocab = i < 5 ? 151936 : 50 + random() % 3000;
    const float spread = static_cast<float>(1 + random() % 12);
    std::vector<float> scores(vocab);
    for (float& x : scores) {
      x = spread * static_cast<float>(random() % 100000) / 100000.0f;
      if (i % 3 == 1) x = std::nearbyint(x);
      if (i % 4 == 2 && random() % 2 == 0) x = kRemovedScore;
    }
    GenerationSettings settings;
    settings.sampling = {
        .do_sample = true, .top_k = 0, .top_p = static_cast<double>(random() % 1000) / 1003.0};
    if (i % 5 == 0) settings.beams.num_beams = 2;
    if (i % 10 == 0) settings.eos_token_ids = {1, 2, 3, 4};
    const size_t least = i % 5 != 0 ? 1 : i % 10 != 0 ? 2 : 5;
    const std::set<int32_t> expected = top_p_by_sorting(scores, settings.sampling.top_p, least);
    LogitsProcessors processors(settings, std::ssize(scores));
    const std::vector<int32_t> history = {0};
    processors.apply(history, 1, scores);
    std::set<int32_t> kept;
    for (size_t v = 0; v < vocab; ++v) {
      if (scores[v] > kRemovedScore) kept.insert(static_cast<int32_t>(v));
    }
    ASSERT_EQ(kept, expected) << "case " << i << ", vocabulary " << vocab << ", top_p "
                              << settings.sampling.top_p;
  }
}

TEST(Generation, SamplesAndBeamSamplesHaveTheProbabilitiesOfTheScores) {
  constexpr int64_t kVocab = 12;
  constexpr int kDraws = 20000;
  std::vector<float> scores = table_row(5, 1, 2, kVocab);
  for (float& x : scores) x *= 0.4f;
  scores[4] = kRemovedScore;
  log_softmax_in_place(scores);
  GenerationSettings settings;
  settings.sampling.do_sample = true;
  settings.beams.num_beams = 2;
  std::vector<double> sampled(kVocab);
  std::vector<double> drawn_first(kVocab);
  std::vector<BeamCandidate> candidates;
  for (int i = 0; i < kDraws; ++i) {
    sampled[static_cast<size_t>(select_sampled(scores, sampling_number(42, static_cast<uint64_t>(i), 3)))] +=
        1.0;
    select_candidates(settings, scores, static_cast<uint32_t>(i), 3, &candidates);
    ASSERT_EQ(candidates.size(), 4u);
    drawn_first[static_cast<size_t>(candidates.front().token)] += 1.0;
  }
  for (const auto* counts : {&sampled, &drawn_first}) {
    double statistic = 0.0;
    for (size_t v = 0; v < kVocab; ++v) {
      const double expected = kDraws * std::exp(static_cast<double>(scores[v]));
      if (scores[v] == kRemovedScore) {
        EXPECT_EQ((*counts)[v], 0.0);
      } else {
        statistic += ((*counts)[v] - expected) * ((*counts)[v] - expected) / expected;
      }
    }
    EXPECT_LT(statistic, chi_square_limit(kVocab - 2));
  }
}

TEST(Generation, BeamSamplingRepeatsAndDependsOnItsRowsOnly) {
  GenerationSettings settings;
  settings.sampling = {.do_sample = true, .temperature = 0.9, .top_k = 20, .top_p = 0.95};
  settings.beams.num_beams = 4;
  settings.length.max_new_tokens = 12;
  settings.num_return_sequences = 4;
  settings.eos_token_ids = {3};
  const std::vector<int32_t> prompt = {1, 2};
  const auto texts = [&](uint64_t seed, uint32_t first_row) {
    settings.sampling.seed = seed;
    std::vector<std::vector<int32_t>> all;
    for (const BeamResult& result : search(settings, 3, prompt, 40, first_row).results)
      all.push_back(result.tokens);
    return all;
  };
  const auto once = texts(1, 0);
  EXPECT_EQ(std::set(once.begin(), once.end()).size(), 4u) << "drawn without replacement, so all differ";
  EXPECT_EQ(texts(1, 0), once);
  EXPECT_NE(texts(2, 0), once);
  EXPECT_NE(texts(1, 4), once) << "another prompt of the same batch has other numbers";
}

TEST(Generation, BeamsStopAtStopStrings) {
  GenerationSettings settings;
  settings.beams.num_beams = 3;
  settings.length.max_new_tokens = 20;
  settings.num_return_sequences = 3;
  const std::vector<int32_t> prompt = {1, 2};
  // A function replaces the check for stop strings: a text ends with token 5 or 6. The result must
  // equal that of a search in which these are the end tokens.
  const auto stops = [](std::span<const int32_t> tokens) { return tokens.back() == 5 || tokens.back() == 6; };
  const Search by_stop = search(settings, 9, prompt, 30, 0, stops);
  settings.eos_token_ids = {5, 6};
  const Search by_end = search(settings, 9, prompt, 30);
  ASSERT_EQ(by_stop.results.size(), by_end.results.size());
  int num_stopped = 0;
  for (size_t i = 0; i < by_end.results.size(); ++i) {
    EXPECT_EQ(by_stop.results[i].tokens, by_end.results[i].tokens);
    num_stopped += stops(by_end.results[i].tokens) ? 1 : 0;
  }
  EXPECT_GT(num_stopped, 0);
  EXPECT_LT(by_end.num_steps, 20);
}

TEST(Generation, UnusableScoresAreRefused) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::pair<std::vector<float>, const char*> cases[] = {
      {{0.0f, nan, 1.0f}, "the model gave NaN"},
      {{0.0f, -kRemovedScore}, "the model gave infinity"},
      {{kRemovedScore, kRemovedScore}, "no token of the vocabulary"}};
  for (const auto& [scores, words] : cases) {
    for (int which = 0; which < 3; ++which) {
      try {
        if (which == 0) select_greedy(scores);
        if (which == 1) select_sampled(scores, 0.5);
        if (which == 2) log_sum_exp(scores);
        ADD_FAILURE() << words << " is not refused";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), scores[0] == kRemovedScore ? ErrorCode::kUsage : ErrorCode::kNotFinite);
        EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll
