// Runs of a tiny model with a set of methods, and what every set of them promises.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/methods.h"
#include "plimsoll/trainer.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll::testing {

using MethodSet = std::vector<const Method*>;

// "bf16 + sgd"; "nothing" for an empty set.
std::string words_of(const MethodSet& set);

// What a run is beside its methods.
struct RunShape {
  int64_t micro_batch = 3;  // a step has two of them, or one batch of as many sequences
  int64_t tokens = 12;      // of a sequence
  int64_t threads = 1;
  int64_t seed = 42;
};

class MethodRuns {
 public:
  // Writes its models below `folder`, which outlives it.
  explicit MethodRuns(const TestFolder& folder);

  // Methods that this machine's device takes, in the order of the table; those that it refuses are in
  // `refused`.
  MethodSet available(std::vector<std::string>* refused = nullptr);
  // Why the program refuses this set; "" where it does not.
  std::string refusal(const MethodSet& set) const;

  // Reports through GoogleTest:
  //  1. The arena is the planned one to the byte, and is used to its last tensor.
  //  2. Each method's losses are those of the set without it: bit for bit where it keeps the bits, within what
  //     another order or another precision explains elsewhere; the first loss alone where it trains on
  //     another path.
  //  3. On a CPU the losses are those that the plain reference kernels compute, within another order of sums.
  //  4. A run that stops and goes on ends with the same bits.
  void check(const MethodSet& set);
  // Of random sets of two methods or more that differ in methods or shape until so many were checked, each in
  // a shape of its own, after the `first` of them; a set that is refused must be so by an argument's name.
  // Returns how many were checked.
  int check_random_sets(int count, int first = 0);

 private:
  enum class Dropout { kOn, kOff };
  Arguments arguments_of(const MethodSet& set, Dropout dropout, const std::string& output) const;
  std::vector<double> losses_of(const Arguments& arguments) const;
  void check_memory(const MethodSet& set);
  void check_losses(const MethodSet& set);
  void check_references(const MethodSet& set);
  void check_resume(const MethodSet& set);

  const TestFolder& folder_;
  RunShape shape_ = {};
  std::string with_dropout_;
  std::string without_dropout_;
};

}  // namespace plimsoll::testing
