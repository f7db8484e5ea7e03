// Which saved values stay on the device between the passes, when copies of the others to the host's memory
// have to be over and when they come back: what offload_activations.cc gives the ops for. A pure function of
// numbers; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll {

// A value that the forward pass saves, by positions of the program without copies.
struct SavedValue {
  int64_t bytes = 0;
  uint32_t producer = 0;
  uint32_t last_reader = 0;   // of the forward pass, the producer where nothing there reads it
  uint32_t first_reader = 0;  // behind the forward pass
};

// What a step has on the device at each position of the program without copies, where everything saved stays
// there.
struct SavedRoom {
  std::vector<int64_t> live_bytes = {};
  int64_t most_bytes = 0;  // that may lie there at any position, copies included
  // Values under way in one direction, the one that is waited for included; what stays counts as one.
  size_t most_ahead = 0;
};

// The copy to the host starts behind the producer and has ended before the op at `gone_before`; the one back
// starts before the op at `back_before`.
struct SavedTurn {
  bool stays = false;
  uint32_t gone_before = 0;
  uint32_t back_before = 0;
};

// At least: two values wait to leave, and each is asked for two readers ahead. What the backward pass reads
// first stays where that takes no more. Where it is known what room there is, those that are read first
// stay, up to the first that does not fit between the passes, for a byte that stays spares the link two. What
// room is left beside the ops is given to copies: those to the host may take longer, of two values the one
// that was made last, and those back start earlier, of two the one that is read first. `backward`: the
// position behind the forward pass. Requires: values in the order of their producers; room of no position or
// of all.
std::vector<SavedTurn> saved_turns(std::span<const SavedValue> values, uint32_t backward,
                                   const SavedRoom& room);

}  // namespace plimsoll
