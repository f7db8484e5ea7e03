// What fits into so much memory: for each set of methods the best split of an effective batch into
// micro-batches, the largest batch and the longest sequence, each found by planning. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/build/plan.h"

namespace plimsoll {

// A set of methods as a request; its buckets and accumulation are the search's to choose.
struct FitCandidate {
  std::vector<std::string> methods = {};  // names, for people; empty: as it is
  PlanRequest request;                    // with memory_limit_bytes
  int64_t host_bytes_per_token = 0;       // of request.host.data_bytes, for a token of train_bucket
};

struct FitQuestion {
  int64_t effective_batch = 8;   // sequences of an optimizer step
  int64_t longest = 128;         // tokens of a sequence
  int64_t most_tokens = 512;     // that the model has positions for
  int64_t largest_batch = 4096;  // where the search for the largest batch ends
  size_t num_detailed = 12;      // so many answers, the first ones, get largest_batch and longest_sequence
  int num_threads = 1;  // that plan candidates side by side; the answers are the same with any number
};

// What fits of one candidate. Every figure is that of a plan made by build_plan() for exactly it.
struct FitAnswer {
  size_t candidate = 0;
  int64_t micro_batch = 0;  // 0: no split fits
  int64_t accumulation = 0;
  int64_t total_bytes = 0;
  double samples_per_s = 0;      // estimated
  int64_t largest_batch = 0;     // without accumulation, at `longest`; 0: none fits
  int64_t longest_sequence = 0;  // at micro_batch and accumulation; at least `longest` where a split fits
  int64_t smallest_bytes = 0;    // of a micro-batch of one sequence: what it needs at the least
};

// A candidate that cannot be planned here: no kernel of the device computes it, or an argument rules it out.
struct FitRefusal {
  size_t candidate = 0;
  std::string reason = {};
};

struct FitSearch {
  std::vector<FitAnswer> answers =
      {};  // those that fit, fastest first, then those that do not, smallest first
  std::vector<FitRefusal> refused = {};  // in the order of the candidates
  int64_t num_plans = 0;
  double plan_ms = 0;  // what placing them took, of the clock on the wall
};

// Requires: num_threads >= 1. Cost: for each candidate two graphs and a placing for each divisor of the
// batch, for the detailed ones some twenty more.
FitSearch search_fit(const std::vector<FitCandidate>& candidates, const FitQuestion& question);

}  // namespace plimsoll
