// A process of this program, for work that must not share memory with other work. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace plimsoll::cli {

// The child process ends when its parent ends for any reason.
class Child {
 public:
  // Starts `words[0]` with the other words as arguments. Its output goes to the file `log`, which is
  // overwritten. Errors: kDevice.
  Child(const std::vector<std::string>& words, std::string log);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Waits at most this number of milliseconds and returns true if the process is still running.
  bool is_running(int wait_ms);
  // Returns the exit code, or 128 + the signal that ended the process. Requires: the process has ended.
  int exit_code() const { return exit_code_; }
  // Returns the last line of the log that is not empty.
  std::string last_line() const;
  // Returns the part of the log after the last line start that equals `start`, up to the last line that is
  // not empty.
  std::string said_after(const std::string& start) const;

 private:
  std::string read_log() const;

  pid_t pid_ = -1;
  std::string log_;
  int exit_code_ = -1;
};

// Returns the path of this program.
std::string own_program();

}  // namespace plimsoll::cli
