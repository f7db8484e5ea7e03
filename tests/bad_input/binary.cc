#include "tests/bad_input/binary.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "tests/support/places.h"

namespace plimsoll::testing {
namespace {

// Returns the environment without the variables with which the program could find models that this test did
// not create.
std::vector<std::string> environment_of_test() {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (text.starts_with("HF_") || text.starts_with("HUGGINGFACE_") || text.starts_with("XDG_CACHE_HOME=") ||
        text.starts_with("HOME=")) {
      continue;
    }
    result.push_back(text);
  }
  // HOME is a path at which no folder can be created, because NVIDIA's driver creates its cache in the home folder, even if that
  // does not exist yet.
  result.push_back("HOME=/dev/null/home");
  // Names of models that do not exist must not be looked up on the network.
  result.push_back("HF_HUB_OFFLINE=1");
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  result.reserve(words.size() + 1);
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

Process::Process(const std::vector<std::string>& words, std::string log, const std::vector<std::string>& more,
                 const std::string& standard_output)
    : log_(std::move(log)) {
  std::vector<std::string> command = {place("PLIMSOLL_PROGRAM", PLIMSOLL_BINARY_DIR "/plimsoll")};
  command.insert(command.end(), words.begin(), words.end());
  std::vector<std::string> environment = environment_of_test();
  environment.insert(environment.end(), more.begin(), more.end());
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log_.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  if (!standard_output.empty())
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, standard_output.c_str(), O_WRONLY | O_CREAT,
                                     0644);
  const int failed = posix_spawn(&pid_, command[0].c_str(), &actions, nullptr, pointers(command).data(),
                                 pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw std::runtime_error(command[0] + ": " + std::strerror(failed));
}

Process::~Process() {
  if (is_running()) wait(0);
}

bool Process::is_running() {
  if (!is_reaped_) is_reaped_ = wait4(pid_, &status_, WNOHANG, &usage_) == pid_;
  return !is_reaped_;
}

void Process::send(int signal) const {
  if (!is_reaped_) kill(pid_, signal);
}

ProcessResult Process::wait(int limit_ms) {
  ProcessResult result;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms);
  while (is_running()) {
    if (std::chrono::steady_clock::now() >= end) {
      kill(pid_, SIGKILL);
      wait4(pid_, &status_, 0, &usage_);
      is_reaped_ = true;
      result.timed_out = true;
      break;
    }
    sleep_us(1000);
  }
  if (WIFEXITED(status_)) result.exit_code = WEXITSTATUS(status_);
  if (WIFSIGNALED(status_)) result.signal = WTERMSIG(status_);
  result.peak_bytes = usage_.ru_maxrss * 1024;
  result.output = output();
  return result;
}

std::string Process::output() const {
  std::ifstream file(log_, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

ProcessResult run_plimsoll(const std::vector<std::string>& words, const std::string& log, int limit_ms,
                           const std::vector<std::string>& more_environment) {
  return Process(words, log, more_environment).wait(limit_ms);
}

void sleep_us(int64_t microseconds) {
  std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

int64_t json_integer(const std::string& text, const std::string& name) {
  const std::string key = "\"" + name + "\": ";
  const size_t at = text.find(key);
  return at == std::string::npos ? -1 : std::strtoll(text.c_str() + at + key.size(), nullptr, 10);
}

}  // namespace plimsoll::testing
