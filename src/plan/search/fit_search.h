// Finds the runs that fit into the memory limit: the fastest sets of training methods (plimsoll/methods.h), each with the best split of the
// effective batch into micro-batches, the largest batch and the longest sequence. All answers are found by planning. Pure; thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/compile/op_times.h"
#include "plan/search/fit_planner.h"
#include "plan/search/method_space.h"

namespace plimsoll {

// Returns true if two estimated values differ by less than the error of estimates. Requires: smaller <= larger.
constexpr bool is_tie(double smaller, double larger) {
  return larger < (1 + kEstimateError) * smaller;
}

struct FitQuestion {
  int64_t effective_batch = 8;   // number of sequences per optimizer step
  int64_t most_sequences = 0;    // largest number of sequences per micro-batch; 0: effective_batch
  int64_t longest = 128;         // number of tokens per sequence
  int64_t most_tokens = 512;     // number of positions of the model, the limit for longest_sequence
  int64_t largest_batch = 4096;  // upper limit of the search for the largest batch
  size_t num_answers = 12;       // number of answers to return, in the order of order_ties()
  // Also returns the fastest answer, and the first answer for each effect on training (Effect).
  bool of_each_effect = true;
  // For this number of answers, counted from the first, largest_batch and longest_sequence are computed too.
  size_t num_detailed = 16;
  int num_threads = 1;  // number of threads that plan in parallel; answers do not depend on it
};

// The best run with one set of training methods. Its memory and times are those of a plan that build_plan() made for exactly this run.
struct FitAnswer {
  MethodSet set = {};
  ExtentOfChange extent = {};
  int tie = 0;  // answers with the same number are about equally fast: see order_ties()
  int64_t micro_batch = 0;
  int64_t accumulation = 0;
  int64_t total_bytes = 0;
  double ms_per_sample = 0;  // estimated time per sample
  // Largest batch that fits without accumulation, with sequences of FitQuestion::longest tokens; 0: none fits.
  int64_t largest_batch = 0;
  // Longest sequence that fits with micro_batch and accumulation; at least FitQuestion::longest.
  int64_t longest_sequence = 0;
};

// A set of training methods for which no plan can be made on this device, for example because no kernel exists for it.
struct FitRefusal {
  MethodSet set = {};
  std::string reason = {};
};

struct FitSearch {
  // The runs that fit, in the order of order_ties(). If an answer has all methods of another one and more, it is faster than the other one
  // by at least half a percent. So a set contains a method only if the run is faster with this method, or does not fit without it.
  std::vector<FitAnswer> answers = {};
  std::vector<FitRefusal> refused = {};
  // bytes of the run without further methods, for the split into micro-batches that needs the least
  int64_t own_bytes = 0;
  // Number of sets of methods that were planned. The others were excluded by a bound of their time or bytes.
  int64_t num_sets = 0;
  int64_t num_plans = 0;
  double plan_ms = 0;  // elapsed time of planning these sets
};

// Sorts rows (runs with a value such as their time) by the value, the smallest first, and then the rows of each tie by the extent to which
// they change the run. A tie is a row and all slower rows whose value differs from its own by less than the error of estimates
// (kEstimateError). If a slower row differs by less than this error from the row that would be the first of the tie, and changes the run
// less, it belongs to the tie too. Hence every row that changes the run less than the first row of the tie is slower than that row by more
// than the error. The rows of a tie get the same number `tie`; the ties are numbered from 1. `value` and `extent` are called with a row.
template <typename Row, typename Value, typename Extent>
void order_ties(std::span<Row> rows, const Value& value, const Extent& extent) {
  std::ranges::stable_sort(rows, {}, value);
  int tie = 0;
  for (size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    const double least = std::invoke(value, rows[begin]);
    ++tie;
    for (end = begin; end < rows.size() && (end == begin || is_tie(least, std::invoke(value, rows[end])));
         ++end)
      rows[end].tie = tie;
    const Row& first = *std::ranges::min_element(rows.subspan(begin, end - begin), {}, extent);
    for (size_t i = end; i < rows.size() && is_tie(std::invoke(value, first), std::invoke(value, rows[i]));
         ++i) {
      if (!(std::invoke(extent, rows[i]) < std::invoke(extent, first))) continue;
      for (; end <= i; ++end) rows[end].tie = tie;
    }
    std::ranges::stable_sort(rows.subspan(begin, end - begin), {}, extent);
  }
}

// Searches for the answers by branch and bound. A method that trades time for memory is added to a set only for batches that do not fit
// without the method, and only if they would be at least a percent faster than the batches that fit. A set is planned only if a lower
// bound of its time is below the times of the answers found so far. The lower bounds are the time of the ops alone, the time of the
// transfers alone, and the time of the set without its methods that trade time for memory, because such methods never make a step
// shorter. If a set copies states or activations, the micro-batch size is chosen with plans whose copies are as late as possible.
// Requires: num_threads >= 1. Cost: a second or two for BERT-large.
FitSearch search_fit(const MethodSpace& space, const FitQuestion& question);

// The run that needs the fewest bytes, of all sets of methods and with micro-batches of one sequence or of all sequences.
struct MinimumMemoryRun {
  MethodSet set = {};
  FitShape shape = {};
  int64_t total_bytes = 0;
  int64_t num_plans = 0;
};

// Returns the run with the fewest bytes. The result is exact except for sets in which the recomputed values are chosen by a search for
// each plan. The function plans every set whose lower bound (MethodSpace::least_bytes) is not above the smallest plan found so far. Of
// equally small plans it returns the one with the fewest methods. Returns nothing if no set can be planned. Cost: as search_fit().
std::optional<MinimumMemoryRun> minimum_memory_run(const MethodSpace& space, const FitQuestion& question);

// Returns the ways to split the effective batch into micro-batches of equal size, the largest micro-batch first.
std::vector<FitShape> splits_of(const FitQuestion& question);

}  // namespace plimsoll
