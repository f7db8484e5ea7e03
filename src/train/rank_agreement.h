// Checks before the first step that all ranks of a run do the same work on the same model, so that a difference is an error
// that names it instead of a hang or of weights that drift apart. One thread per rank calls the functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/rank_mesh.h"
#include "device/comm/communicator.h"
#include "exec/executor.h"
#include "run/run_setup.h"

namespace plimsoll {

// A hash of something that must be equal on all ranks.
struct RankFact {
  std::string_view name;    // in messages: "the training data"
  std::string_view remedy;  // what to do if it differs
  uint64_t hash = 0;
  bool is_of_stage = false;  // equal only on the ranks of one stage of a pipeline
};

// Returns a hash of the program that this process runs. Cost: reads its file, 90 MB in 20 ms if the system has it in memory.
// Errors: FileError.
uint64_t hash_of_program(FileSystem& files);

// Returns the texts of all ranks, in the order of the ranks. Errors: kDevice if a rank has failed.
std::vector<std::string> gather_texts(Communicator& communicator, const std::string& own);

// Compares the facts of all ranks. Every rank passes the same names. Errors: kUsage on every rank, naming the first fact that
// differs, the first rank whose fact differs from that of rank 0, or of the first rank of its stage, and both hashes; kDevice if a
// rank has failed.
void require_equal_facts(Communicator& communicator, std::span<const RankFact> facts, const RankMesh& mesh);

// Compares the settings of all ranks, apart from those that may differ: where each process reads and writes files, and what
// it prints. Errors: kUsage on every rank, naming the first rank with other settings than rank 0, and those settings; kDevice
// if a rank has failed.
void require_equal_settings(Communicator& communicator, const Arguments& arguments);

// Returns the facts of a run: its model, its data, the collective operations of its plan in their order, and its kernels. Cost:
// proportional to the data.
std::vector<RankFact> facts_of_run(const RunSetup& setup, const Plan& plan);
// Return the fact of the weights, or of the optimizer's states, which the executor holds. Cost: reads all of them once.
RankFact fact_of_weights(Executor& executor, std::string_view remedy);
RankFact fact_of_states(Executor& executor, std::string_view remedy);

}  // namespace plimsoll
