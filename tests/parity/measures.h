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

// Largest difference of a step, over the expected value: NaN where one is, infinite where there are none or
// more of one than of the other.
double relative_error(const std::vector<double>& values, const nlohmann::json& expected);

// By how many of the reference's own distances a run of ours may be off. The unit is the distance of Trainer's
// fp32 run from its fp64 run; both engines round the same formulas in fp32 but in other orders, and which of
// two equally good orders comes nearer is luck.
inline constexpr double kTimesReference = 10.0;

// How far our loss of an evaluation may be from that of Trainer in fp32, where no run in fp64 is recorded,
// relatively: by the triangle inequality as far as both are from exact arithmetic. Trainer is by one unit,
// the largest of all cases, and the cases hold ours to kTimesReference units.
double eval_loss_limit_of_fp32();

double mean_square_difference(const Projection& a, const Projection& b);

struct WeightErrors {
  double trained = 0;   // of all tensors that have a gradient, over the norm of the update
  double key_bias = 0;  // of those whose exact gradient is zero
};

// Distance of the weights in `folder` from the reference after the case.
WeightErrors weight_errors(const nlohmann::json& item, const std::string& folder);

}  // namespace plimsoll::testing
