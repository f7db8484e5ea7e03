// The figures of runs of the tiny model that may differ in threads, kernels or device, and must agree except
// for rounding. Thread-safety: none needed, values only.
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

// Figures from the log of the run and from the weights in `model_folder`.
RunFigures figures_of(const TrainOutput& output, const std::string& model_folder);

// Fails the test if the figures of two runs differ by more than rounding can cause in twelve steps. Requires: the
// runs have twelve logged steps.
void expect_equal_but_for_rounding(const RunFigures& a, const RunFigures& b);

}  // namespace plimsoll::testing
