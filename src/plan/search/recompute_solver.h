// Chooses the values that each block of a model keeps for the backward pass: the choice with the least
// recomputed time whose live bytes stay under a limit. The solver works on numbers and knows no graph. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace plimsoll {

// One way to split a block's values into kept and recomputed ones.
struct RecomputeOption {
  int64_t kept_bytes =
      0;  // bytes that are kept from the block's forward pass to the end of its backward pass
  int64_t working_bytes =
      0;          // the largest number of live bytes during its backward pass, including its kept bytes
  double ms = 0;  // time of recomputing the values that are not kept
};

// A block. Blocks are in the order of the forward pass.
struct RecomputeBlock {
  std::span<const RecomputeOption> options = {};
  int64_t later_bytes =
      0;  // bytes of gradients that later blocks have left live when the backward pass reaches this block
};

struct RecomputeSolution {
  std::vector<size_t> options = {};  // the option of each block
  double ms = 0;
  int64_t peak_bytes = 0;
};

// Chooses an option for each block. While a block's backward pass runs, the live bytes are those that the
// blocks before it keep, its working bytes, and the later bytes; each such sum is at most `limit`, and so
// is the sum of the bytes that all blocks keep and `head_bytes`. Returns nothing if no choice satisfies
// that. Of equally fast choices it returns the one that keeps least. Exact: dynamic programming over blocks
// on the Pareto front of kept bytes and time. If more than kMostStates pairs remain, kept bytes are
// distinguished only to limit / kMostStates, and the result may be that far from the best. Cost: blocks x
// options x pairs.
inline constexpr size_t kMostStates = 4'000;
std::optional<RecomputeSolution> choose_options(std::span<const RecomputeBlock> blocks, int64_t head_bytes,
                                                int64_t limit);

// Returns the Pareto front of the options in kept bytes, working bytes and time; indices into `options`,
// fastest first.
std::vector<size_t> pareto_front(std::span<const RecomputeOption> options);

}  // namespace plimsoll
