// Runs the real program in a process of its own, as a shell would, and keeps what it said.
//
// This is not a test framework: it asserts nothing. Thread-safety: distinct objects may be used from distinct
// threads. Ownership: a Process owns its child; the destructor kills and reaps it.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <string>
#include <vector>

namespace plimsoll::testing {

struct ProcessResult {
  int exit_code = -1;  // -1 when a signal ended it
  int signal = 0;
  bool timed_out = false;  // it was killed because it went on for too long
  int64_t peak_bytes = 0;  // the most that was resident, as the kernel counts it
  std::string output;      // standard output and standard error, in the order in which they came
};

class Process {
 public:
  // Starts the program (tests/support/places.h) with these words; output goes to the file `log`, which is
  // overwritten. Hugging Face's caches of this machine are hidden from it. `more`: NAME=VALUE texts that join
  // the environment. `standard_output`: where that goes instead, so that the log holds standard error alone.
  Process(const std::vector<std::string>& words, std::string log, const std::vector<std::string>& more = {},
          const std::string& standard_output = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  bool is_running();
  void send(int signal) const;
  // Waits for the end, at most `limit_ms`; then SIGKILL and timed_out.
  ProcessResult wait(int limit_ms = 60000);
  // What it has said so far.
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

// The value of a whole number in a flat JSON text such as memory.json; -1 if it is not there.
int64_t json_integer(const std::string& text, const std::string& name);

}  // namespace plimsoll::testing
