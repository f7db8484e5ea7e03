// What two runs of the tiny model have in common where they differ in threads, kernels or device: every
// figure but for rounding. Thread-safety: none needed, values only.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/trainer.h"

namespace plimsoll::testing {

struct RunFigures {
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<double> weights;
};

// Of the run's log, and of the weights in `model_folder`.
RunFigures figures_of(const TrainOutput& output, const std::string& model_folder);

// Fails the test where they differ by more than rounding makes twelve steps differ. Requires: the runs have
// twelve logged steps.
void expect_equal_but_for_rounding(const RunFigures& a, const RunFigures& b);

}  // namespace plimsoll::testing
