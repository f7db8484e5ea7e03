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

// Runs in the child between fork and exec, where only async-signal-safe functions are permitted.
[[noreturn]] void become(char* const* words, int log, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  ignore_interrupts_as_before();
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execvp(words[0], words);
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

Child::Child(const std::vector<std::string>& words, std::string log) : log_(std::move(log)) {
  const int file = open(log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) {
    throw Error(ErrorCode::kDevice,
                log_ + ": cannot write the file: " + std::strerror(errno) + "; check --output_dir");
  }
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) become(pointers.data(), file, parent);
  const int fork_error = errno;
  close(file);
  if (pid_ < 0)
    throw Error(ErrorCode::kDevice, std::string("cannot start a process: ") + std::strerror(fork_error));
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
