// Tests what a new user sees: the commands of the README on a terminal of 80 x 24, without a terminal, and in the locale C,
// compared with the screens in this folder. Numbers that depend on the machine are masked.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <sstream>

#include "tests/screens/terminal_run.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;
using test::ScratchFolder;

// Fixture: a folder with the files that the README's commands read.
class FirstTry : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_.path() + "/data/demo");
    fs::copy(source_file("tests/parity/models/bert"), folder_.path() + "/data/demo/minilm",
             fs::copy_options::recursive);
    fs::copy(source_file("tests/parity/data/single.tsv"), folder_.path() + "/train.tsv");
    fs::copy(source_file("tests/parity/data/single_validation.tsv"), folder_.path() + "/test.tsv");
    std::istringstream labelled(file_text(folder_.path() + "/test.tsv"));
    std::string unlabelled;
    for (std::string line; std::getline(labelled, line);)
      unlabelled += line.substr(0, line.find('\t')) + "\n";
    folder_.write("unlabelled.tsv", unlabelled);
  }

  TerminalRun run(const std::vector<std::string>& words, Output output, const std::string& locale = "C.UTF-8",
                  const std::vector<std::string>& more = {}, int columns = 80) const {
    std::vector<std::string> environment{"LC_ALL=" + locale};
    environment.insert(environment.end(), more.begin(), more.end());
    return run_program(
        words, {.folder = folder_.path(), .output = output, .columns = columns, .environment = environment});
  }

  TerminalRun train(Output output, const std::string& locale, const std::vector<std::string>& more = {},
                    int columns = 80) const {
    fs::remove_all(folder_.path() + "/runs");
    return run({"train", "--model_name_or_path", "data/demo/minilm", "--train_file", "train.tsv",
                "--output_dir", "runs/mine", "--use_cpu"},
               output, locale, more, columns);
  }

  // The same run with texts that are truncated to fewer tokens than requested, which prints a warning.
  TerminalRun train_with_warning(Output output, const std::vector<std::string>& environment = {}) const {
    fs::remove_all(folder_.path() + "/runs");
    return run({"train", "--model_name_or_path", "data/demo/minilm", "--train_file", "train.tsv",
                "--output_dir", "runs/mine", "--use_cpu", "--max_seq_length", "100"},
               output, "C.UTF-8", environment);
  }

  ScratchFolder folder_;
};

// Returns the arguments of the commands in the README that start with build/plimsoll.
std::vector<std::vector<std::string>> readme_commands() {
  std::istringstream readme(file_text(source_file("README.md")));
  const std::string start = "    build/plimsoll ";
  std::vector<std::vector<std::string>> commands;
  for (std::string line; std::getline(readme, line);) {
    if (!line.starts_with(start)) continue;
    std::istringstream words(line.substr(start.size()));
    std::vector<std::string>& command = commands.emplace_back();
    for (std::string word; words >> word;) command.push_back(word);
  }
  return commands;
}

// Masks what depends on the machine: its name, all numbers of a run, and column widths, which depend on the
// numbers.
std::string masked(const std::string& text, bool is_run) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    // On a busy machine a run may warn that it waits for data. The warning is removed.
    if (line.find("spent waiting for the next batch") != std::string::npos) continue;
    if (line.starts_with("device cpu: ")) line = "device cpu: #";
    line = std::regex_replace(line, std::regex("[0-9]+ per second;"), "# per second;");
    if (is_run) {
      // Numbers are masked, but digits within names such as fp32 and eval_f1 are kept.
      line =
          std::regex_replace(line, std::regex("(^|[^A-Za-z0-9])[0-9]+([.,:][0-9]+)*(e[-+]?[0-9]+)?"), "$1#");
      line = std::regex_replace(line, std::regex("   +"), "  ");
      // The machine determines which rows of the memory table are the largest, and how many values fit into the line of a step.
      // These rows and values are therefore masked too.
      line = std::regex_replace(line, std::regex("^(of it|peak)  .*"), "$1  #");
      line = std::regex_replace(line, std::regex("(  # tok/s)?(  # MiB)?(  # < #)$"), "$3");
      line = std::regex_replace(line, std::regex("(step|/#)  +#"), "$1 #");
      line = std::regex_replace(line, std::regex("(=|>|-|━|╺|─)+(?=  loss)"), "$1");
    }
    result += line + "\n";
  }
  return result;
}

