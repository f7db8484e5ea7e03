#include "plan/search/fit_limits.h"

#include <algorithm>

namespace plimsoll {
namespace {

// Returns the largest value from `low` to `high` whose shape fits, or low - 1. It bisects over placed
// graphs, then goes down over plans until one confirms the value, because an order of ops that was chosen
// for exactly this bucket may need a little more.
template <typename MakeShape>
int64_t largest(FitPlanner& planner, int64_t low, int64_t high, MakeShape make_shape) {
  int64_t good = low - 1;
  int64_t bad = high + 1;
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    (planner.fits(planner.placed(make_shape(middle)).bytes) ? good : bad) = middle;
  }
  while (good >= low && !planner.fits(planner.sure_bytes(make_shape(good))))
    good -= std::max<int64_t>(1, good / 512);
  return good;
}

}  // namespace

FitLimits find_limits(FitPlanner& planner, const FitShape& shape, int64_t most_sequences,
                      int64_t most_tokens) {
  FitLimits limits{.largest_batch = shape.accumulation == 1 ? shape.micro_batch : 0,
                   .longest_sequence = shape.longest};
  // Graphs are built for the first shape that is requested, and their order of ops suits shapes near it.
  planner.placed({shape.micro_batch, 1, shape.longest});
  if (planner.takes(shape)) planner.placed(shape);
  limits.largest_batch =
      std::max(limits.largest_batch, largest(planner, 1, most_sequences, [&](int64_t batch) {
                 return FitShape{batch, 1, shape.longest};
               }));
  const int64_t most = std::max(shape.longest, most_tokens);
  limits.longest_sequence =
      std::max(limits.longest_sequence, largest(planner, shape.longest, most, [&](int64_t tokens) {
                 return FitShape{shape.micro_batch, shape.accumulation, tokens};
               }));
  return limits;
}

}  // namespace plimsoll
