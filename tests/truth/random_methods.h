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

// Returns the arguments for precision and optimizer. They depend only on the number, so consecutive numbers
// cover all of them: every pair of one of the six precisions on a GPU and one of the thirteen optimizers
// occurs. Any other method can be combined with them.
Words method_words_of(RunsOn device, uint64_t number);

// Draws the other methods: accumulation, clipping, updates in the backward pass, recomputation, host memory,
// the trained part, the loss in chunks, types of copies and gradients.
Words draw_method_arguments(RunsOn device, Draw& draw);

// Returns the arguments of `plimsoll eval` on a GPU: the 16-bit type, which the number selects.
Words evaluation_words_of(uint64_t number);

}  // namespace plimsoll::testing
