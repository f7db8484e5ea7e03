// Runs of random shape by random methods, one process each, and what the plan promises about their memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/training/tiny_folder.h"
#include "tests/truth/gpu_gauge.h"
#include "tests/truth/random_methods.h"

namespace plimsoll::testing {

struct RandomRun {
  Words words;          // of the whole command
  std::string summary;  // shape and methods, for people
  int num_draws = 0;    // of methods: all but the last were refused by the program
};

// `plimsoll train`, and on a GPU every eighth number `plimsoll eval`, with a model's shape, batch, lengths,
// loader, evaluation and methods drawn from (seed, number); its config.json and texts are written to
// `folder`. On a GPU every fourth model has 12 to 24 layers. Throws where the program refuses many draws one
// after the other, with its last reason.
RandomRun random_run(const TestFolder& folder, uint64_t seed, uint64_t number, RunsOn device);

// Where the tests of this process run: on the first GPU where PLIMSOLL_TEST_DEVICE is set.
RunsOn device_of_tests();

// What one run was to hold, what it says that it held, and on a GPU what the card held meanwhile. Bytes.
struct MemoryTruth {
  // Of the plan as this process builds it from the same words. What ran before memory.json was written: where
  // its arena ends, and where its last tensor does; what lies behind that is scratch of kernels.
  bool is_on_gpu = false;
  bool has_memory_file = true;  // not of `plimsoll eval`
  bool evaluates_last = false;  // behind memory.json
  int64_t planned_arena_bytes = -1;
  int64_t planned_total_bytes = -1;
  int64_t planned_graph_bytes = -1;
  int64_t ran_end = -1;
  int64_t tensors_end = -1;
  // Of memory.json.
  int64_t arena_bytes = -1;
  int64_t high_water_bytes = -1;
  int64_t written_bytes = -1;
  int64_t constant_bytes = -1;
  int64_t predicted_bytes = -1;
  int64_t measured_bytes = -1;
  std::optional<GpuHeld> held = {};  // on a GPU
  bool ok() const { return measured_bytes > 0 && arena_bytes > 0 && predicted_bytes > 0; }
};

// Runs it and reads memory.json from its output folder, FOLDER/out. On a GPU NVML is read meanwhile.
MemoryTruth memory_of(const TestFolder& folder, const Words& words);

// The arena is the planned one and in use up to the end of what ran, to the byte, and nothing is written
// behind it. The last tensor is written to its end; behind it only scratch is, of which kernels may leave the
// end unwritten (oneDNN asks for scratch by the shape of a product and does not write all of it). The process
// never holds more than was predicted. On a GPU the most that NVML showed is that within 1 % or 64 MiB, and
// what the run says at its end is the most: the arena is taken once, and of what is beside it only captured
// programs are given back. Reports through GoogleTest.
void expect_truth(const MemoryTruth& truth);

// "planned 642.1 MiB, held 611.3 at most, 611.3 at the end": of a run on a GPU.
std::string describe_held(const MemoryTruth& truth);

}  // namespace plimsoll::testing
