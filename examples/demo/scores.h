// Accuracy and macro-averaged F1 of predicted labels (`guesses`), computed as in scikit-learn: the F1 of a class is 2
// TP / (2 TP + FP + FN), and the mean includes every class that occurs among labels or guesses. Pure functions.
#pragma once

#include <span>
#include <string>

namespace plimsoll::demo {

struct Scores {
  double accuracy = 0;
  double macro_f1 = 0;
};

// Returns accuracy and macro-averaged F1. Requires: there are as many guesses as labels, and at least one.
Scores score(std::span<const std::string> labels, std::span<const std::string> guesses);

}  // namespace plimsoll::demo
