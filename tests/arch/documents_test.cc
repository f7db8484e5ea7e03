// Checks the documents against the tree and the program: links and named files exist, and the commands that
// they show use existing arguments and subcommands.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path kRoot = PLIMSOLL_SOURCE_DIR;

std::string read(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<fs::path> documents() {
  std::vector<fs::path> paths;
  for (const char* folder : {"", "docs", "bench/results"}) {
    for (const fs::directory_entry& entry : fs::directory_iterator(kRoot / folder)) {
      if (entry.path().extension() == ".md") paths.push_back(entry.path());
    }
  }
  return paths;
}

// Returns every TEST(Suite, Name) below tests/ as "Suite.Name".
std::set<std::string> test_names() {
  const std::regex declaration(R"(\nTEST(?:_P)?\((\w+), (\w+)\))");
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kRoot / "tests")) {
    if (!entry.path().string().ends_with("_test.cc")) continue;
    const std::string text = read(entry.path());
    for (std::sregex_iterator it(text.begin(), text.end(), declaration), end; it != end; ++it)
      names.insert((*it)[1].str() + "." + (*it)[2].str());
  }
  return names;
}

std::set<std::string> argument_names() {
  const std::string table = read(kRoot / "include/plimsoll/arguments.inc");
  const std::regex row(R"(\nPLIMSOLL_ARGUMENT\(\s*\w+,\s*\w+,\s*(\w+),)");
  // Documents may name these options although they are not in the program's tables of arguments: every command
  // has --help and --config, and some scripts have --check.
  std::set<std::string> names{"help", "config", "check"};
  const std::string commands = read(kRoot / "include/plimsoll/commands.inc");
  const std::regex option(R"(\nPLIMSOLL_OPTION\(\w+, (\w+),)");
  for (std::sregex_iterator it(commands.begin(), commands.end(), option), end; it != end; ++it)
    names.insert((*it)[1]);
  for (std::sregex_iterator it(table.begin(), table.end(), row), end; it != end; ++it) names.insert((*it)[1]);
  const std::string others = read(kRoot / "src/arguments/old_names.inc");
  const std::regex peft(R"(\nPLIMSOLL_PEFT_NAME\((\w+),)");
  for (std::sregex_iterator it(others.begin(), others.end(), peft), end; it != end; ++it)
    names.insert((*it)[1]);
  return names;
}

// Returns the subcommands from the program's own table, without running it.
std::set<std::string> subcommand_names() {
  const std::string table = read(kRoot / "include/plimsoll/commands.inc");
  const std::regex row(R"(\nPLIMSOLL_COMMAND\(([a-z]+),)");
  std::set<std::string> names;
  for (std::sregex_iterator it(table.begin(), table.end(), row), end; it != end; ++it) names.insert((*it)[1]);
  return names;
}

// Returns the commands that start Plimsoll in the indented code blocks of a document. Lines that end in a
// backslash are joined with the next line.
std::vector<std::string> commands_in(const std::string& text) {
  std::vector<std::string> commands;
  std::istringstream lines(text);
  bool goes_on = false;
  for (std::string line; std::getline(lines, line);) {
    const size_t start = line.find_first_not_of(" $");
    if (start == std::string::npos) {
      goes_on = false;
      continue;
    }
    std::string words = line.substr(start);
    const bool continues = words.ends_with("\\");
    if (continues) words.pop_back();
    if (goes_on) {
      commands.back() += " " + words;
    } else if (line.starts_with("    ") && words.find("build/plimsoll ") != std::string::npos) {
      commands.push_back(words.substr(words.find("build/plimsoll ")));
    } else {
      continue;
    }
    goes_on = continues;
  }
  return commands;
}

TEST(Documents, LinksLeadSomewhere) {
  const std::regex link(R"(\]\(([^)#: ]+)(#[^)]*)?\))");
  int links = 0;
  for (const fs::path& path : documents()) {
    const std::string text = read(path);
    for (std::sregex_iterator it(text.begin(), text.end(), link), end; it != end; ++it) {
      ++links;
      EXPECT_TRUE(fs::exists(path.parent_path() / (*it)[1].str())) << path << " links to " << (*it)[1];
    }
  }
  EXPECT_GT(links, 0);
}

TEST(Documents, NamedFilesExist) {
  // A text in backticks that begins with the name of one of these folders, such as `src/plan/compile/plan.h` or `docs/MEMORY.md`, must be
  // the path of an existing file or folder.
  const std::regex name(R"(`((src|docs|include|tests|scripts|cmake|examples|bench)/[A-Za-z0-9_./-]+)`)");
  int names = 0;
  for (const fs::path& path : documents()) {
    const std::string text = read(path);
    for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it) {
      ++names;
      EXPECT_TRUE(fs::exists(kRoot / (*it)[1].str()))
          << path << " names " << (*it)[1] << ", which is not there";
    }
  }
  EXPECT_GT(names, 20);
}

// Comments and messages name result files and documents, such as docs/MEMORY.md. If such a file was renamed or
// moved, the name would be wrong, so every named file must exist.
TEST(Documents, NamedInSourcesExist) {
  const std::regex name(R"(\b(docs/[A-Z_]+\.md|docs/[a-z]+|bench/results(/[A-Za-z0-9-]+\.md)?))");
  int names = 0;
  for (const char* folder : {"src", "include", "bench", "tests", "examples", "scripts"}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      const std::string extension = entry.path().extension().string();
      if (!entry.is_regular_file() || extension == ".txt" || extension == ".json") continue;
      const std::string text = read(entry.path());
      for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it) {
        ++names;
        EXPECT_TRUE(fs::exists(kRoot / (*it)[1].str())) << entry.path() << " names " << (*it)[1];
      }
    }
  }
  EXPECT_GT(names, 5);
}

TEST(Documents, CommandsUseWhatTheProgramKnows) {
  const std::set<std::string> arguments = argument_names();
  ASSERT_GT(arguments.size(), 110u);
  const std::regex option(R"(\s--([a-z][a-z0-9_]*))");
  const std::set<std::string> subcommands = subcommand_names();
  ASSERT_GE(subcommands.size(), 6u);
  int commands = 0;
  for (const fs::path& path : documents()) {
    for (const std::string& command : commands_in(read(path))) {
      ++commands;
      std::istringstream words(command);
      std::string program, subcommand;
      words >> program >> subcommand;
      EXPECT_TRUE(subcommands.contains(subcommand) || subcommand.starts_with("--"))
          << path << ": " << command;
      for (std::sregex_iterator it(command.begin(), command.end(), option), end; it != end; ++it) {
        EXPECT_TRUE(arguments.contains((*it)[1])) << path << ": --" << (*it)[1] << " in: " << command;
      }
    }
  }
  EXPECT_GT(commands, 3);
}

// Each row of the table in docs/DETERMINISM.md must name a test, and every named test must exist.
TEST(Documents, PromisesAboutBitsNameTestsThatExist) {
  const std::set<std::string> tests = test_names();
  const std::string text = read(kRoot / "docs/DETERMINISM.md");
  const std::regex name(R"(`([A-Z]\w+\.[A-Z]\w+)`)");
  std::istringstream lines(text);
  int rows = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| ") || line.find("held by") != std::string::npos) continue;
    ++rows;
    std::sregex_iterator it(line.begin(), line.end(), name), end;
    EXPECT_NE(it, end) << "no test is named: " << line;
    for (; it != end; ++it) EXPECT_TRUE(tests.contains((*it)[1])) << (*it)[1] << " is no test";
  }
  EXPECT_GE(rows, 9);
}

}  // namespace
