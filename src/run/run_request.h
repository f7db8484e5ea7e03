// Collects the facts that plan/request needs to make the request for a run's plan. prepare_run() (run_setup.h) calls set_passes() first
// and fill_request() last. Not thread-safe.
#pragma once

#include "base/file.h"
#include "plan/request/rules.h"
#include "run/run_setup.h"

namespace plimsoll {

// Turns off the passes that the arguments name. Errors: kUsage for a name that is not the name of a pass.
void set_passes(const Arguments& arguments, PassOptions& passes);

// Makes setup.request from the setup's arguments and facts. Requires: the rest of the setup is complete. Adds warnings and notes to those
// of the setup. Errors: as request_of(); kWillNotFit if even full recomputation exceeds --recompute_budget.
void fill_request(RunSetup& setup, const Environment& environment, FileSystem& files);

// Estimates the host memory that the process uses outside the arena. The plan includes this memory. Pure functions of the setup.

struct RunSetup;
struct Dataset;
class TextSplit;

// Adds up the memory for data files while they are read and tokenized, which ends before the arena is allocated. The sum is an upper
// bound.
class ReadingMemory {
 public:
  // Adds the table that is read from a file. Its memory is included until release() is called.
  void add_table(const TextSplit& text);
  // Adds the tokens and labels that are made from a table. They stay in memory until the end.
  void add_data(const Dataset& data);
  void release(const TextSplit& text);
  // Adds a part of a data file that is read in parts. Its memory is included until release() is called.
  void add_part(const TextSplit& part);
  // Add bytes: add_tokens() those that are used now and freed soon, and hold() those that stay in memory until the end.
  void add_tokens(int64_t bytes) { note(bytes); }
  void hold(int64_t bytes);
  int64_t peak_bytes() const { return peak_bytes_; }

 private:
  void note(int64_t more_bytes);
  int64_t held_bytes_ = 0;
  int64_t peak_bytes_ = 0;
};

// Returns the memory of the process, the data and the I/O buffers, for a run whose largest training batch is `train`. The source file
// states how its constants were measured.
HostFacts host_facts(const RunSetup& setup, const Bucket& train);

}  // namespace plimsoll
