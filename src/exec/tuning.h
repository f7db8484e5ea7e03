// Chooses the algorithm of the matrix product library for each product of a plan by measuring the algorithms that the library proposes, the
// most important products first, within a time limit. A device's ProductMeasurer runs the products, so that the code of this file is the
// same for every device and is tested without a device.
//
// Thread-safety: one caller. Ownership: borrows plan and measurer for the call.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "hardware/tuning_table.h"
#include "lowering/lowering.h"
#include "plan/compile/plan.h"

namespace plimsoll {

struct TuningLimits {
  int candidates = 8;  // how many of the library's proposed algorithms are measured
  // Number of rounds, in each of which every candidate (proposed algorithm) is measured once. Candidates are compared by the median
  // of their times. A disturbance of some milliseconds then affects all candidates of a round alike, or one candidate in few rounds.
  int rounds = 3;
  // Candidates slower than this factor times the fastest time of the first round are not measured again.
  double near = 1.25;
  // Number of rounds in which only the fastest candidate and the library's first choice are measured again, in alternation. The candidate
  // is chosen if both the rounds and this comparison show that it saves at least `least_gain`: medians of a few runs vary by about 1 % on
  // an H200, so that one of eight equally fast candidates looks faster than the others by chance.
  int duel_rounds = 5;
  double least_gain = 0.02;
  double warm_up_seconds =
      0.25;  // seconds of warm-up runs; their times are ignored, because the clocks of a GPU that was idle first rise
  double seconds = 3.0;  // time limit for measuring the matrix products of all batch sizes but the largest
  double largest_seconds = 9.0;  // time limit for measuring the matrix products of the largest batches
};

// The functions that a device provides for tuning.
class ProductMeasurer {
 public:
  virtual ~ProductMeasurer() = default;
  virtual std::string card() const = 0;
  virtual std::string library() const = 0;
  // Returns at most `most` algorithms in the library's order of preference, without measuring them, so that their times are not set.
  // Returns none if the library has none.
  virtual std::vector<TunedProduct> candidates(const PlannedMatmul& product, int most) = 0;
  // Returns the median milliseconds of one run with cold caches, or nothing if the library refuses the algorithm or the
  // operands do not fit into the memory.
  virtual std::optional<double> measure(const PlannedMatmul& product, const TunedProduct& candidate) = 0;
  // Returns the time of a monotonic clock.
  virtual double seconds() const = 0;
};

// Returns a completed copy of the plan's tuning table: measures the matrix products that it lacks, first those
// of the largest buckets (sizes of batches), then, while time is left, those of smaller ones in tuning_order().
// A table for another GPU model, library version or workspace size is discarded. A table that has all products
// of the largest buckets is returned unchanged, so that later runs of the same kind use the same algorithms.
TuningTable tune_products(const Plan& plan, ProductMeasurer& measurer, const TuningLimits& limits = {});

// A program is compiled for several buckets, which are sizes of batches in ascending order. Returns their indices in the order in which
// they are measured: the largest, then every eighth below it, every fourth, every second, and the rest.
std::vector<size_t> tuning_order(size_t num_buckets);

// The highest rates that were measured on the device. A profile (--profile) compares the rates of ops with them. Plans use the
// rates in src/hardware instead, so that a plan is the same on every machine. Not thread-safe: measuring uses the device.

struct Ceilings {
  // The rate of a large square matrix product in the run's types; 0 if it is not known.
  double product_gflops = 0;
  // Bytes read plus bytes written per second by a copy that is larger than the caches; 0 if it is not known.
  double copy_gb_per_s = 0;
};

// Returns the type in which the plan computes matrix products.
DType product_type(const PlanRequest& request);

// Returns the size of the square matrix product to measure: the largest n, at most `most` and a multiple of 128, for which three n x n
// matrices of this type and `scratch_bytes` fit into `bytes`. Returns 0 if that would be less than 512.
int64_t ceiling_product_size(int64_t bytes, int64_t scratch_bytes, DType dtype, int64_t most);

// Fills operands with random numbers that are uniform over [-1, 1). The power that a product draws, and therefore its speed, depends on the
// bits of its operands.
void fill_with_noise(std::span<std::byte> bytes, DType dtype);

}  // namespace plimsoll
