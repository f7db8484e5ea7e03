#include "tests/screens/terminal_run.h"

#include <fcntl.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>

#include "tests/support/places.h"

namespace plimsoll::testing {
namespace {

std::vector<std::string> environment_of(const RunOptions& options) {
  // HOME is a path at which no folder can be created, because NVIDIA's driver creates its cache in the home folder, even if that
  // does not exist yet.
  std::vector<std::string> result{"HOME=/dev/null/home", "TERM=xterm-256color"};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    bool is_hidden = false;
    for (const char* start :
         {"HF_", "HUGGINGFACE_", "XDG_CACHE_HOME=", "HOME=", "LC_", "LANG", "TERM=", "NO_COLOR=", "COLUMNS="})
      is_hidden = is_hidden || text.starts_with(start);
    if (!is_hidden) result.push_back(text);
  }
  for (const std::string& added : options.environment) {
    const std::string name = added.substr(0, added.find('=') + 1);
    std::erase_if(result, [&](const std::string& text) { return text.starts_with(name); });
    result.push_back(added);
  }
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

// Reads until the end of the output. read() fails with EIO if the program on the other side of a pseudo
// terminal has ended, which is the end too.
std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> block{};
  while (true) {
    const ssize_t count = read(descriptor, block.data(), block.size());
    if (count > 0) text.append(block.data(), static_cast<size_t>(count));
    if (count == 0 || (count < 0 && errno != EINTR)) return text;
  }
}

}  // namespace

bool has_pseudo_terminals() {
  int outer = -1;
  int inner = -1;
  if (openpty(&outer, &inner, nullptr, nullptr, nullptr) != 0) return false;
  close(outer);
  close(inner);
  return true;
}

TerminalRun run_program(const std::vector<std::string>& words, const RunOptions& options) {
  std::vector<std::string> command{place("PLIMSOLL_PROGRAM", PLIMSOLL_BINARY_DIR "/plimsoll")};
  command.insert(command.end(), words.begin(), words.end());
  std::vector<std::string> environment = environment_of(options);
  const std::vector<char*> arguments = pointers(command);
  const std::vector<char*> variables = pointers(environment);
  // Standard input is a file instead of a pipe: writing to a pipe would block if the program does not read it.
  const std::string input = options.folder + "/.standard_input";
  std::ofstream(input, std::ios::binary) << options.input;
  std::array<int, 2> ends{-1, -1};
  int output = -1;
  pid_t child = -1;
  if (options.output == Output::kTerminal) {
    winsize size{};
    size.ws_col = static_cast<unsigned short>(options.columns);
    size.ws_row = 24;
    child = forkpty(&output, nullptr, nullptr, &size);
  } else {
    if (pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
    child = fork();
    output = ends[0];
  }
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child == 0) {
    const int from = open(input.c_str(), O_RDONLY);
    if (from >= 0) dup2(from, STDIN_FILENO);
    if (options.output == Output::kPipe) {
      dup2(ends[1], STDOUT_FILENO);
      dup2(ends[1], STDERR_FILENO);
      close(ends[0]);
      close(ends[1]);
    }
    if (chdir(options.folder.c_str()) == 0) execve(arguments[0], arguments.data(), variables.data());
    _exit(126);
  }
  if (ends[1] >= 0) close(ends[1]);
  TerminalRun run{.bytes = read_all(output)};
  close(output);
  int status = 0;
  waitpid(child, &status, 0);
  run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return run;
}

Rendered rendered(const std::string& bytes) {
  Rendered screen;
  std::string line;
  const auto width = [](const std::string& text) {
    return static_cast<size_t>(std::count_if(
        text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
  };
  for (size_t i = 0; i < bytes.size(); ++i) {
    const std::string_view rest = std::string_view(bytes).substr(i);
    if (rest.starts_with("\r\033[K")) {
      if (!line.empty()) {
        screen.erased.push_back(line);
        screen.widest = std::max(screen.widest, width(line));
      }
      line.clear();
      i += 3;
    } else if (rest.starts_with("\033[")) {
      i += rest.find_first_of("mKHJ");
    } else if (bytes[i] == '\n') {
      line.erase(line.find_last_not_of(' ') + 1);
      screen.text += line + "\n";
      line.clear();
    } else if (bytes[i] != '\r') {
      line += bytes[i];
    }
  }
  screen.text += line;
  return screen;
}

std::string source_file(const std::string& name) {
  return place("PLIMSOLL_SOURCE", PLIMSOLL_SOURCE_DIR) + "/" + name;
}

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace plimsoll::testing
