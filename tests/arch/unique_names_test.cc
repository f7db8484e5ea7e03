// Checks that names are unique in the tree: those of sources, and those of types in the headers of one namespace. Two types with
// the same name are undefined behaviour. The compiler does not report them if no source includes both headers.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path kRoot = PLIMSOLL_SOURCE_DIR;

std::vector<fs::path> files_with(const std::vector<std::string>& extensions) {
  std::vector<fs::path> files;
  for (const char* folder : {"src", "include", "tests", "bench", "examples"}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      if (std::ranges::find(extensions, entry.path().extension().string()) != extensions.end())
        files.push_back(entry.path());
    }
  }
  return files;
}

// Adds a name that `file` declares. Fails the test if another file has already declared the same name.
void add_unique(std::map<std::string, fs::path>& owners, const std::string& name, const fs::path& file) {
  const auto [owner, is_new] = owners.emplace(name, file);
  EXPECT_TRUE(is_new || owner->second == file)
      << name << " is in " << owner->second.lexically_relative(kRoot) << " and in "
      << file.lexically_relative(kRoot) << "; rename one of them";
}

// If the line is the first one of the definition of a type, returns the name of the type, otherwise "".
std::string defined_type(std::string_view line) {
  constexpr std::array<std::string_view, 3> kKeywords{"struct ", "enum class ", "class "};
  const auto* const keyword =
      std::ranges::find_if(kKeywords, [&](std::string_view word) { return line.starts_with(word); });
  if (keyword == kKeywords.end()) return {};
  line.remove_prefix(keyword->size());
  if (line.starts_with("alignas(")) line.remove_prefix(line.find(' ') + 1);
  const auto* const end = std::ranges::find_if(
      line, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_'; });
  const std::string_view rest(end, line.end());
  const bool is_member_or_special = rest.starts_with("::") || rest.starts_with("<");
  if (is_member_or_special || rest.find(';') < rest.find('{')) return {};
  return std::string(line.begin(), end);
}

TEST(UniqueNames, DefinitionsOfTypesAreRecognized) {
  EXPECT_EQ(defined_type("struct RankMesh {"), "RankMesh");
  EXPECT_EQ(defined_type("class Group final : public Operations {"), "Group");
  EXPECT_EQ(defined_type("struct alignas(16) Vector {"), "Vector");
  EXPECT_EQ(defined_type("enum class Part : uint8_t { kBegin, kEnd };"), "Part");
  for (const char* line :
       {"struct RankFact;  // train/rank_agreement.h", "struct Monitor::Impl {",
        "struct Accumulator<double> {", "  struct Inner {", "enum class ValueId : uint32_t;"})
    EXPECT_EQ(defined_type(line), "") << line;
}

TEST(UniqueNames, NoTwoSourcesHaveOneStem) {
  std::map<std::string, fs::path> owners;
  for (const fs::path& file : files_with({".cc", ".cu"})) add_unique(owners, file.stem().string(), file);
  EXPECT_GT(owners.size(), 1000u);
}

TEST(UniqueNames, NoTwoHeadersDefineOneType) {
  std::map<std::string, fs::path> owners;
  for (const fs::path& file : files_with({".h", ".cuh"})) {
    std::vector<std::string> namespaces;
    std::ifstream text(file);
    for (std::string line; std::getline(text, line);) {
      if (line.starts_with("namespace ") && line.ends_with("{")) namespaces.push_back(line);
      if (line.starts_with("}  // namespace") && !namespaces.empty()) namespaces.pop_back();
      const std::string type = defined_type(line);
      if (type.empty()) continue;
      std::string name;
      for (const std::string& space : namespaces) name += space.substr(10, space.size() - 12) + "::";
      add_unique(owners, name + type, file);
    }
  }
  EXPECT_GT(owners.size(), 1000u);
}

}  // namespace
