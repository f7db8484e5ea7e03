// Runs a tiny model with a set of training methods, such as bf16, recomputation or an optimizer, and checks the guarantees that hold for
// every set.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/methods.h"
#include "plimsoll/trainer.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll::testing {

using MethodSet = std::vector<const Method*>;

// Returns the names of the methods of a set, such as "bf16 + sgd", or "nothing" for an empty set.
std::string words_of(const MethodSet& set);

// The sizes of a test run, which are the same for all sets of methods.
struct RunShape {
  // Number of sequences per micro-batch. A step processes twice as many: two micro-batches with gradient
  // accumulation, and one batch of double size without.
  int64_t micro_batch = 3;
  int64_t tokens = 12;  // tokens per sequence
  int64_t threads = 1;
  int64_t seed = 42;
};

class MethodRuns {
 public:
  // Writes its models below `folder`, which must outlive this object.
  explicit MethodRuns(const TestFolder& folder);

  // Returns the methods that the device of this machine supports, in the order of the table of methods. The
  // names of the others are stored in `refused`.
  MethodSet available(std::vector<std::string>* refused = nullptr);
  // Returns the reason why the program refuses this set, or an empty string.
  std::string refusal(const MethodSet& set) const;

  // Checks the following, reported through GoogleTest:
  //  1. The arena has the planned size to the byte, and is used up to its last tensor.
  //  2. For each method, the losses of the set equal those of the set without this method. If the method promises the same bits, they are
  //     equal bit for bit, otherwise within the error of another order of sums or another precision. If the method changes the result of
  //     training, such as another optimizer, only the first loss is compared.
  //  3. On a CPU the losses equal those of the plain reference kernels, within the error of another order of sums.
  //  4. A run that stops and resumes ends with the same bits.
  void check(const MethodSet& set);
  // Checks `count` random sets of two or more methods. `first` sets of the random sequence are skipped before. For
  // each set the batch size, the sequence length and the number of threads are random too. If the program refuses a
  // set, its message must name an argument. Returns the number of checked sets.
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
