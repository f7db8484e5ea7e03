// Runs of random shape, one process each, and what the plan promises about their memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/training/tiny_folder.h"

namespace plimsoll::testing {

// What memory.json says of one run.
struct MemoryTruth {
  // Of the plan as this process builds it from the same words: its arena, and where the last tensor ends.
  // What lies behind that is scratch of kernels.
  int64_t planned_arena_bytes = -1;
  bool is_on_gpu = false;
  int64_t tensors_end = -1;
  int64_t arena_bytes = -1;
  int64_t high_water_bytes = -1;
  int64_t written_bytes = -1;
  int64_t constant_bytes = -1;
  int64_t predicted_bytes = -1;
  int64_t measured_bytes = -1;
  bool ok() const { return measured_bytes > 0 && arena_bytes > 0 && predicted_bytes > 0; }
};

// `plimsoll train` with a model's shape, batch, lengths, accumulation, optimizer, loader and evaluation drawn
// from (seed, number); its config.json is written to `folder`.
std::vector<std::string> random_run(const TestFolder& folder, uint64_t seed, uint64_t number);

// Runs it and reads memory.json from its output folder, FOLDER/out.
MemoryTruth memory_of(const TestFolder& folder, const std::vector<std::string>& words);

// The arena is the planned one and in use up to its end, to the byte, and nothing is written behind it. The
// last tensor is written to its end; behind it only scratch is, of which kernels may leave the end unwritten
// (oneDNN asks for scratch by the shape of a product and does not write all of it). The process never holds
// more than was predicted. Reports through GoogleTest.
void expect_truth(const MemoryTruth& truth);

}  // namespace plimsoll::testing
