// Which of its values each block of a model keeps for the backward pass: the choice with the least recomputed
// time whose live bytes stay under a limit. Knows numbers only, no graph. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace plimsoll {

// One way to split a block's values into kept and computed again.
struct KeepOption {
  int64_t kept_bytes = 0;     // from the block's forward pass until its backward pass is done
  int64_t working_bytes = 0;  // the most that its backward pass has live, its kept bytes included
  double ms = 0;              // of what is computed again
};

// A block, in the order of the forward pass.
struct KeepBlock {
  std::span<const KeepOption> options = {};
  int64_t later_bytes = 0;  // what the blocks after it leave behind in the backward pass: their gradients
};

struct KeepSolution {
  std::vector<size_t> options = {};  // of each block
  double ms = 0;
  int64_t peak_bytes = 0;
};

// While a block's backward pass runs, the bytes that the blocks before it keep are live, its working bytes,
// and the later bytes; each such sum is at most `limit`, and so is what all blocks keep plus `head_bytes`.
// Nothing where no choice satisfies that. Of equally fast choices the one that keeps least. Exact: dynamic
// programming over blocks on the pairs of kept bytes and time that no other pair beats; where more than
// kMostStates pairs remain, kept bytes are told apart only to limit / kMostStates, and the result may be that
// much from the best. Cost: blocks x options x pairs.
inline constexpr size_t kMostStates = 4'000;
std::optional<KeepSolution> choose_options(std::span<const KeepBlock> blocks, int64_t head_bytes,
                                           int64_t limit);

// The options that no other one beats in kept bytes, working bytes and time at once; indices into `options`,
// fastest first.
std::vector<size_t> unbeaten_options(std::span<const KeepOption> options);

}  // namespace plimsoll
