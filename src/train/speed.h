// How fast a phase of a run was, by Hugging Face's names. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>

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

}  // namespace plimsoll
