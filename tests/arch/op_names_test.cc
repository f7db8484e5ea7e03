// Code outside src/graph/ops and src/lowering must not recognize an op by its name: it compares the definition with
// matmul_op(), or asks the schema (OpSchema::work(), is_update(), roles of operands). Names are for messages, tables
// and data files.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = fs::path(PLIMSOLL_SOURCE_DIR) / "src";

// Returns false for files in folders that define ops or look them up by name, and for kernels, whose code does not
// use ops. All other files are checked.
bool is_checked(const std::string& path) {
  for (const std::string_view room : {"graph/ops/", "graph/ir/", "lowering/", "kernels/"}) {
    if (path.starts_with(room)) return false;
  }
  if (path.find("/testing/") != std::string::npos) return false;
  const std::string stem = fs::path(path).stem().string();
  const std::string extension = fs::path(path).extension().string();
  return !stem.ends_with("_test") && !stem.ends_with("_bench") && !stem.ends_with("_fuzz") &&
         (extension == ".h" || extension == ".cc" || extension == ".cu" || extension == ".cuh");
}

// Returns the names of ops that can only mean an op. Words such as "copy" and "adamw_8bit" are left out,
// because they are also values of command-line arguments.
std::set<std::string> distinctive_names() {
  std::set<std::string> names;
  for (const OpSchema* op : all_ops()) {
    if (op->name().find('_') != std::string_view::npos && !op->is_update()) names.emplace(op->name());
  }
  return names;
}

// Returns the lines that compare the name of an op, or store it in a variable that may be compared later.
std::vector<std::string> comparisons_in(const fs::path& file, const std::set<std::string>& names) {
  // Matches op.def->name(), schema_of(op).name() and schema.name().
  static const std::string kName = R"re((def->|schema_of\([^;"]*\)\.|schema(\.|->))name\(\))re";
  static const std::regex kCompared(
      kName + R"re(\s*(==|!=|\.\s*(starts_with|ends_with|find|contains|substr|compare)\b))re" +
      R"re(|(==|!=)\s*[\w.()>:*-]*)re" + kName +
      R"re(|(string_view|string|auto)&?\s+\w+\s*=\s*[\w.()>:*-]*)re" + kName + ";");
  static const std::regex kLiteral(R"re(([=!]=|case)\s*"(\w+)"|"(\w+)"\s*[=!]=)re");
  std::ifstream stream(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    if (line.find_first_not_of(' ') == line.find("//")) continue;
    // Searching for plain text is cheap and excludes most lines, so that the slow regular expressions are rarely needed.
    bool is_hit = line.find("name()") != std::string::npos && std::regex_search(line, kCompared);
    if (line.find("= \"") == std::string::npos && line.find("\" ") == std::string::npos && !is_hit) continue;
    for (std::sregex_iterator it(line.begin(), line.end(), kLiteral), end; it != end; ++it)
      is_hit = is_hit || names.contains((*it)[2]) || names.contains((*it)[3]);
    if (is_hit) lines.push_back(line);
  }
  return lines;
}

TEST(OpNames, AreComparedOnlyWhereOpsAreDefined) {
  const std::set<std::string> names = distinctive_names();
  ASSERT_GE(names.size(), 20u);
  int files = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kSource)) {
    const std::string path = fs::relative(entry.path(), kSource).string();
    if (!entry.is_regular_file() || !is_checked(path)) continue;
    ++files;
    const std::vector<std::string> lines = comparisons_in(entry.path(), names);
    for (const std::string& line : lines)
      ADD_FAILURE() << "src/" << path << " recognizes an op by its name:" << line
                    << "\nCompare the definition (op.def == &matmul_op()) or ask the schema.";
  }
  EXPECT_GE(files, 300);
}

// Checks that the search finds each form of a comparison.
TEST(OpNames, EveryFormOfAComparisonIsFound) {
  const fs::path file = fs::path(::testing::TempDir()) / "op_names_test_lines.cc";
  {
    std::ofstream stream(file);
    stream << "if (op.def->name() == \"matmul\") return;\n"
              "const std::string_view name = context.op().def->name();\n"
              "return op.op.def->name().ends_with(\"_grad\");\n"
              "if (name == \"embedding_sum\") return;\n"
              "if (schema_of(op).name() == \"send\") return;\n"
              "if (\"copy\" != schema_of(context.op()).name()) return;\n"
              "const bool is_sent = schema.name().starts_with(\"send\");\n"
              "const auto kind = schema_of(*op).name();\n"
              "fail(\"the op '{}' has no kernel\", schema_of(op).name());\n"
              "fail(\"the op '{}' has no kernel\", op.def->name());\n"
              "if (optimizer == \"adamw_8bit\") return;\n"
              "// if (op.def->name() == \"matmul\")\n";
  }
  EXPECT_EQ(comparisons_in(file, distinctive_names()).size(), 8u);
  fs::remove(file);
}

}  // namespace
}  // namespace plimsoll