// Compares the printed screen with a file of this folder. If they differ, the new screen is written into the
// build folder, from where it can be inspected and copied.
void expect_screen(const std::string& name, const std::string& screen) {
  const std::string kept = source_file("tests/screens/" + name);
  if (file_text(kept) == screen) return;
  const std::string fresh = std::string(PLIMSOLL_BINARY_DIR) + "/" + name;
  std::ofstream(fresh, std::ios::binary) << screen;
  ADD_FAILURE() << "the screens differ; look at the change, then\n  cp " << fresh << " " << kept << "\n"
                << screen;
}

std::string screens_of(const std::vector<std::vector<std::string>>& commands,
                       const std::function<TerminalRun(const std::vector<std::string>&)>& run) {
  std::string screens;
  for (const std::vector<std::string>& command : commands) {
    std::vector<std::string> words = command;
    const bool is_run = words[0] == "train" || words[0] == "eval" || words[0] == "predict";
    if (is_run) words.push_back("--use_cpu");
    const TerminalRun result = run(words);
    EXPECT_EQ(result.exit_code, 0) << result.bytes;
    const Rendered screen = rendered(result.bytes);
    screens += "$ plimsoll";
    for (const std::string& word : words) screens += " " + word;
    screens += "\n" + masked(screen.text, is_run);
    const auto bar = std::find_if(screen.erased.rbegin(), screen.erased.rend(),
                                  [](const std::string& line) { return line.starts_with("step "); });
    if (bar != screen.erased.rend()) screens += "(while it runs) " + masked(*bar, true);
    screens += "\n";
  }
  return screens;
}

class FirstTryOnATerminal : public FirstTry {
 protected:
  void SetUp() override {
    if (!has_pseudo_terminals()) {
      GTEST_SKIP()
          << "this machine has no pseudo terminals (/dev/pts is not mounted), so nothing can be shown on one";
    }
    FirstTry::SetUp();
  }
};

TEST_F(FirstTryOnATerminal, CommandsOfTheReadmeOnATerminal) {
  ASSERT_GE(readme_commands().size(), 5u);
  expect_screen("terminal.txt", screens_of(readme_commands(),
                                           [&](const auto& words) { return run(words, Output::kTerminal); }));
}

TEST_F(FirstTry, CommandsOfTheReadmeWithoutATerminal) {
  expect_screen("pipe.txt",
                screens_of(readme_commands(), [&](const auto& words) { return run(words, Output::kPipe); }));
}

