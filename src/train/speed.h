// The speed of a phase of a run, under Hugging Face's names, and warnings for runs that wait for data. Pure; thread-safe,
// except for one WaitingWatch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "device/monitor/host.h"
#include "plimsoll/training.h"

namespace plimsoll {

// The work of a phase and its duration.
struct PhaseWork {
  double seconds = 0;
  int64_t samples = 0;
  int64_t steps = 0;
};

// Returns <split>_runtime in seconds to four decimals, and <split>_samples_per_second and <split>_steps_per_second to
// three, as Trainer rounds them.
MetricMap speed_metrics(const std::string& split, const PhaseWork& work);

// Returns a warning for a run that waits for its data, with the number of workers to try; "" if it waits for at most 5 %
// of the time.
std::string waiting_text(double fraction, int64_t num_workers);

// Decides when a run that waits for its data is warned: once, at a record of its log or at its end. The first step does not
// count, since it includes reading the first rows.
class WaitingWatch {
 public:
  // Counts a step: the time that it waited for data, and the whole time. Called after each step.
  void add(double wait_ms, double step_ms);
  // Returns the warning for the steps since the last record of the log, or "".
  std::string at_log(int64_t num_workers);
  // Returns the warning for all steps of the run, or "". Always "" for runs of less than a second, which gain nothing.
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

// The change of the process's memory during a phase (init, train, ...), under the names of Hugging Face's memory tracker.
// It does not cover the plan and the arena, which memory.json describes. One thread uses a phase.

class MemoryPhase {
 public:
  // Begins the phase.
  MemoryPhase() : begin_(process_memory()) {}

  int64_t resident_bytes_at_begin() const { return begin_.resident_bytes; }
  // Ends the phase. Returns <phase>_mem_cpu_alloc_delta, the resident bytes that it added, and
  // <phase>_mem_cpu_peaked_delta, the difference between its peak and its end. The latter is 0 if an earlier phase had a
  // higher peak, since the kernel keeps one peak for the whole life of a process.
  MetricMap end(const std::string& phase) const;

 private:
  ProcessMemory begin_;
};

}  // namespace plimsoll
