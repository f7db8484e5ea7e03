// Chooses the product library's algorithm for each matrix product of a plan, by measuring those that the
// library proposes, the most important products first, within a limit of time. It runs nothing itself: a
// device's ProductMeasurer does, so that the logic here is the same on every device and is tested without
// one.
//
// Thread-safety: one caller. Ownership: borrows plan and measurer for the call.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hardware/tuning_table.h"
#include "plan/compile/plan.h"

namespace plimsoll {

struct TuningLimits {
  int candidates = 8;  // of the library's, best guess first
  // In each round all candidates are measured, one after the other; the median over the rounds counts. So a
  // disturbance of some milliseconds hits all of them, or one of them in few rounds.
  int rounds = 3;
  double near = 1.25;  // what took longer than this times the best of the first round is not measured again
  // The fastest is measured against the library's first choice once more, in turn, and is taken where both
  // the rounds and this duel say that it saves at least `least_gain`: medians of a few runs scatter by about
  // a hundredth on an H200, and of eight that are equal one looks fastest.
  int duel_rounds = 5;
  double least_gain = 0.02;
  double warm_up_seconds = 0.25;  // of measurements that do not count, while an idle card's clocks rise
  double seconds = 3.0;           // after so long only products of the largest buckets are still begun
  double largest_seconds = 9.0;   // after so long none is
};

// What a device has to provide.
class ProductMeasurer {
 public:
  virtual ~ProductMeasurer() = default;
  virtual std::string card() const = 0;
  virtual std::string library() const = 0;
  // At most `most` algorithms, the library's first choice first; without times. Empty where it has none.
  virtual std::vector<TunedProduct> candidates(const PlannedProduct& product, int most) = 0;
  // Milliseconds of one run with cold caches, as a median; nothing where the algorithm is refused or the
  // operands have no room.
  virtual std::optional<double> measure(const PlannedProduct& product, const TunedProduct& candidate) = 0;
  // Of a clock that only goes forward.
  virtual double seconds() const = 0;
};

// Completes the table of the plan's request: measures the products that it lacks, first those of the largest
// buckets, then, while time is left, those of smaller buckets in tuning_order(). A table of another card,
// library or workspace is thrown away. A table that has all products of the largest buckets is returned as it
// is, so that runs of the same kind take the same algorithms.
TuningTable tune_products(const Plan& plan, ProductMeasurer& measurer, const TuningLimits& limits = {});

// Buckets of a ladder in the order in which they are measured: the largest, then every eighth below it, every
// fourth, every second, and the rest. Indices into the ladder.
std::vector<size_t> tuning_order(size_t num_buckets);

}  // namespace plimsoll
