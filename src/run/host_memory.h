// Estimates what the process holds on the host outside the arena, for the plan. Pure functions of the setup.
#pragma once

#include "plan/compile/plan.h"

namespace plimsoll {

struct RunSetup;
struct Dataset;
class TextSplit;

// Adds up the memory of data files while they are read and tokenized, which ends before the arena is taken. An upper
// bound.
class ReadingMemory {
 public:
  // Adds the table of a file, which is held until release().
  void add_table(const TextSplit& text);
  // Adds the tokens and labels made from a table, which are held to the end.
  void add_data(const Dataset& data);
  void release(const TextSplit& text);
  int64_t peak_bytes() const { return peak_bytes_; }

 private:
  void note(int64_t more_bytes);
  int64_t held_bytes_ = 0;
  int64_t peak_bytes_ = 0;
};

// Returns the bytes of all training batches that the loader holds at a time, including the current one, per token of the
// largest bucket.
int64_t batch_bytes_per_token(const RunSetup& setup);

// Returns the bytes of the process, the data and the I/O buffers, for a run whose largest training batch is `train`.
// The constants in the source state how each was measured.
HostMemory estimate_host_memory(const RunSetup& setup, const Bucket& train);

}  // namespace plimsoll
