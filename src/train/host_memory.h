// What the process holds on the host beside the arena, for the plan. Pure function of the setup.
#pragma once

#include "plan/build/plan.h"

namespace plimsoll {

struct RunSetup;
struct Dataset;
class TextSplit;

// Adds up what data files take while they are read and tokenised, which is over before the arena is taken.
// From above.
class ReadingMemory {
 public:
  // A file was read; its table stays until it is released.
  void add_table(const TextSplit& text);
  // The table became this data, which stays.
  void add_data(const Dataset& data);
  void release(const TextSplit& text);
  int64_t peak_bytes() const { return peak_bytes_; }

 private:
  void note(int64_t more_bytes);
  int64_t held_bytes_ = 0;
  int64_t peak_bytes_ = 0;
};

// Buckets that the training batches of this run fall into; 1 where the data is not known (the largest).
int64_t train_buckets_used(const RunSetup& setup);

// Of the training batches that the loader holds, the one in use among them, for a token of the largest.
int64_t batch_bytes_per_token(const RunSetup& setup);

// Process, data and I/O buffers. See the constants in the source for how each was measured.
HostMemory estimate_host_memory(const RunSetup& setup);

}  // namespace plimsoll
