#include "wordnet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <stdexcept>

namespace plimsoll::demo {
namespace {

std::vector<Definition> definitions_of(const std::string& lines) {
  std::istringstream stream(lines);
  return read_definitions(stream, "data.noun");
}

// Returns `count` definitions with a label, of words that no other label has.
std::vector<Definition> with_label(const std::string& label, int count) {
  std::vector<Definition> definitions;
  for (int i = 0; i < count; ++i) {
    const std::string word = label + std::to_string(i);
    definitions.push_back({word, "the definition of " + word, label});
  }
  return definitions;
}

std::vector<Definition> joined(std::vector<Definition> a, const std::vector<Definition>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(WordNet, ReadsWordDefinitionAndLexicographerFile) {
  const std::vector<Definition> definitions = definitions_of(
      "  1 This software and database is being provided ... | not a line of data\n"
      "02084071 05 n 03 dog 0 domestic_dog 0 Canis_familiaris 0 001 @ 02083346 n 0000 | a member of the "
      "genus Canis; "
      "occurs in many breeds; \"the dog barked all night\"  \n"
      "01835496 38 v 02 travel 1 go 0 000 00 | change location; move,\ttravel, or proceed, also "
      "metaphorically; \"How fast "
      "does your new car go?\"; \"We travelled\"\n"
      "10786517 18 n 01 attorney_general(ip) 0 000 | the \"chief\" law officer\n"
      "00000001 03 n 01 nothing 0 000 | \n");
  ASSERT_EQ(definitions.size(), 3u);
  EXPECT_EQ(definitions[0].word, "dog");
  EXPECT_EQ(definitions[0].text, "a member of the genus Canis; occurs in many breeds");
  EXPECT_EQ(definitions[0].label, "noun.animal");
  EXPECT_EQ(definitions[1].text, "change location; move, travel, or proceed, also metaphorically");
  EXPECT_EQ(definitions[1].label, "verb.motion");
  EXPECT_EQ(definitions[2].word, "attorney general");
  EXPECT_EQ(definitions[2].text, "the chief law officer");
}

TEST(WordNet, NamesTheLineThatIsNoDefinition) {
  for (const char* line : {"hello", "00001740 03 n 01 entity 0 000", "00001740 45 n 01 entity 0 000 | x",
                           "00001740 n3 n 01 entity 0 000 | x", "00001740 03 n 01 | x", " | x"}) {
    try {
      definitions_of("  1 licence\n" + std::string(line) + "\n");
      FAIL() << line;
    } catch (const std::runtime_error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("data.noun:2: expected ")) << error.what();
    }
  }
  EXPECT_TRUE(definitions_of("").empty());
}

TEST(WordNet, SplitsByTheWordAloneIntoEightyTenTen) {
  int members[3] = {};
  constexpr int kNames = 20000;
  for (int i = 0; i < kNames; ++i) ++members[static_cast<int>(split_of("word " + std::to_string(i)))];
  // The tolerance is five standard deviations of a binomially distributed count.
  EXPECT_NEAR(members[0], 0.8 * kNames, 5 * 57);
  EXPECT_NEAR(members[1], 0.1 * kNames, 5 * 43);
  EXPECT_NEAR(members[2], 0.1 * kNames, 5 * 43);
  // The hash must not change between versions of this code, because it determines the split of each word.
  EXPECT_EQ(name_hash(""), 17665956581633026203u);
}

std::vector<LabelledText> all_rows(const Dataset& dataset) {
  std::vector<LabelledText> rows = dataset.train;
  rows.insert(rows.end(), dataset.validation.begin(), dataset.validation.end());
  rows.insert(rows.end(), dataset.test.begin(), dataset.test.end());
  return rows;
}

TEST(WordNet, LeavesOutSmallClassesAndLimitsLargeOnes) {
  const Dataset dataset = make_dataset(
      joined(with_label("noun.big", 300), joined(with_label("noun.fit", 40), with_label("noun.small", 9))),
      {.min_class = 10, .max_class = 100});
  EXPECT_EQ(dataset.num_classes, 2);
  EXPECT_EQ(dataset.num_left_out, 1);
  const std::vector<LabelledText> rows = all_rows(dataset);
  EXPECT_EQ(std::ranges::count(rows, "noun.big", &LabelledText::label), 100);
  EXPECT_EQ(std::ranges::count(rows, "noun.fit", &LabelledText::label), 40);
  EXPECT_EQ(rows.size(), 140u);
}

// A class must have the same share of the first training rows as of all rows.
TEST(WordNet, TheFirstRowsAreAFairSample) {
  const std::vector<Definition> definitions =
      joined(with_label("noun.big", 5000), with_label("noun.fit", 500));
  const Dataset dataset =
      make_dataset(definitions, {.min_class = 10, .max_class = 500, .max_train_rows = 200});
  ASSERT_EQ(dataset.train.size(), 200u);
  // The tolerance is five standard deviations of a binomially distributed count.
  const auto num_fit = std::ranges::count(dataset.train, "noun.fit", &LabelledText::label);
  EXPECT_NEAR(static_cast<double>(num_fit), 100, 5 * 7);
}

// If two words have the same definition, it must not occur both in the training rows and in the test rows.
TEST(WordNet, KeepsADefinitionOnce) {
  std::vector<Definition> definitions = with_label("noun.animal", 50);
  for (int i = 0; i < 50; ++i)
    definitions.push_back({"other" + std::to_string(i), definitions[size_t(i)].text, "noun.food"});
  const std::vector<LabelledText> rows = all_rows(make_dataset(definitions, {}));
  EXPECT_EQ(rows.size(), 50u);
  std::set<std::string> texts;
  for (const LabelledText& row : rows) texts.insert(row.text);
  EXPECT_EQ(texts.size(), 50u);
}

TEST(WordNet, AllMeaningsOfAWordAreInOneSplit) {
  std::vector<Definition> definitions;
  for (int i = 0; i < 200; ++i) definitions.push_back({"set", "meaning " + std::to_string(i), "noun.group"});
  const Dataset dataset = make_dataset(definitions, {});
  EXPECT_EQ(std::max({dataset.train.size(), dataset.validation.size(), dataset.test.size()}), 200u);
}

TEST(WordNet, CapsTrainingRowsWithoutChangingTheOthers) {
  const std::vector<Definition> definitions = with_label("noun.big", 500);
  const Dataset whole = make_dataset(definitions, {.min_class = 10});
  const Dataset capped = make_dataset(definitions, {.min_class = 10, .max_train_rows = 50});
  ASSERT_EQ(capped.train.size(), 50u);
  EXPECT_EQ(capped.test.size(), whole.test.size());
  EXPECT_EQ(capped.train[49].text, whole.train[49].text);
  // Rows must be sorted by hash and not by word.
  EXPECT_FALSE(std::ranges::is_sorted(whole.train, {}, &LabelledText::text));
}

TEST(WordNet, VocabularyHasSpecialTokensCharactersAndFrequentWords) {
  std::vector<LabelledText> rows(20, {"Library: a parser", "libs"});
  std::istringstream lines(make_vocabulary(rows, 1000));
  std::vector<std::string> pieces;
  for (std::string line; std::getline(lines, line);) pieces.push_back(line);
  const std::set<std::string> distinct(pieces.begin(), pieces.end());
  EXPECT_EQ(distinct.size(), pieces.size());
  EXPECT_EQ(pieces[0], "[PAD]");
  EXPECT_EQ(pieces[1], "[UNK]");
  for (const char* piece : {"[CLS]", "[SEP]", "[MASK]", "a", "##z", ":", "library", "parser", "##ser"}) {
    EXPECT_TRUE(distinct.contains(piece)) << piece;
  }
  EXPECT_FALSE(distinct.contains("Library"));
}

}  // namespace
}  // namespace plimsoll::demo
