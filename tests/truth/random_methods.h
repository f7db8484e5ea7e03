// By what methods a random run trains: arguments of `plimsoll train` that the device has a meaning for. Some
// sets of them contradict each other; who draws asks the program.
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

// Precision and optimizer go by the number alone, so that numbers in a row have all of them: six precisions
// on a GPU and thirteen optimizers meet in every pair. Any of them goes with the other.
Words method_words_of(RunsOn device, uint64_t number);

// The others: accumulation, clipping, updates in the backward pass, what is computed again or lies in the
// host's memory, which part is trained, the loss in chunks, types of copies and gradients.
Words draw_method_arguments(RunsOn device, Draw& draw);

// Of `plimsoll eval` on a GPU: in which 16 bits, by the number.
Words evaluation_words_of(uint64_t number);

}  // namespace plimsoll::testing