TEST_F(FirstTryOnATerminal, CommandsOfTheReadmeInTheLocaleC) {
  const std::string screens =
      screens_of(readme_commands(), [&](const auto& words) { return run(words, Output::kTerminal, "C"); });
  EXPECT_TRUE(std::all_of(screens.begin(), screens.end(),
                          [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
  expect_screen("locale_c.txt", screens);
}

// The tables of a plan must fit the width of the terminal. Without a terminal they have up to 100 columns.
TEST_F(FirstTryOnATerminal, APlanFitsTheTerminal) {
  const std::vector<std::string> plan = readme_commands()[0];
  for (const int columns : {80, 100, 132}) {
    std::istringstream lines(rendered(run(plan, Output::kTerminal, "C", {}, columns).bytes).text);
    size_t widest = 0;
    for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
    EXPECT_LE(widest, static_cast<size_t>(std::min(columns, 100)));
    EXPECT_GE(widest, 75u);
  }
}

TEST_F(FirstTryOnATerminal, HelpOfEveryCommand) {
  std::string screens;
  for (const char* command :
       {"", "train", "plan", "eval", "predict", "inspect", "tokenize", "fit", "bench", "merge", "monitor",
        "completion", "man", "schema", "download", "generate", "report", "export", "env"}) {
    std::vector<std::string> words{"--help"};
    if (*command != '\0') words.insert(words.begin(), command);
    const std::string screen = rendered(run(words, Output::kTerminal).bytes).text;
    EXPECT_LE(std::count(screen.begin(), screen.end(), '\n'), 23) << screen;
    screens +=
        "$ plimsoll " + std::string(command) + (*command == '\0' ? "" : " ") + "--help\n" + screen + "\n";
  }
  expect_screen("help.txt", screens);
}

// On a terminal each logged step leaves a line, and the progress bar below must show the time at every terminal
// width.
TEST_F(FirstTryOnATerminal, StepsLeaveLinesAndTheBarShowsTheTime) {
  for (const int columns : {60, 80, 100, 160}) {
    SCOPED_TRACE(columns);
    const Rendered screen = rendered(train(Output::kTerminal, "C.UTF-8", {}, columns).bytes);
    EXPECT_GE(std::ranges::count(screen.text, '|'), 12) << screen.text;
    ASSERT_FALSE(screen.erased.empty());
    EXPECT_LE(screen.widest, static_cast<size_t>(columns) - 2);
    int bars = 0;
    for (const std::string& bar : screen.erased) {
      if (!bar.starts_with("step ")) continue;
      ++bars;
      EXPECT_NE(bar.find(" < "), std::string::npos) << bar;
    }
    EXPECT_GE(bars, 10);
    EXPECT_NE(screen.text.find("loss.svg"), std::string::npos) << "the README's own command draws a curve";
    std::istringstream lines(screen.text);
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("step ")) continue;
      EXPECT_LT(line.size(), static_cast<size_t>(columns)) << line;
    }
  }
  EXPECT_NE(file_text(folder_.path() + "/runs/mine/loss.svg").find("<path"), std::string::npos);
}

// The line of a step must show the speed of the steps since the previous line, as a record of log.jsonl does,
// and compute the remaining time from it.
TEST_F(FirstTry, TheSpeedOfALineIsThatOfTheLog) {
  const TerminalRun result =
      run({"train", "--model_name_or_path", "data/demo/minilm", "--train_file", "train.tsv", "--output_dir",
           "runs/mine", "--use_cpu", "--logging_steps", "4"},
          Output::kPipe);
  ASSERT_EQ(result.exit_code, 0) << result.bytes;
  std::vector<long> shown;
  std::istringstream lines(rendered(result.bytes).text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch speed;
    if (!line.starts_with("step ") || !std::regex_search(line, speed, std::regex("([0-9,]+) tok/s")))
      continue;
    std::string digits = speed[1];
    std::erase(digits, ',');
    shown.push_back(std::stol(digits));
  }
  std::vector<long> logged;
  std::istringstream records(file_text(folder_.path() + "/runs/mine/log.jsonl"));
  for (std::string record; std::getline(records, record);) {
    std::smatch speed;
    if (std::regex_search(record, speed, std::regex("\"tokens_per_second\": ?([0-9.e+]+)")))
      logged.push_back(std::lround(std::stod(speed[1])));
  }
  ASSERT_GE(shown.size(), 3u) << result.bytes;
  ASSERT_EQ(shown.size(), logged.size());
  for (size_t i = 0; i < shown.size(); ++i) {
    // The log file states values with six digits, which determines the tolerance.
    EXPECT_NEAR(static_cast<double>(shown[i]), static_cast<double>(logged[i]),
                1.0 + 1e-5 * static_cast<double>(logged[i]));
  }
}

bool has_escape(const TerminalRun& run) {
  return run.bytes.find('\033') != std::string::npos;
}

TEST_F(FirstTryOnATerminal, ColourIsModest) {
  const std::string yellow = "\033[33mwarning:\033[0m ";
  const std::string red = "\033[1;31mplimsoll:\033[0m ";
  const std::vector<std::string> wrong{"train", "--lerning_rate", "1"};
  EXPECT_NE(train_with_warning(Output::kTerminal).bytes.find(yellow), std::string::npos);
  EXPECT_NE(run(wrong, Output::kTerminal).bytes.find(red), std::string::npos);
  EXPECT_EQ(train_with_warning(Output::kTerminal, {"NO_COLOR=1"}).bytes.find("\033[33m"), std::string::npos);
  EXPECT_FALSE(has_escape(run(wrong, Output::kTerminal, "C.UTF-8", {"NO_COLOR=1"})));
  EXPECT_TRUE(has_escape(run(wrong, Output::kTerminal, "C.UTF-8", {"NO_COLOR="})))
      << "an empty value has no meaning";
  EXPECT_FALSE(has_escape(train_with_warning(Output::kTerminal, {"TERM=dumb"})));
  EXPECT_FALSE(has_escape(run(wrong, Output::kTerminal, "C.UTF-8", {"TERM=dumb"})));
  EXPECT_FALSE(has_escape(train_with_warning(Output::kPipe)));
  EXPECT_FALSE(has_escape(run(wrong, Output::kPipe)));
}

TEST_F(FirstTryOnATerminal, TheLocaleDecidesTheCharacters) {
  const std::vector<std::string> plan{"plan", "--config_name", "bert-base-uncased", "--device", "l4"};
  const auto is_ascii = [](const TerminalRun& run) {
    return std::all_of(run.bytes.begin(), run.bytes.end(),
                       [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  };
  for (const char* locale : {"C", "POSIX", "de_DE.ISO-8859-1", "en_US"})
    EXPECT_TRUE(is_ascii(run(plan, Output::kPipe, locale))) << locale;
  for (const char* locale : {"C.UTF-8", "en_US.utf8", "de_DE.UTF-8@euro"})
    EXPECT_FALSE(is_ascii(run(plan, Output::kPipe, locale))) << locale;
  const auto with = [&](const std::vector<std::string>& environment) {
    return run_program(plan, {.folder = folder_.path(), .environment = environment});
  };
  EXPECT_TRUE(is_ascii(with({}))) << "no variable is set";
  EXPECT_FALSE(is_ascii(with({"LANG=C.UTF-8"})));
  EXPECT_TRUE(is_ascii(with({"LANG=C.UTF-8", "LC_CTYPE=C"})));
  EXPECT_FALSE(is_ascii(with({"LC_ALL=C.UTF-8", "LC_CTYPE=C"})));
  EXPECT_FALSE(is_ascii(with({"LC_ALL=", "LANG=C.UTF-8"}))) << "an empty variable is not set";
  EXPECT_TRUE(is_ascii(train(Output::kTerminal, "C")));
}

TEST_F(FirstTryOnATerminal, QuietRunsPrintResults) {
  const auto trained = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"train",
                                   "--model_name_or_path",
                                   "data/demo/minilm",
                                   "--train_file",
                                   "train.tsv",
                                   "--output_dir",
                                   "runs/quiet",
                                   "--use_cpu",
                                   "--replace_checkpoints",
                                   "--max_seq_length",
                                   "100"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words, Output::kTerminal);
  };
  for (const std::vector<std::string>& quiet :
       std::vector<std::vector<std::string>>{{"--quiet"}, {"--log_level", "warning"}}) {
    const TerminalRun result = trained(quiet);
    const std::string text = rendered(result.bytes).text;
    EXPECT_EQ(result.exit_code, 0) << text;
    EXPECT_TRUE(text.starts_with("warning: --max_seq_length")) << text;
    EXPECT_NE(text.find("***** train metrics *****"), std::string::npos);
    EXPECT_NE(text.find("wrote runs/quiet: "), std::string::npos);
    for (const char* talk : {"device cpu", "plan ", "step ", "note: ", "memory, MiB", "saved "})
      EXPECT_EQ(text.find(talk), std::string::npos) << talk;
  }
  for (const char* level : {"error", "critical"}) {
    const std::string text = rendered(trained({"--log_level", level}).bytes).text;
    EXPECT_TRUE(text.starts_with("***** train metrics *****")) << text;
  }
  for (const char* level : {"info", "debug", "detail", "passive"})
    EXPECT_NE(rendered(trained({"--log_level", level}).bytes).text.find("device cpu"), std::string::npos)
        << level;
  EXPECT_NE(trained({"--log_level", "error", "--lora_r", "0"}).bytes.find("plimsoll:"), std::string::npos)
      << "errors are always printed";
}

}  // namespace
}  // namespace plimsoll::testing
