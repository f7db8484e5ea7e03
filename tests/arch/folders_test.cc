// Checks docs/FOLDERS.md against the tree: every folder has a line in its table, and every line has a
// folder.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

namespace {

namespace fs = std::filesystem;

const fs::path kRoot = PLIMSOLL_SOURCE_DIR;

// Returns the folders in the table of docs/FOLDERS.md, whose rows are "| `path/` | text |", without the slash at the end.
std::set<std::string> listed_folders() {
  std::ifstream page(kRoot / "docs/FOLDERS.md");
  std::set<std::string> folders;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| `")) continue;
    const size_t end = line.find("/` |");
    if (end == std::string::npos) continue;
    const std::string folder = line.substr(3, end - 3);
    EXPECT_TRUE(folders.insert(folder).second) << folder << " has two lines in docs/FOLDERS.md";
  }
  return folders;
}

bool holds_a_file(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) return true;
  }
  return false;
}

// Returns true for folders that builds, runs and tools create in the root; .gitignore lists them too.
bool is_left_behind(const std::string& name) {
  return name.starts_with("build") || name == "dist" || name == "runs" || name == "data" ||
         (name.starts_with(".") && name != ".ci");
}

void add_folders(const std::string& parent, std::set<std::string>& found) {
  for (const fs::directory_entry& entry : fs::directory_iterator(kRoot / parent)) {
    const std::string name = entry.path().filename().string();
    const bool at_root = parent.empty();
    if (!entry.is_directory() || entry.is_symlink() || !holds_a_file(entry.path())) continue;
    if (at_root && is_left_behind(name)) continue;
    // Skips the caches of Python, and folders such as fixtures/, whose name has the same meaning everywhere.
    // docs/FOLDERS.md explains that name only once.
    if (name == "fixtures" || name == "testing" || name == "__pycache__") continue;
    found.insert(at_root ? name : (fs::path(parent) / name).string());
  }
}

// Returns the folders that docs/FOLDERS.md must list: those of the root, those one level below src/, tests/, bench/ and examples/, and
// those two levels below src/. The page does not list deeper folders.
std::set<std::string> folders_of_the_tree() {
  std::set<std::string> found;
  add_folders("", found);
  for (const char* parent : {"src", "tests", "bench", "examples"}) {
    if (fs::exists(kRoot / parent)) add_folders(parent, found);
  }
  std::set<std::string> deeper;
  for (const std::string& folder : found) {
    if (folder.starts_with("src/")) add_folders(folder, deeper);
  }
  found.merge(deeper);
  return found;
}

TEST(Folders, FoldersPageListsTheTree) {
  const std::set<std::string> listed = listed_folders();
  const std::set<std::string> found = folders_of_the_tree();
  ASSERT_GE(listed.size(), 30u);
  ASSERT_GE(found.size(), 30u);
  for (const std::string& folder : found) {
    EXPECT_TRUE(listed.contains(folder)) << folder << "/ has no line in the table of docs/FOLDERS.md";
  }
  for (const std::string& folder : listed) {
    EXPECT_TRUE(fs::is_directory(kRoot / folder))
        << "docs/FOLDERS.md lists " << folder << "/, which is not there";
  }
}

// Editors and search results show the names of files without their folders, so two sources with the same name
// would be confused.
TEST(Folders, NoTwoSourcesHaveOneName) {
  std::map<std::string, fs::path> found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kRoot / "src")) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".h" && extension != ".cc" && extension != ".cu" && extension != ".cuh") continue;
    const auto [at, is_new] = found.emplace(entry.path().filename().string(), entry.path());
    EXPECT_TRUE(is_new) << entry.path() << " has the name of " << at->second;
  }
  EXPECT_GT(found.size(), 500u);
}

}  // namespace
