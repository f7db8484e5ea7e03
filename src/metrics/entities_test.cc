#include "metrics/entities.h"

#include <gtest/gtest.h>

#include <array>
#include <string_view>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

struct SeqevalCase {
  std::vector<std::string> names;
  std::vector<std::vector<int32_t>> labels;
  std::vector<std::vector<int32_t>> predictions;
  std::array<double, 4> expected;  // results of seqeval 1.2.2: precision, recall, F1, accuracy
};

std::vector<SeqevalCase> seqeval_cases() {
  return {
      {.names = {"O", "B-PER", "I-PER", "B-LOC", "I-LOC"},
       .labels = {{3, 0, 2, 4, 3, 3, 2},
                  {4, 1, 2, 0, 0, 2, 3, 4, 0, 2, 3, 2},
                  {1, 1, 1, 4, 3, 0, 0, 2, 4, 3},
                  {1, 2, 1, 1, 1, 0, 4, 2, 3, 0},
                  {3, 2, 0, 2, 4, 0, 3, 4},
                  {4}},
       .predictions = {{2, 0, 4, 4, 3, 3, 4},
                       {1, 3, 2, 0, 0, 0, 3, 0, 2, 2, 3, 1},
                       {1, 1, 4, 4, 1, 4, 0, 2, 4, 2},
                       {1, 1, 0, 4, 4, 0, 1, 4, 3, 0},
                       {1, 2, 0, 2, 2, 0, 3, 1},
                       {4}},
       .expected = {0.3, 0.2647058823529412, 0.28125, 0.5416666666666666}},
      {.names = {"O", "B-A", "I-A", "E-A", "S-A", "B-B", "I-B", "E-B", "S-B"},
       .labels = {{1, 4, 1},
                  {7, 0},
                  {7},
                  {1, 5, 0, 0},
                  {0, 8, 3, 7, 7, 8, 3, 5, 3, 3, 7, 4},
                  {7, 8, 6, 0, 7, 3, 6, 6, 2, 5}},
       .predictions = {{1, 4, 3},
                       {6, 0},
                       {7},
                       {1, 5, 6, 6},
                       {6, 8, 1, 7, 4, 8, 3, 8, 6, 3, 3, 4},
                       {7, 5, 6, 1, 8, 5, 6, 6, 2, 6}},
       .expected = {0.6923076923076923, 0.6923076923076923, 0.6923076923076923, 0.53125}},
      {.names = {"NOUN", "VERB", "ADJ", "ADP", "X", "."},
       .labels = {{0},
                  {5, 5, 2},
                  {1, 3, 5, 3, 5, 4, 2, 4, 3, 4, 2},
                  {5, 4, 1, 3, 3, 5, 4, 2, 4},
                  {5, 3, 3, 2, 4, 5},
                  {2, 2, 5, 4, 4, 4, 4, 5}},
       .predictions = {{0},
                       {5, 5, 2},
                       {0, 3, 3, 3, 1, 4, 2, 4, 3, 4, 2},
                       {5, 3, 1, 5, 5, 5, 4, 4, 4},
                       {5, 3, 2, 1, 4, 5},
                       {3, 2, 5, 4, 4, 2, 1, 0}},
       .expected = {0.36363636363636365, 0.42105263157894735, 0.3902439024390244, 0.6578947368421053}},
      {.names = {"B", "I", "O"},
       .labels = {{2, 2, 0, 1},
                  {0, 2, 1, 2},
                  {2, 0, 2, 0, 0, 2, 0},
                  {1, 0, 1, 0, 0, 0, 1, 0, 1, 2},
                  {2, 0, 2, 1, 2, 2, 2, 0, 2, 2, 0},
                  {0, 1, 2, 2, 1, 2, 1, 2, 0, 0}},
       .predictions = {{1, 0, 1, 1},
                       {1, 2, 0, 2},
                       {2, 0, 1, 0, 1, 1, 0},
                       {1, 1, 1, 2, 0, 0, 1, 2, 0, 2},
                       {2, 0, 2, 1, 1, 2, 1, 0, 2, 0, 0},
                       {0, 1, 2, 2, 1, 2, 0, 1, 0, 1}},
       .expected = {0.47619047619047616, 0.45454545454545453, 0.46511627906976744, 0.6086956521739131}},
      {.names = {"O", "B-a-b", "I-a-b", "I-b", "E-b", "ü-x", "."},
       .labels = {{2, 0, 5, 3}, {6, 6, 0, 1, 4}, {6}, {1, 1, 2, 2, 5}, {1, 1, 3, 2}, {4, 5, 2, 6, 6}},
       .predictions = {{2, 0, 5, 3}, {6, 6, 0, 1, 4}, {2}, {6, 2, 2, 5, 5}, {1, 6, 6, 2}, {4, 5, 2, 6, 6}},
       .expected = {0.7692307692307693, 0.6666666666666666, 0.7142857142857142, 0.75}},
      {.names = {"O", "B-X"}, .labels = {{0, 0}}, .predictions = {{0, 0}}, .expected = {0.0, 0.0, 0.0, 1.0}}};
}

TEST(Entities, AreCountedAsSeqevalCountsThem) {
  constexpr std::array<std::string_view, 4> kNames{"precision", "recall", "f1", "accuracy"};
  for (const SeqevalCase& test : seqeval_cases()) {
    SCOPED_TRACE(test.names.back());
    EntityCounts counts(std::ssize(test.names), test.names);
    for (size_t i = 0; i < test.labels.size(); ++i) counts.add_sequence(test.labels[i], test.predictions[i]);
    const MetricList metrics = entity_metrics(counts, kNames);
    for (size_t i = 0; i < kNames.size(); ++i) {
      EXPECT_EQ(metrics[i].first, kNames[i]);
      EXPECT_DOUBLE_EQ(metrics[i].second, test.expected[i]) << kNames[i];
    }
  }
}

TEST(Entities, AnUnknownMetricIsNamed) {
  constexpr std::array<std::string_view, 1> kNames{"bleu"};
  try {
    entity_metrics(EntityCounts(2, {}), kNames);
    FAIL() << "no error was raised";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("'bleu'"), std::string::npos);
  }
}

}  // namespace
}  // namespace plimsoll
