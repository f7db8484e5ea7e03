// Checks the direction of dependencies: every #include under src/ and include/, and every linked library,
// must be an edge that src/LAYERS lists, and the edges must form no cycle.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Layers = std::map<std::string, std::set<std::string>>;

const fs::path kRoot = PLIMSOLL_SOURCE_DIR;

Layers read_layers() {
  std::ifstream file(kRoot / "src/LAYERS");
  Layers layers;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t colon = line.find(':');
    std::istringstream name(line.substr(0, colon));
    std::string room;
    name >> room;
    std::istringstream rest(line.substr(colon + 1));
    std::set<std::string>& allowed = layers[room];
    for (std::string word; rest >> word;) allowed.insert(word);
  }
  return layers;
}

// Returns the layer of a file: the longest folder name in src/LAYERS that its path below src/ begins with, or
// "include" for public headers. All files that list the implementations of a kernel (its catalog) form one layer.
std::string room_of(const Layers& layers, const std::string& path) {
  if (path.starts_with("plimsoll/")) return "include";
  const std::string stem = fs::path(path).stem().string();
  if (path.starts_with("kernels/") && (stem == "catalog" || stem.ends_with("_catalog"))) {
    return "kernels/catalog";
  }
  std::string best;
  for (const auto& [room, allowed] : layers) {
    if (path.starts_with(room + "/") && room.size() > best.size()) best = room;
  }
  return best;
}

std::vector<std::string> includes_of(const fs::path& file) {
  std::ifstream stream(file);
  std::vector<std::string> found;
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with("#include \"")) continue;
    const size_t end = line.find('"', 10);
    found.push_back(line.substr(10, end - 10));
  }
  return found;
}

// Returns true for tests, benchmarks and fuzzers, and for the code that they share: any folder `testing/`.
bool belongs_to_tests(const std::string& path) {
  if (path.find("/testing/") != std::string::npos) return true;
  const std::string stem = fs::path(path).stem().string();
  return stem.ends_with("_test") || stem.ends_with("_bench") || stem.ends_with("_fuzz");
}

bool is_source(const fs::path& path) {
  static const std::set<std::string> kinds{".h", ".cc", ".cu", ".cuh", ".inc"};
  return kinds.contains(path.extension().string());
}

TEST(Layers, EveryIncludeIsListed) {
  const Layers layers = read_layers();
  ASSERT_GE(layers.size(), 20u);
  int files = 0;
  int edges = 0;
  for (const auto& [folder, prefix] :
       {std::pair{kRoot / "src", std::string()}, {kRoot / "include", std::string()}}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      const std::string path = fs::relative(entry.path(), folder).string();
      const std::string room = room_of(layers, path);
      ASSERT_FALSE(room.empty()) << path << " is in no room of src/LAYERS";
      ++files;
      const bool is_test = belongs_to_tests(path);
      for (const std::string& include : includes_of(entry.path())) {
        if (include.starts_with("tests/")) {
          EXPECT_TRUE(is_test) << path << " includes " << include << ": only tests include tests/";
          continue;
        }
        if (!fs::exists(kRoot / "src" / include) && !fs::exists(kRoot / "include" / include)) {
          // Headers of this project must be included by their path from src/ or include/. Only headers of the library Highway may differ.
          EXPECT_TRUE(include.starts_with("hwy/"))
              << path << ": \"" << include << "\" is not written from src/ or include/";
          continue;
        }
        EXPECT_TRUE(is_test || !belongs_to_tests(include))
            << path << " includes " << include << ": only tests include what is in a folder testing/";
        const std::string target = room_of(layers, include);
        ++edges;
        if (target == room || target == "include") continue;
        EXPECT_TRUE(layers.at(room).contains(target))
            << path << " includes " << include << ", but src/LAYERS does not let " << room << " include "
            << target;
      }
    }
  }
  EXPECT_GT(files, 50);
  EXPECT_GT(edges, 50);
}

struct Library {
  std::string room;  // the layer that the library's first source file belongs to
  std::set<std::string> links;
};

