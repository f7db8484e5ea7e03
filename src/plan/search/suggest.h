// What to change when a plan does not fit: every suggestion was planned anew, none is a rule of thumb. Pure;
// thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/build/plan.h"

namespace plimsoll {

// A changed set of arguments and what it needs.
struct Suggestion {
  std::string
      arguments;  // as a user types them: "--per_device_train_batch_size 2 --gradient_accumulation_steps 2"
  int64_t total_bytes = 0;  // planned
  bool fits = false;
  double relative_time = 1;  // estimated time a sample, over that of the plan as it is
  std::string note = {};     // what else changes, or why it does not help; may be empty
};

// Smaller micro-batches of the same effective batch, bf16 where the CPU multiplies it, smaller batches of
// evaluation, shorter sequences, SGD without states; combined when none of them alone fits. Of each kind the
// mildest that fits, or else the strongest. Those that fit stand first, fastest first; the others by their
// bytes. Cost: about ten plans.
std::vector<Suggestion> suggest_changes(const Plan& plan, int64_t limit_bytes);

// Throws kWillNotFit when the plan has a limit and exceeds it. The message has the bytes needed and allowed,
// where the peak is and what fills it, and the suggestions. Cost: nothing when the plan fits.
void require_fit(const Plan& plan);

}  // namespace plimsoll
