// When saved values are copied to the host's memory and back, and which of them stay on the device instead:
// the timetable for the copies that offload_activations.cc inserts. A pure function of numbers; thread-safe.
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

// How much of the device's memory a step uses, and how much it may use.
struct SavedRoom {
  // The live bytes at each position of the program without copies, where every saved value stays on the
  // device. Empty: not known.
  std::vector<int64_t> live_bytes = {};
  // The most bytes that may lie on the device at any position, values under way included.
  int64_t most_bytes = 0;
  // The most values that may be under way in one direction at a time, the one that is waited for included.
  size_t most_ahead = 0;
};

// What becomes of one saved value. Its copy to the host starts behind its producer and has ended before the
// op at `gone_before`; the copy back starts before the op at `back_before`. With `stays` there are no copies.
struct SavedTurn {
  bool stays = false;
  uint32_t gone_before = 0;
  uint32_t back_before = 0;
};

// Makes the timetable. `backward` is the position behind the forward pass.
//
// Without a known room it takes as few bytes as it can: two values at a time wait to leave, each value is
// fetched two readers before the one that needs it, and a value stays if that takes no more bytes.
//
// With a known room the values that the backward pass reads first stay, up to the first one that does not
// fit: every byte that stays saves the link two. The rest of the room is given to the copies of the others.
// Those to the host get more time, beginning with the values that are made last; those back start earlier,
// beginning with the values that are read first.
//
// Requires: values in the order of their producers; room.live_bytes for every position or for none.
std::vector<SavedTurn> saved_turns(std::span<const SavedValue> values, uint32_t backward,
                                   const SavedRoom& room);

}  // namespace plimsoll
