// What fits into so much memory: of the sets of methods that can be asked for beside a run the fastest, each
// with the best split of an effective batch into micro-batches, the largest batch and the longest sequence,
// all found by planning. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/search/fit_planner.h"
#include "plan/search/method_space.h"

namespace plimsoll {

struct FitQuestion {
  int64_t effective_batch = 8;   // sequences of an optimizer step
  int64_t most_sequences = 0;    // of a micro-batch; 0: effective_batch
  int64_t longest = 128;         // tokens of a sequence
  int64_t most_tokens = 512;     // that the model has positions for
  int64_t largest_batch = 4096;  // where the search for the largest batch ends
  size_t num_answers = 12;       // so many of the fastest
  bool of_each_effect = true;    // and the fastest that trains the same, and up to rounding
  size_t num_detailed = 16;      // so many answers, the first ones, get largest_batch and longest_sequence
  int num_threads = 1;           // that plan sets side by side; the answers are the same with any number
};

// What fits of one set. Every figure is that of a plan made by build_plan() for exactly it.
struct FitAnswer {
  MethodSet set = {};
  Effect effect = Effect::kNone;
  int64_t micro_batch = 0;
  int64_t accumulation = 0;
  int64_t total_bytes = 0;
  double ms_per_sample = 0;      // estimated
  int64_t largest_batch = 0;     // without accumulation, at `longest`; 0: none fits
  int64_t longest_sequence = 0;  // at micro_batch and accumulation; at least `longest`
};

// A set that cannot be planned here, such as where no kernel of the device computes it.
struct FitRefusal {
  MethodSet set = {};
  std::string reason = {};
};

struct FitSearch {
  // Those that fit, fastest first. None has more methods than a faster one, or than one that is as fast to
  // half a percent: a method stands in a set because the set is faster or does not fit without it.
  std::vector<FitAnswer> answers = {};
  std::vector<FitRefusal> refused = {};
  int64_t own_bytes = 0;  // the least that the subject needs without any method, of all splits
  int64_t num_sets = 0;   // that were planned: a faster set or a bound of their bytes rules out the others
  int64_t num_plans = 0;
  double plan_ms = 0;  // what placing them took, of the clock on the wall
};

// Branch and bound: a method that trades time for memory is added to a set only for batches that do not fit
// without it and would be faster by a percent than those that do, and a set is planned only where a bound of
// its time is below that of the answers there are: its passes and its link alone, and what it takes without
// such methods, none of which makes them shorter. Of a set with copies the split is chosen by plans that have
// them late. Requires: num_threads >= 1. Cost: for BERT-large a second or two.
FitSearch search_fit(const MethodSpace& space, const FitQuestion& question);

// The run of the fewest bytes, of every set of the space, in micro-batches of one sequence and of all.
struct SmallestRun {
  MethodSet set = {};
  FitShape shape = {};
  int64_t total_bytes = 0;
  int64_t num_plans = 0;
};

// Exact over that space, but for sets whose plans choose for themselves what they compute again: every set is
// planned whose bound (MethodSpace::least_bytes) is not above the smallest plan that was found; of equal ones
// the one with the fewest methods. Nothing where no set can be planned. Cost: as search_fit().
std::optional<SmallestRun> smallest_run(const MethodSpace& space, const FitQuestion& question);

// Divisors of the effective batch, the largest first.
std::vector<FitShape> splits_of(const FitQuestion& question);

}  // namespace plimsoll
