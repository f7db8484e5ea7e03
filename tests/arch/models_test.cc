// Checks that the name of an architecture occurs only in its own folder, and that only src/tasks distinguishes
// problem types. All other code uses the records that src/models/architecture.h and src/tasks/task.h declare.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path kSource = fs::path(PLIMSOLL_SOURCE_DIR) / "src";

// Returns the names of the folders below src/models/ except for the shared blocks: a folder has the name of its
// architecture.
std::vector<std::string> architecture_names() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(kSource / "models")) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() && name != "blocks") names.push_back(name);
  }
  return names;
}

bool is_production_source(const fs::path& path) {
  const std::string extension = path.extension().string();
  const std::string stem = path.stem().string();
  return (extension == ".h" || extension == ".cc" || extension == ".cu" || extension == ".cuh") &&
         !stem.ends_with("_test") && !stem.ends_with("_fuzz");
}

bool compares_with(const std::string& line, const std::string& name) {
  const std::string literal = '"' + name + '"';
  for (const char* comparison : {"== ", "!= "}) {
    if (line.find(comparison + literal) != std::string::npos) return true;
  }
  return line.find(literal + " ==") != std::string::npos || line.find(literal + " !=") != std::string::npos;
}

bool distinguishes_problem_types(const std::string& line) {
  for (const char* comparison : {"== ProblemType::", "!= ProblemType::", "case ProblemType::"}) {
    if (line.find(comparison) != std::string::npos) return true;
  }
  return false;
}

TEST(Models, OnlyTasksDistinguishProblemTypes) {
  int files = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kSource)) {
    if (!entry.is_regular_file() || !is_production_source(entry.path())) continue;
    const std::string path = fs::relative(entry.path(), kSource).string();
    if (path.starts_with("tasks/") || path == "base/problem_type.h") continue;
    ++files;
    std::ifstream stream(entry.path());
    int number = 0;
    for (std::string line; std::getline(stream, line);) {
      ++number;
      EXPECT_FALSE(distinguishes_problem_types(line))
          << "src/" << path << ":" << number
          << " distinguishes problem types; ask the record in tasks/task.h";
    }
  }
  EXPECT_GT(files, 500);
}

TEST(Models, OnlyItsFolderComparesWithTheNameOfAnArchitecture) {
  const std::vector<std::string> names = architecture_names();
  ASSERT_GE(names.size(), 2u);
  int files = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kSource)) {
    if (!entry.is_regular_file() || !is_production_source(entry.path())) continue;
    ++files;
    const std::string path = fs::relative(entry.path(), kSource).string();
    std::ifstream stream(entry.path());
    int number = 0;
    for (std::string line; std::getline(stream, line);) {
      ++number;
      for (const std::string& name : names) {
        if (path.starts_with("models/" + name + "/")) continue;
        EXPECT_FALSE(compares_with(line, name)) << "src/" << path << ":" << number << " compares with \""
                                                << name << "\"; ask its record in models/architecture.h";
      }
    }
  }
  EXPECT_GT(files, 500);
}

}  // namespace
