// Runs the real program in its own process, as a shell would, and stores its output.
//
// It asserts nothing. Thread-safety: distinct objects may be used from distinct threads. Ownership: a Process
// owns its child; the destructor kills and reaps it.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <string>
#include <vector>

namespace plimsoll::testing {

struct ProcessResult {
  int exit_code = -1;  // the exit code of the process; -1 if a signal ended it
  int signal = 0;
  bool timed_out = false;  // true if the process was killed because it ran too long
  int64_t peak_bytes = 0;  // the largest resident memory of the process, as the operating system reports it
  std::string output;      // standard output and standard error in the order of their arrival
};

class Process {
 public:
  // Starts the program (tests/support/places.h) with these arguments. Its output goes to the file `log`,
  // which is overwritten. Hugging Face's caches of this machine are hidden from it. `more` contains
  // NAME=VALUE texts that are added to the environment. `standard_output` redirects standard output, so that
  // the log contains only standard error.
  Process(const std::vector<std::string>& words, std::string log, const std::vector<std::string>& more = {},
          const std::string& standard_output = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  bool is_running();
  pid_t pid() const { return pid_; }
  void send(int signal) const;
  // Waits until the process has ended. If it is still running after `limit_ms` milliseconds, kills it and sets timed_out.
  ProcessResult wait(int limit_ms = 60000);
  // Returns what the process has written to its log so far.
  std::string output() const;

 private:
  pid_t pid_ = -1;
  std::string log_;
  bool is_reaped_ = false;
  int status_ = 0;
  rusage usage_{};
};

ProcessResult run_plimsoll(const std::vector<std::string>& words, const std::string& log,
                           int limit_ms = 60000, const std::vector<std::string>& more_environment = {});

void sleep_us(int64_t microseconds);

// Returns the integer value of the key `name` in a JSON text without nested objects, such as memory.json, or -1 if the key is missing.
int64_t json_integer(const std::string& text, const std::string& name);

}  // namespace plimsoll::testing
