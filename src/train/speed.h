// How fast a phase of a run was, by Hugging Face's names. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "plimsoll/training.h"

namespace plimsoll {

// What a phase did, and for how long.
struct PhaseWork {
  double seconds = 0;
  int64_t samples = 0;
  int64_t steps = 0;
};

// <split>_runtime in seconds to four decimals; <split>_samples_per_second and <split>_steps_per_second to
// three, as Trainer rounds them.
MetricMap speed_metrics(const std::string& split, const PhaseWork& work);

// A warning for a run that waits for its data: "" up to 5 % of the time, else what to try beside the workers
// that it has.
std::string waiting_text(double fraction, int64_t num_workers);

// Decides when a run that waits for its data is warned: once, at a record of its log or at its end. The first
// step does not count, for it includes reading the first rows.
class WaitingWatch {
 public:
  // To be called after each step: how long it waited for data, and how long it took in all.
  void add(double wait_ms, double step_ms);
  // The warning by the steps since the last record of the log, or "".
  std::string at_log(int64_t num_workers);
  // The warning by all steps of the run, or "". Always "" for runs of less than a second, which have nothing
  // to win.
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

}  // namespace plimsoll
