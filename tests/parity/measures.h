// How far a run is from the reference: losses step by step, weights over the norm of the update. Pure but for
// reading files; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/trainer.h"
#include "tests/parity/fixtures.h"

namespace plimsoll::testing {

// The values of `key` in the records of the log that have `has`.
std::vector<double> column(const TrainOutput& output, const std::string& has, const std::string& key);

// Largest difference of a step, over the expected value; infinite where their numbers differ.
double relative_error(const std::vector<double>& values, const nlohmann::json& expected);

double mean_square_difference(const Projection& a, const Projection& b);

struct WeightErrors {
  double trained = 0;   // of all tensors that have a gradient, over the norm of the update
  double key_bias = 0;  // of those whose exact gradient is zero
};

// Distance of the weights in `folder` from the reference after the case.
WeightErrors weight_errors(const nlohmann::json& item, const std::string& folder);

}  // namespace plimsoll::testing
