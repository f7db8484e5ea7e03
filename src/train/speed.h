// Computes the speed of a phase of a run, under Hugging Face's names, and warns about runs that wait for data. Thread-safe, except that a
// WaitingWatch is used by one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "device/monitor/host.h"
#include "plimsoll/training.h"

namespace plimsoll {

// The amount of work of a phase, and its duration.
struct PhaseWork {
  double seconds = 0;
  int64_t samples = 0;
  int64_t steps = 0;
};

// Returns <split>_runtime in seconds to four decimals, and <split>_samples_per_second and <split>_steps_per_second to
// three, as Trainer rounds them.
MetricMap speed_metrics(const std::string& split, const PhaseWork& work);

// Returns a warning for a run that spends much time waiting for its data, with a recommended number of workers. Returns "" if it waits
// for at most 5 % of the time.
std::string waiting_text(double fraction, int64_t num_workers);

// Decides when the user is warned that the run waits for its data: once, together with a log record or at the end of the run. The first
// step is not counted, because it includes reading the first rows of the data.
class WaitingWatch {
 public:
  // Counts a step: the time that it waited for data, and its whole duration. Called after each step.
  void add(double wait_ms, double step_ms);
  // Returns the warning about the steps since the previous log record, or "".
  std::string at_log(int64_t num_workers);
  // Returns the warning about all steps of the run, or "". Always returns "" for a run of less than a second, in which waiting does not
  // matter.
  std::string at_end(int64_t num_workers);

 private:
  struct Share {
    double wait_ms = 0;
    double step_ms = 0;
    double fraction() const { return step_ms > 0 ? wait_ms / step_ms : 0; }
  };

  std::string once(double fraction, int64_t num_workers);

  Share since_log_;
  Share of_run_;
  bool has_begun_ = false;
  bool has_warned_ = false;
};

// Appends the suffix to the name of every metric.
MetricMap with_suffix(const MetricMap& metrics, std::string_view suffix);

// Measures the change of the process's memory during a phase (init, train, ...), with the names of Hugging Face's memory tracker. The
// memory of the plan and its arena is not described here but in memory.json. An object is used by one thread.

class MemoryPhase {
 public:
  // Starts the measurement of the phase.
  MemoryPhase() : begin_(process_memory()) {}

  int64_t resident_bytes_at_begin() const { return begin_.resident_bytes; }
  // Ends the phase. Returns <phase>_mem_cpu_alloc_delta, by how much the phase increased the resident memory, and
  // <phase>_mem_cpu_peaked_delta, the difference between the peak and the resident memory at the end. The latter is 0 if an earlier phase
  // had a higher peak, because Linux records only one peak for the whole lifetime of a process.
  MetricMap end(const std::string& phase) const;

 private:
  ProcessMemory begin_;
};

}  // namespace plimsoll
