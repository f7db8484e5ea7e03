// Draws runs with random models, sizes and methods, executes each in a process of its own, and checks that
// their memory is what their plans state.
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
  Words words;          // the words of the command line: a subcommand and its arguments
  std::string summary;  // description of model and methods for messages
  // Number of random combinations of methods that were drawn. The program refused all of them but the last one.
  int num_draws = 0;
};

// Returns a random command: `plimsoll train` or, on a GPU for every eighth number, `plimsoll eval`. The model, the batch size, the text
// lengths, the data loader settings, the evaluation and the methods are drawn from (seed, number). The config.json of the model and the
// texts are written to `folder`. On a GPU a quarter of the models that are trained have 12 to 24 layers. Throws the last reason if the
// program refuses many draws in a row.
RandomRun random_run(const TestFolder& folder, uint64_t seed, uint64_t number, RunsOn device);

// Returns the device of the tests in this process: the first GPU if PLIMSOLL_TEST_DEVICE is set, otherwise the
// CPU.
RunsOn device_of_tests();

// The planned memory of a run, the memory that it reports, and on a GPU the memory in use on the card, in
// bytes.
struct MemoryTruth {
  // The next fields come from a plan that the test makes from the same arguments. ran_end is the end of that
  // part of the arena which is used by the programs that ran before memory.json was written. tensors_end is the
  // end of the last tensor of these programs; after it there is only scratch memory of kernels.
  bool is_on_gpu = false;
  bool has_memory_file = true;  // false for `plimsoll eval`, which writes no memory.json
  bool evaluates_last = false;  // true if an evaluation follows after memory.json was written
  int64_t planned_arena_bytes = -1;
  int64_t planned_total_bytes = -1;
  int64_t planned_graph_bytes = -1;
  int64_t ran_end = -1;
  int64_t tensors_end = -1;
  // The following fields come from memory.json.
  int64_t arena_bytes = -1;
  int64_t high_water_bytes = -1;
  int64_t written_bytes = -1;
  int64_t constant_bytes = -1;
  int64_t predicted_bytes = -1;
  int64_t measured_bytes = -1;
  std::optional<GpuHeld> held = {};  // measured by GpuGauge; only set on a GPU
  bool ok() const { return measured_bytes > 0 && arena_bytes > 0 && predicted_bytes > 0; }
};

// Runs the program with these arguments and reads memory.json from its output folder, FOLDER/out. On a GPU the
// memory of the card is measured during the run.
MemoryTruth memory_of(const TestFolder& folder, const Words& words);

// Checks the following properties and reports failures through GoogleTest.
// - The arena has the planned size, and the run used it to the end of what the plan states for the programs
//   that ran. Nothing was written after that.
// - The last tensor was written to its end. The scratch memory after it may be unwritten at its end (oneDNN
//   requests scratch memory according to the shape of a product and does not write all of it).
// - The process never used more memory than predicted.
// - On a GPU the maximum measured by NVML equals the prediction within 1 % or 64 MiB. The memory that the run
//   reports at its end is this maximum, because the arena is allocated once, and outside of it only captured
//   CUDA graphs are freed.
void expect_truth(const MemoryTruth& truth);

// Formats the planned memory of a run on a GPU and the measured memory at its peak and at its end: "planned
// 642.1 MiB, held 611.3 at most, 611.3 at the end".
std::string describe_held(const MemoryTruth& truth);

}  // namespace plimsoll::testing
