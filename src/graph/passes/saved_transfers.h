// The transfer schedule of saved activations: when each activation is copied to host memory and back, and which activations stay on the
// device. offload_activations_pass.cc inserts the copies accordingly. A pure function of numbers; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll {

// A value that the forward pass saves for the backward pass. Positions refer to the program without copies.
struct SavedValue {
  int64_t bytes = 0;
  uint32_t producer = 0;
  // The last op of the forward pass that reads the value, or the op that produces it if no op of the forward pass reads it.
  uint32_t last_reader = 0;
  uint32_t first_reader = 0;  // the first op after the forward pass that reads the value
};

// How much of the device's memory a step uses, and how much it may use.
struct ActivationHeadroom {
  // The live bytes at each position of the program without copies if every saved value stays on the device. Empty if
  // they are not known.
  std::vector<int64_t> live_bytes = {};
  // The limit for live bytes on the device at any position, including values that are being copied.
  int64_t most_bytes = 0;
  // The largest number of values that may be on their way in one direction at a time, including a value for whose
  // copy an op is waiting.
  size_t most_ahead = 0;
};

// The transfers of one saved value. The copy to the host starts after the op that produces the value and must have ended before the op at
// `out_ends_before` starts; the copy back starts before the op at `in_starts_before`. A value that stays on the device is not copied.
struct SavedTransfer {
  bool stays = false;
  uint32_t out_ends_before = 0;
  uint32_t in_starts_before = 0;
};

// Returns the transfers of all saved values. `backward` is the first position after the forward pass.
//
// If room.live_bytes is empty, the schedule needs the least memory: two values at a time wait for their copy to the host,
// the copy of a value back to the device starts when the backward pass has read the second saved value before this one, and a value stays
// on the device if this takes no more memory.
//
// Otherwise the values that the backward pass reads first stay on the device, up to the first value that does not fit: every byte that
// stays saves two bytes of transfers. The remaining memory gives the other copies more time: copies to the host may end later, beginning
// with the values that are produced last, and copies back start earlier, beginning with the values that are read first.
//
// Requires: values in the order of their producers; room.live_bytes for every position or for none.
std::vector<SavedTransfer> transfers_of_saved_values(std::span<const SavedValue> values, uint32_t backward,
                                                     const ActivationHeadroom& room);

}  // namespace plimsoll
