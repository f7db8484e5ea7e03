#include "cli/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "cli/interrupt.h"
#include "plimsoll/error.h"

namespace plimsoll::cli {
namespace {

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Replaces the child process by the program of `words`. Runs between fork and exec, where only async-signal-safe functions are permitted.
[[noreturn]] void become(char* const* words, char* const* environment, const ChildSetup& setup,
                         pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  ignore_interrupts_as_before();
  if (setup.has_own_group) {
    setpgid(0, 0);
    // With `stty tostop`, the terminal stops processes of other groups that write to it, unless they ignore SIGTTOU.
    std::signal(SIGTTOU, SIG_IGN);
  }
  if (setup.input >= 0) dup2(setup.input, STDIN_FILENO);
  if (setup.output >= 0) dup2(setup.output, STDOUT_FILENO);
  if (setup.error >= 0) dup2(setup.error, STDERR_FILENO);
  if (setup.signal_mask != nullptr) sigprocmask(SIG_SETMASK, setup.signal_mask, nullptr);
  execvpe(words[0], words, environment);
  _exit(127);
}

}  // namespace

std::string own_program() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error)
    throw Error(ErrorCode::kDevice, "/proc/self/exe: " + error.message() + "; check that /proc is mounted");
  return path.string();
}

pid_t start_child(const std::vector<std::string>& words, const ChildSetup& setup) {
  const std::vector<char*> word_pointers = pointers_to(words);
  const std::vector<char*> variables = pointers_to(setup.environment);
  char* const* const environment = setup.environment.empty() ? environ : variables.data();
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) become(word_pointers.data(), environment, setup, parent);
  if (child < 0)
    throw Error(ErrorCode::kDevice, std::string("cannot start a process: ") + std::strerror(errno));
  return child;
}

Child::Child(const std::vector<std::string>& words, std::string log) : log_(std::move(log)) {
  const int file = open(log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) {
    throw Error(ErrorCode::kDevice,
                log_ + ": cannot write the file: " + std::strerror(errno) + "; check --output_dir");
  }
  try {
    pid_ = start_child(words, {.output = file, .error = file});
  } catch (...) {
    close(file);
    throw;
  }
  close(file);
}

Child::~Child() {
  if (exit_code_ >= 0 || pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool Child::is_running(int wait_ms) {
  for (int waited = 0; exit_code_ < 0; waited += 10) {
    int status = 0;
    const pid_t done = waitpid(pid_, &status, WNOHANG);
    if (done == pid_) {
      exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      break;
    }
    if (done < 0 && errno != EINTR)
      throw Error(ErrorCode::kDevice, std::string("lost a process: ") + std::strerror(errno));
    if (waited >= wait_ms) return true;
    const timespec pause{.tv_sec = 0, .tv_nsec = 10'000'000};
    nanosleep(&pause, nullptr);
  }
  return false;
}

std::string Child::read_log() const {
  std::ifstream file(log_, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string Child::last_line() const {
  const std::string text = read_log();
  const size_t end = text.find_last_not_of('\n');
  if (end == std::string::npos) return {};
  const size_t before = text.find_last_of('\n', end);
  return text.substr(before == std::string::npos ? 0 : before + 1,
                     end - (before == std::string::npos ? 0 : before + 1) + 1);
}

std::string Child::said_after(const std::string& start) const {
  const std::string text = "\n" + read_log();
  const size_t at = text.rfind("\n" + start);
  if (at == std::string::npos) return {};
  const size_t first = at + 1 + start.size();
  return text.substr(first, text.find_last_not_of('\n') + 1 - first);
}

}  // namespace plimsoll::cli
