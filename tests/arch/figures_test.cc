// Checks the numbers and lists in the documents against the program: subcommands, exit codes, numbers of
// arguments, and the tables of plans.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "api/plan_report.h"
#include "base/file.h"
#include "plimsoll/arguments.h"
#include "plimsoll/commands.h"
#include "plimsoll/error.h"
#include "run/run_setup.h"
#include "tests/bad_input/binary.h"

namespace plimsoll::testing {
namespace {

std::string read(const std::string& path) {
  std::ifstream file(std::string(PLIMSOLL_SOURCE_DIR) + "/" + path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Returns the output of the program for these arguments.
std::string said(const std::vector<std::string>& words) {
  const ProcessResult result = run_plimsoll(words, ::testing::TempDir() + "/plimsoll_figures_log");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  return result.output;
}

std::set<std::string> subcommands() {
  const std::string help = said({"--help"});
  std::set<std::string> names;
  for (const CommandInfo& command : command_table()) {
    names.emplace(command.name);
    EXPECT_NE(help.find("\n  " + std::string(command.name) + " "), std::string::npos) << command.name;
  }
  return names;
}

// Parses a list such as "0 done, 1 a bug in Plimsoll, ...", which follows "Exit codes: " in a text and ends
// at a semicolon. Returns the meaning of each exit code.
std::map<int, std::string> exit_codes(const std::string& text) {
  std::map<int, std::string> codes;
  const size_t begin = text.find("Exit codes: ");
  if (begin == std::string::npos) return codes;
  const std::string list = std::regex_replace(text.substr(begin + 12, text.find(';', begin) - begin - 12),
                                              std::regex(R"(\s+)"), " ");
  const std::regex entry(R"((\d) ([^,]+))");
  for (std::sregex_iterator it(list.begin(), list.end(), entry), end; it != end; ++it)
    codes[std::stoi((*it)[1])] = (*it)[2];
  return codes;
}

TEST(Figures, EverySubcommandIsShownAndEveryOneShownIsThere) {
  const std::set<std::string> names = subcommands();
  ASSERT_GE(names.size(), 6u);
  const std::string guide = read("docs/GUIDE.md");
  for (const std::string& name : names) {
    EXPECT_TRUE(std::regex_search(guide, std::regex("build/plimsoll " + name + "\\b")))
        << "docs/GUIDE.md does not show " << name;
  }
  const std::regex command(R"(build/plimsoll ([a-z]+)\b)");
  for (const char* page :
       {"README.md", "docs/GUIDE.md", "docs/MEMORY.md", "docs/ARGUMENTS.md", "CONTRIBUTING.md"}) {
    const std::string text = read(page);
    for (std::sregex_iterator it(text.begin(), text.end(), command), end; it != end; ++it)
      EXPECT_TRUE(names.contains((*it)[1])) << page << " shows " << (*it)[1];
  }
}

TEST(Figures, ExitCodesAreThoseOfTheProgram) {
  const std::map<int, std::string> codes = exit_codes(said({"--help"}));
  std::set<int> expected{0};
  for (const ErrorCode code :
       {ErrorCode::kInternal, ErrorCode::kUsage, ErrorCode::kWillNotFit, ErrorCode::kBadData,
        ErrorCode::kNotFinite, ErrorCode::kInterrupted, ErrorCode::kDevice}) {
    expected.insert(static_cast<int>(code));
  }
  std::set<int> listed;
  for (const auto& [code, words] : codes) listed.insert(code);
  EXPECT_EQ(listed, expected);
  EXPECT_EQ(exit_codes(read("docs/GUIDE.md")), codes);
}

TEST(Figures, CountsOfArgumentsAreThoseOfTheTable) {
  std::map<ArgumentStatus, int> counts;
  int all = 0;
  for (const ArgumentInfo& info : argument_table()) {
    if (info.origin != ArgumentOrigin::kTrainer) continue;
    ++counts[info.status];
    ++all;
  }
  const std::string sentence = "Of Trainer's " + std::to_string(all) + " names " +
                               std::to_string(counts[ArgumentStatus::kImplemented]) + " are implemented, " +
                               std::to_string(counts[ArgumentStatus::kNoEffect]) +
                               " have no effect here and are noted, and " +
                               std::to_string(counts[ArgumentStatus::kRefused]) + " are refused";
  std::string guide = read("docs/GUIDE.md");
  for (char& c : guide) c = c == '\n' ? ' ' : c;
  EXPECT_NE(guide.find(sentence), std::string::npos) << "docs/GUIDE.md does not say: " << sentence;
}

// The oldest GPU architecture that releases are compiled for must be the constant kOldestSmOfReleases, and the help of --device must name
// every card of the table of devices, and state which older ones can only be planned for.
TEST(Figures, TheOldestCardIsThatOfReleases) {
  const std::string cmake = read("cmake/PlimsollCuda.cmake");
  EXPECT_NE(
      cmake.find("set(PLIMSOLL_CUDA_RELEASE_ARCHITECTURES " + std::to_string(kOldestSmOfReleases) + "-real "),
      std::string::npos);
  const std::string help = std::regex_replace(said({"train", "--help", "device"}), std::regex(R"(\s+)"), " ");
  for (const GpuTarget& target : gpu_targets()) {
    EXPECT_NE(help.find(" " + target.name + (target.sm < kOldestSmOfReleases ? " (plan" : "")),
              std::string::npos)
        << "--device's help does not name " << target.name << " as it is";
  }
}

// Returns the numbers in the row of a printed table that begins with this name, from left to right.
std::vector<std::string> row_figures(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find_first_not_of(' ');
    if (at == std::string::npos || line.compare(at, name.size(), name) != 0) continue;
    std::istringstream words(line.substr(at + name.size(), line.find(" |") - at - name.size()));
    return {std::istream_iterator<std::string>(words), std::istream_iterator<std::string>()};
  }
  return {};
}

// A plan that a document shows must be what the program prints, except for the rows whose content depends on
// the machine.
TEST(Figures, TheTableOfThePlanIsThatOfTheProgram) {
  const std::vector<std::string> words = {"--config_name",
                                          "bert-large-uncased",
                                          "--max_seq_length",
                                          "512",
                                          "--per_device_train_batch_size",
                                          "4",
                                          "--num_threads",
                                          "2",
                                          "--device",
                                          "cpu"};
  const Arguments arguments = parse_arguments(words).arguments;
  RunSpec run = prepare_run(arguments, RunPurpose::kPlan, {}, posix_file_system()).spec();
  // The plan is made for a CPU with AVX-512, like the one in docs/GUIDE.md. The op at which memory is at its peak depends on the scratch
  // memory of kernels, which differs between CPUs.
  run.facts.device.isa = CpuIsa::kAvx512;
  const Plan planned = build_plan(request_of(run));
  const std::string plan = make_plan_report(planned, run, PlanLabels(), Savings::kLeaveOut).table;
  const std::string guide = read("docs/GUIDE.md");
  for (const char* row :
       {"model weights ", "optimizer states ", "gradients ", "saved for the backward pass "}) {
    const std::vector<std::string> figures = row_figures(plan, row);
    EXPECT_GE(figures.size(), 5u) << row;
    EXPECT_EQ(row_figures(guide, row), figures) << row;
  }
  EXPECT_NE(guide.find("335.1M parameters"), std::string::npos);
  EXPECT_NE(plan.find("335.1M parameters"), std::string::npos);
}

// For each set of training methods, such as bf16 with an 8-bit optimizer, docs/GUIDE.md shows the memory that `fit` computed. This memory
// must equal the planned memory of a run with the same methods. The speeds in the same table are estimates and are not compared.
TEST(Figures, TheMemoryOfFitsRowsIsThatOfARun) {
  const std::string guide = read("docs/GUIDE.md");
  const std::map<std::string, std::vector<std::string>> methods{
      {"pure_bf16", {"--dtype", "bfloat16"}},
      {"bf16", {"--bf16"}},
      {"fp16", {"--fp16"}},
      {"tf32", {"--tf32", "True"}},
      {"adamw_8bit", {"--optim", "adamw_8bit"}},
      {"bf16_moments", {"--optim_args", "momentum_dtype=bfloat16,variance_dtype=bfloat16"}}};
  const std::regex row(
      R"(\n +\d+[a-z]? +(\d+) x (\d+)  (\S[^\n]*?)  +(?:same|rounded\*?|other) +(\d+) +[\d.]+ [\d.]+x )");
  int rows = 0;
  for (std::sregex_iterator it(guide.begin(), guide.end(), row), end; it != end; ++it, ++rows) {
    std::vector<std::string> words{"train",
                                   "--config_name",
                                   "bert-large-uncased",
                                   "--dataset_name",
                                   "dummy",
                                   "--dry_run",
                                   "--device",
                                   "l4",
                                   "--per_device_train_batch_size",
                                   (*it)[1],
                                   "--gradient_accumulation_steps",
                                   (*it)[2]};
    std::istringstream names((*it)[3] == "as it is" ? "" : (*it)[3].str());
    for (std::string name; names >> name;) {
      if (name.back() == ',') name.pop_back();
      ASSERT_TRUE(methods.contains(name)) << "docs/GUIDE.md shows a row with " << name << ", unknown here";
      words.insert(words.end(), methods.at(name).begin(), methods.at(name).end());
    }
    // The first three numbers of the row "total" are the memory while loading, resuming and training. The third one is the largest. The
    // test rounds it up to whole MiB, as `fit` does.
    const std::vector<std::string> totals = row_figures(said(words), "total ");
    ASSERT_GE(totals.size(), 3u);
    EXPECT_EQ(std::ceil(std::stod(totals[2])), std::stod((*it)[4])) << "docs/GUIDE.md: " << (*it)[3];
  }
  EXPECT_GE(rows, 4);
}

}  // namespace
}  // namespace plimsoll::testing
