// Checks that the documents that every reader needs (README.md and docs/ARCHITECTURE.md) stay short, and that only few source files are
// very short, because a subject that is spread over many tiny files is hard to read.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace {

namespace fs = std::filesystem;

constexpr int64_t kShortLines = 40;
constexpr double kMostShortShare = 0.1;

int64_t num_lines(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::count(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>(), '\n');
}

// Returns true for a source file that is part of the program: no test, benchmark, fuzzer or support of tests.
bool is_production(const std::string& path) {
  if (path.find("/testing/") != std::string::npos || path.find("/fixtures/") != std::string::npos)
    return false;
  const std::string extension = fs::path(path).extension().string();
  const std::string stem = fs::path(path).stem().string();
  const bool is_source = extension == ".h" || extension == ".cc" || extension == ".cu" || extension == ".cuh";
  return is_source && !stem.ends_with("_test") && !stem.ends_with("_bench") && !stem.ends_with("_fuzz");
}

TEST(FileSizes, PagesThatEveryoneReadsAreShort) {
  const fs::path root = PLIMSOLL_SOURCE_DIR;
  EXPECT_LE(num_lines(root / "README.md"), 130);
  EXPECT_LE(num_lines(root / "docs/ARCHITECTURE.md"), 200);
  EXPECT_GT(num_lines(root / "README.md"), 0);
  EXPECT_GT(num_lines(root / "docs/ARCHITECTURE.md"), 0);
}

TEST(FileSizes, FewSourceFilesAreShort) {
  const fs::path source = fs::path(PLIMSOLL_SOURCE_DIR) / "src";
  int all = 0, num_short = 0;
  std::string names;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(source)) {
    const std::string path = entry.path().lexically_relative(source).generic_string();
    if (!entry.is_regular_file() || !is_production(path)) continue;
    ++all;
    if (num_lines(entry.path()) >= kShortLines) continue;
    ++num_short;
    names += "\n  src/" + path;
  }
  EXPECT_GE(all, 900);
  EXPECT_LE(num_short, kMostShortShare * all)
      << num_short << " of " << all << " files have fewer than " << kShortLines
      << " lines; merge those that are read together:" << names;
}

TEST(FileSizes, FilesOfTestsAreNotCounted) {
  EXPECT_TRUE(is_production("kernels/matmul/linear.cu"));
  EXPECT_TRUE(is_production("base/file.h"));
  EXPECT_FALSE(is_production("base/file_test.cc"));
  EXPECT_FALSE(is_production("kernels/matmul/testing/matmul_rows.h"));
  EXPECT_FALSE(is_production("base/optimizer_table.inc"));
}

}  // namespace
