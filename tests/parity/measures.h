// Measures the distance of a run from the reference: losses step by step, and weights relative to the norm of
// the update. Thread-safe; pure except for reading files.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/trainer.h"
#include "tests/parity/fixtures.h"

namespace plimsoll::testing {

// Returns the values of `key` in the training log, from those records that also contain the key `has`.
std::vector<double> column(const TrainOutput& output, const std::string& has, const std::string& key);

// Compares two lists with one value per step. Returns the largest difference divided by the expected value;
// NaN if any value is NaN, and infinity if the lists are empty or differ in length.
double relative_error(const std::vector<double>& values, const nlohmann::json& expected);

// The permitted error of a run, in units of the reference's own error. The unit is the distance of Trainer's
// fp32 run from its fp64 run. Both engines round the same formulas in fp32, but in other orders, and it is
// chance which of two equally good orders is closer to exact arithmetic.
inline constexpr double kTimesReference = 10.0;

// Returns the permitted relative difference of our evaluation loss from Trainer's in fp32, for cases without
// a run in fp64. By the triangle inequality, it is the sum of both distances from exact arithmetic: one unit
// for Trainer, where the unit is the largest of all cases, and kTimesReference units for ours.
double eval_loss_limit_of_fp32();

double mean_square_difference(const Projection& a, const Projection& b);

struct WeightErrors {
  // Error of the tensors whose exact gradient is not zero, relative to the norm of the update by the run.
  double trained = 0;
  // Error of the tensors whose exact gradient is zero, relative to the norm of the update by the run.
  double key_bias = 0;
  // If the error of a tensor is that of a single weight, these values are the error `trained` without this weight, and the absolute error
  // of this weight; of several such weights, the one with the largest error counts. If there is none, they are `trained` and 0.
  double trained_without_one = 0;
  double one_weight = 0;
};

// Returns how far the weights in `folder`, which the training run of the case `item` has saved, are from the weights that the reference
// recorded for this case.
WeightErrors weight_errors(const nlohmann::json& item, const std::string& folder);

}  // namespace plimsoll::testing
