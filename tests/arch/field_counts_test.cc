// Checks that no struct in a header has more than kMostFields fields. The arguments of kernels may have more, and so may the settings of
// a run in include/, which are generated from a table.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

namespace {

namespace fs = std::filesystem;

constexpr int kMostFields = 20;

// Returns the number of fields that a line of a struct declares: "double a = 0, b = 0;" has two. Functions, types and labels have none.
int fields_in(const std::string& line) {
  static const std::regex not_a_field(
      R"(^  (using|static|friend|enum|struct|class|template|explicit|virtual|constexpr|private|public|return|[/}]).*)");
  static const std::regex field(R"(^  [A-Za-z_][^()=]*(<[^=]*>)?[^()=]* [a-z_0-9]+( =.*|\{.*|;.*)$)");
  const std::string code = line.substr(0, line.find("//"));
  if (std::regex_match(code, not_a_field) || !std::regex_match(code, std::regex(R"(^  [A-Za-z_].*)")))
    return 0;
  if (!std::regex_search(code, field) && code.find("std::function<") != 2) return 0;
  int depth = 0, count = 1;
  for (const char c : code) {
    if (c == '<' || c == '{' || c == '(') ++depth;
    if (c == '>' || c == '}' || c == ')') --depth;
    if (c == ',' && depth == 0) ++count;
  }
  return count;
}

TEST(FieldCounts, FieldsAreRecognized) {
  EXPECT_EQ(fields_in("  int64_t total_bytes = 0;  // per rank"), 1);
  EXPECT_EQ(fields_in("  int64_t first_block = 0, num_blocks = 0;"), 2);
  EXPECT_EQ(fields_in("  std::map<std::string, size_t> by_name = {};"), 1);
  EXPECT_EQ(fields_in("  std::map<std::string, Halves> split_weights ="), 1);
  EXPECT_EQ(fields_in("  std::function<Buckets(const Options&)> count = {};"), 1);
  EXPECT_EQ(fields_in("  bool fits() const { return total <= limit; }"), 0);
  EXPECT_EQ(fields_in("  static constexpr int kMost = 3;"), 0);
  EXPECT_EQ(fields_in("  // int64_t bytes = 0;"), 0);
  EXPECT_EQ(fields_in("      {};  // the rest of a field"), 0);
}

TEST(FieldCounts, StructsOfHeadersHaveFewFields) {
  const fs::path source = fs::path(PLIMSOLL_SOURCE_DIR) / "src";
  int largest = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(source)) {
    const std::string path = entry.path().lexically_relative(source).string();
    if (entry.path().extension() != ".h" || path.starts_with("kernels/")) continue;
    std::ifstream text(entry.path());
    std::string name;
    int fields = 0;
    for (std::string line; std::getline(text, line);) {
      if (line.starts_with("struct ") && line.ends_with("{")) {
        name = line.substr(7, line.find(' ', 7) - 7);
        fields = 0;
      } else if (line == "};") {
        EXPECT_LE(fields, kMostFields) << name << " in src/" << path << "; group its fields";
        largest = std::max(largest, name.empty() ? 0 : fields);
        name.clear();
      } else if (!name.empty()) {
        fields += fields_in(line);
      }
    }
  }
  EXPECT_GT(largest, kMostFields / 2) << "the largest structs were not recognized";
}

}  // namespace
