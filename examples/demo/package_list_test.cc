#include "package_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

namespace plimsoll::demo {
namespace {

std::vector<Package> packages_of(const std::string& lists) {
  std::istringstream stream(lists);
  return read_packages(stream);
}

// Returns `count` packages of a section, with names that no other section has.
std::string lists_of(const std::string& section, int count) {
  std::string lists;
  for (int i = 0; i < count; ++i) {
    lists.append("Package: ").append(section).append(std::to_string(i)).append("\nSection: ").append(section);
    lists.append("\nDescription: a ").append(section).append("\n\n");
  }
  return lists;
}

TEST(PackageList, ReadsNameSectionAndFirstLine) {
  const std::vector<Package> packages = packages_of(
      "Package: b\nDescription: second \t one\r\n  of a long text\nSection: contrib/games\nTag: x,\n "
      "Section: wrong\n\n"
      "Package: a\nSection: libs\nDescription-en: the first\nDescription-md5: 00");
  ASSERT_EQ(packages.size(), 2u);
  EXPECT_EQ(packages[0].name, "a");
  EXPECT_EQ(packages[0].description, "the first");
  EXPECT_EQ(packages[1].section, "games");
  EXPECT_EQ(packages[1].description, "second one");
}

TEST(PackageList, LeavesOutIncompleteAndRepeatedPackages) {
  const std::vector<Package> packages = packages_of(
      "Package: a\nSection: libs\nDescription: kept\n\n"
      "Package: a\nSection: games\nDescription: from another suite\n\n"
      "Package: no-section\nDescription: x\n\n"
      "Package: no-description\nSection: x\n\n\n\n");
  ASSERT_EQ(packages.size(), 1u);
  EXPECT_EQ(packages[0].section, "libs");
}

TEST(PackageList, SplitsByNameAloneIntoEightyTenTen) {
  int members[3] = {};
  constexpr int kNames = 20000;
  for (int i = 0; i < kNames; ++i) ++members[static_cast<int>(split_of("lib" + std::to_string(i) + "-dev"))];
  // The tolerance is five standard deviations of a binomial count.
  EXPECT_NEAR(members[0], 0.8 * kNames, 5 * 57);
  EXPECT_NEAR(members[1], 0.1 * kNames, 5 * 43);
  EXPECT_NEAR(members[2], 0.1 * kNames, 5 * 43);
  // The hash must not change: that would move packages between the splits of two versions.
  EXPECT_EQ(name_hash(""), 17665956581633026203u);
}

TEST(PackageList, GroupsSmallSectionsAndKeepsEveryPackageOnce) {
  const std::vector<Package> packages =
      packages_of(lists_of("big", 300) + lists_of("small", 9) + lists_of("tiny", 3));
  const Dataset dataset = make_dataset(packages, 10, 0);
  EXPECT_EQ(dataset.num_classes, 2);
  EXPECT_EQ(dataset.num_grouped, 2);
  std::set<std::string> texts;
  int other = 0;
  for (const std::vector<LabelledText>* rows : {&dataset.train, &dataset.validation, &dataset.test}) {
    for (const LabelledText& row : *rows) {
      texts.insert(row.text);
      other += row.label == "other" ? 1 : 0;
    }
  }
  EXPECT_EQ(texts.size(), 312u);
  EXPECT_EQ(other, 12);
}

TEST(PackageList, CapsTrainingRowsWithoutChangingTheOthers) {
  const std::vector<Package> packages = packages_of(lists_of("big", 500));
  const Dataset whole = make_dataset(packages, 10, 0);
  const Dataset capped = make_dataset(packages, 10, 50);
  ASSERT_EQ(capped.train.size(), 50u);
  EXPECT_EQ(capped.test.size(), whole.test.size());
  EXPECT_EQ(capped.train[49].text, whole.train[49].text);
  // The order is by hash, not by name.
  EXPECT_FALSE(std::ranges::is_sorted(whole.train, {}, &LabelledText::text));
}

TEST(PackageList, VocabularyHasSpecialTokensCharactersAndFrequentWords) {
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
