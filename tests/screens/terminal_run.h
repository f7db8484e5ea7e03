// Runs the program in a folder as a person would: on a pseudo terminal, or with its output in a pipe. Renders what a
// terminal shows. Not thread-safe: it forks.
#pragma once

#include <string>
#include <vector>

namespace plimsoll::testing {

enum class Output { kTerminal, kPipe };

struct TerminalRun {
  std::string bytes;  // standard output and standard error in the order of their arrival
  int exit_code = -1;
};

struct RunOptions {
  std::string folder;  // the working directory
  Output output = Output::kPipe;
  int columns = 80;  // width of the terminal, which has 24 rows
  // NAME=VALUE; locale, TERM, NO_COLOR and Hugging Face's variables of this process are removed
  std::vector<std::string> environment = {};
  std::string input = {};  // the content of standard input
};

// Returns true if this machine has pseudo terminals. A chroot without /dev/pts has none.
bool has_pseudo_terminals();

// Runs the program to its end. Requires: has_pseudo_terminals() for Output::kTerminal.
TerminalRun run_program(const std::vector<std::string>& words, const RunOptions& options);

// The content of a terminal after a run.
struct Rendered {
  std::string text;                 // the lines that remain, without blanks at their ends
  std::vector<std::string> erased;  // lines that were overwritten, such as a progress bar
  size_t widest = 0;                // the largest number of columns of a line that was overwritten
};
Rendered rendered(const std::string& bytes);

// Returns the path of a file of the source tree.
std::string source_file(const std::string& name);
std::string file_text(const std::string& path);

}  // namespace plimsoll::testing
