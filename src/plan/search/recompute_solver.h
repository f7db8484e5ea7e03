// Chooses the values that each block of a model keeps for the backward pass. The solver finds the choice with the least recomputation
// time whose live bytes stay under a limit. It works on numbers alone and does not use a graph. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace plimsoll {

// One way to divide the values of a block into kept and recomputed ones.
struct RecomputeOption {
  // Bytes of the values that live from the block's forward pass to the end of its backward pass.
  int64_t kept_bytes = 0;
  // Largest number of live bytes during the block's backward pass, including its kept bytes.
  int64_t working_bytes = 0;
  double ms = 0;  // time to recompute the values that are not kept
};

// The options of a block. A list of blocks is in the order of the forward pass.
struct RecomputeBlock {
  std::span<const RecomputeOption> options = {};
  // Bytes of gradients of later blocks that are still live when the backward pass reaches this block.
  int64_t later_bytes = 0;
};

struct RecomputeSolution {
  std::vector<size_t> options = {};  // index of the chosen option of each block
  double ms = 0;
  int64_t peak_bytes = 0;
};

// Chooses an option for each block. While the backward pass of a block runs, the live bytes are the sum of the kept bytes of the blocks
// before it, and the block's own working_bytes and later_bytes. Each of these sums must be at most `limit`, and so must the kept bytes of
// all blocks plus `head_bytes`. Returns nothing if no choice satisfies this. Of equally fast choices it returns the one that keeps the
// fewest bytes. The method is dynamic programming over the blocks, with the Pareto front of kept bytes and time as its states. It is exact
// unless there are more than kMostStates states; then kept bytes are rounded to multiples of limit / kMostStates, and the result may exceed
// the optimum accordingly. Cost: blocks x options x states.
inline constexpr size_t kMostStates = 4'000;
std::optional<RecomputeSolution> choose_options(std::span<const RecomputeBlock> blocks, int64_t head_bytes,
                                                int64_t limit);

// Returns the options that are Pareto-optimal in kept bytes, working bytes and time, as indices into `options`, fastest first.
std::vector<size_t> pareto_front(std::span<const RecomputeOption> options);

}  // namespace plimsoll
