// The results of runs of the tiny model: losses, gradient norms and weights. Runs with different threads,
// kernels or devices must agree in them except for rounding. Thread-safety: none needed, values only.
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

// Collects the results from the log of a run and from the weights in `model_folder`.
RunFigures figures_of(const TrainOutput& output, const std::string& model_folder);

// Fails the test if the results of two runs differ by more than rounding can cause in twelve steps. Requires:
// both runs have twelve logged steps.
void expect_equal_but_for_rounding(const RunFigures& a, const RunFigures& b);

}  // namespace plimsoll::testing
