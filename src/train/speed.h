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

// What is behind the names of the metrics of MNLI's second set: eval_accuracy_mm, as run_glue writes them.
inline constexpr std::string_view kMismatchedSuffix = "_mm";
MetricMap with_suffix(const MetricMap& metrics, std::string_view suffix);

}  // namespace plimsoll
