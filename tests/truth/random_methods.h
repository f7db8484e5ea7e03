// Draws the methods of a random run: arguments of `plimsoll train` that can be used on the device. Some of the drawn sets contain
// arguments that exclude each other; the program then refuses the run, and the caller draws again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/truth/draw.h"

namespace plimsoll::testing {

enum class RunsOn : uint8_t { kCpu, kGpu };
using Words = std::vector<std::string>;
inline void append(Words& words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
}
inline void append(Words& words, const std::string& name, int64_t value) {
  append(words, {"--" + name, std::to_string(value)});
}

// Returns the arguments for precision and optimizer, which depend only on `number`, the number of the run. Consecutive
// numbers reach every pair of a precision (six on a GPU) and an optimizer (thirteen). All other methods can be combined
// with them.
Words method_words_of(RunsOn device, uint64_t number);

// Draws arguments for the other methods: accumulation, clipping, updates in the backward pass, recomputation,
// offloading, the part of the model that is trained, chunked losses, and the types of weight copies and
// gradients.
Words draw_method_arguments(RunsOn device, Draw& draw);

// Returns arguments of `plimsoll eval` on a GPU. `number`, the number of the run, determines the 16-bit type of the
// weights.
Words evaluation_words_of(uint64_t number);

}  // namespace plimsoll::testing
