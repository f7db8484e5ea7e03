// Starts child processes, for work that must not share memory with this process. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

namespace plimsoll::cli {

// Settings of a child process that can differ from those of this process.
struct ChildSetup {
  // Open descriptors that become standard input, output and error of the child. For -1 the child uses the stream of
  // this process.
  int input = -1;
  int output = -1;
  int error = -1;
  // variables NAME=VALUE; if empty, the child gets the environment of this process
  std::vector<std::string> environment = {};
  // signals that the child blocks; if null, those that this process blocks
  const sigset_t* signal_mask = nullptr;
  // If true, the child is in a new process group. Keys of the terminal such as Ctrl-C do not reach it there, but it may
  // write to the terminal.
  bool has_own_group = false;
};

// Starts `words[0]` with the other words as arguments and returns its process id. The child is killed when the calling
// thread ends for any reason. If the program cannot be executed, the child ends with exit code 127. The caller must
// wait for the child. Errors: kDevice.
pid_t start_child(const std::vector<std::string>& words, const ChildSetup& setup);

// A child process whose output is written to a file.
class Child {
 public:
  // Starts the words as start_child() does. The output of the child goes to the file `log`, which is
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
  // Finds the last line of the log that begins with `start`. Returns the log after this `start`, without line breaks at its end.
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