// Returns the libraries in src/**/CMakeLists.txt by name.
std::map<std::string, Library> libraries(const Layers& layers) {
  const std::regex call(R"re((?:plimsoll_library|target_link_libraries)\(([^)]*)\))re");
  std::map<std::string, Library> found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kRoot / "src")) {
    if (entry.path().filename() != "CMakeLists.txt") continue;
    const fs::path folder = fs::relative(entry.path().parent_path(), kRoot / "src");
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    for (std::sregex_iterator it(text.begin(), text.end(), call), end; it != end; ++it) {
      std::istringstream words((*it)[1].str());
      std::string word;
      words >> word;
      Library& library = found[word];
      while (words >> word) {
        if (word.starts_with("plimsoll_")) library.links.insert(word);
        if (word.ends_with(".cc") && library.room.empty()) {
          library.room = room_of(layers, (folder / word).lexically_normal().string());
        }
      }
    }
  }
  // Executables are not declared with plimsoll_library(), so they belong to no layer and are left out.
  std::erase_if(found, [](const auto& item) { return item.second.room.empty(); });
  return found;
}

// Linking a library is a dependency just as an include is. Without this test, a library could depend on a layer above
// it without including any of its headers.
TEST(Layers, EveryLinkIsListed) {
  const Layers layers = read_layers();
  const std::map<std::string, Library> all = libraries(layers);
  int edges = 0;
  for (const auto& [name, library] : all) {
    // The links of the command line are not checked. It is a client of the API: it includes only the headers of the API, but must link the
    // implementation of the API.
    if (library.room == "cli") continue;
    for (const std::string& link : library.links) {
      const auto target = all.find(link);
      if (target == all.end() || target->second.room == library.room) continue;
      ++edges;
      EXPECT_TRUE(layers.at(library.room).contains(target->second.room))
          << name << " links " << link << ", but src/LAYERS does not let " << library.room << " use "
          << target->second.room;
    }
  }
  EXPECT_GT(edges, 30);
}

TEST(Layers, NoCycle) {
  const Layers layers = read_layers();
  std::map<std::string, int> state;
  std::function<void(const std::string&)> visit = [&](const std::string& room) {
    state[room] = 1;
    for (const std::string& next : layers.at(room)) {
      ASSERT_TRUE(layers.contains(next)) << room << " may include '" << next << "', which is no room";
      ASSERT_NE(state[next], 1) << "cycle through " << room << " and " << next;
      if (state[next] == 0) visit(next);
    }
    state[room] = 2;
  };
  for (const auto& [room, allowed] : layers) {
    if (state[room] == 0) visit(room);
  }
}

TEST(Layers, EveryRoomIsAFolder) {
  for (const auto& [room, allowed] : read_layers()) {
    const fs::path folder = room == "include" ? kRoot / room : kRoot / "src" / room;
    EXPECT_TRUE(fs::is_directory(folder))
        << "src/LAYERS has the room " << room << ", and there is no " << folder
        << ": take its line out, or write it as its folder is called";
  }
}

TEST(Layers, NoHomelessNames) {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kRoot / "src")) {
    const std::string stem = entry.path().stem().string();
    for (const char* name : {"utils", "util", "helpers", "helper", "common", "misc"}) {
      EXPECT_NE(stem, name) << entry.path() << ": a thing without a name has no home yet";
    }
  }
}

// Code outside src/cli must not call getenv, print or exit, except for process_environment(), the default of public
// functions that look up caches.
TEST(Layers, OnlyTheCommandLineTouchesTheProcess) {
  int files = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kRoot / "src")) {
    if (!entry.is_regular_file() || !is_source(entry.path())) continue;
    const std::string path = fs::relative(entry.path(), kRoot / "src").string();
    if (path.starts_with("cli/") || path == "api/environment.cc" || belongs_to_tests(path)) continue;
    ++files;
    std::ifstream stream(entry.path());
    int number = 0;
    for (std::string line; std::getline(stream, line);) {
      ++number;
      const std::string code = line.substr(0, line.find("//"));
      for (const char* word :
           {"getenv(", "std::cout", "std::cerr", " printf(", "std::exit(", " exit(", "abort("}) {
        EXPECT_EQ(code.find(word), std::string::npos) << "src/" << path << ":" << number << ": " << word;
      }
    }
  }
  EXPECT_GT(files, 50);
}

}  // namespace
