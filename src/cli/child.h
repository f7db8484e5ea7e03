// A process of this same program, for work that must not share memory with other work. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace plimsoll::cli {

// The child ends with its parent, however that ends.
class Child {
 public:
  // Starts `words[0]` with the others; what it prints goes to the file `log`, which is written anew. Errors:
  // kDevice.
  Child(const std::vector<std::string>& words, std::string log);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Whether it still runs, after at most so many milliseconds.
  bool is_running(int wait_ms);
  // Requires: it no longer runs. 128 + the signal where one ended it.
  int exit_code() const { return exit_code_; }
  // The last line of the log that is not empty.
  std::string last_line() const;
  // The last line of the log that begins with `start`, without it and with the lines that follow it up to the
  // last that is not empty.
  std::string said_after(const std::string& start) const;

 private:
  std::string read_log() const;

  pid_t pid_ = -1;
  std::string log_;
  int exit_code_ = -1;
};

// The path of this program.
std::string own_program();

}  // namespace plimsoll::cli
