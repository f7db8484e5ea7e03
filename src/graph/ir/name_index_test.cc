#include "graph/ir/name_index.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plimsoll {
namespace {

// Inserts, erases and renumbers the names of a list, and compares the table with the list.
TEST(NameIndex, FindsWhatTheListContains) {
  std::vector<std::string> names;
  NameIndex index;
  const auto name_of = [&](uint32_t number) { return std::string_view(names[number]); };
  EXPECT_EQ(index.find("absent", name_of), NameIndex::kAbsent);
  for (uint32_t i = 0; i < 1000; ++i) {
    names.push_back("layer." + std::to_string(i));
    ASSERT_TRUE(index.insert(names.back(), i, name_of));
    ASSERT_FALSE(index.insert(names.back(), i, name_of)) << "the name is taken";
  }
  // Drops every third name.
  std::vector<uint32_t> renumbered(names.size(), NameIndex::kAbsent);
  std::vector<std::string> kept;
  for (uint32_t i = 0; i < names.size(); ++i) {
    if (i % 3 == 0) continue;
    renumbered[i] = static_cast<uint32_t>(kept.size());
    kept.push_back(names[i]);
  }
  const std::vector<std::string> all = std::exchange(names, kept);
  index.renumber(renumbered);
  for (uint32_t i = 0; i < all.size(); ++i) ASSERT_EQ(index.find(all[i], name_of), renumbered[i]) << all[i];
  // A name can be erased and another one inserted many times, without filling the table.
  for (int round = 0; round < 5000; ++round) {
    index.erase(names[7], name_of);
    ASSERT_EQ(index.find(names[7], name_of), NameIndex::kAbsent);
    names[7] = "renamed." + std::to_string(round);
    ASSERT_TRUE(index.insert(names[7], 7, name_of));
  }
  for (uint32_t i = 0; i < names.size(); ++i) ASSERT_EQ(index.find(names[i], name_of), i);
}

}  // namespace
}  // namespace plimsoll
