// Checks before the first step that all ranks of a run do the same work on the same model. A difference is then reported as an error,
// instead of making ranks hang or their weights drift apart. Each rank calls the functions from one thread.
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

// A "fact" about a rank: a hash of something that must be equal on all ranks, such as the training data.
struct RankFact {
  std::string_view name;    // name of the fact in messages: "the training data"
  std::string_view remedy;  // advice for the user if the ranks differ
  uint64_t hash = 0;
  bool is_of_stage = false;  // if true, the hash must be equal only on the ranks of the same pipeline stage
};

// Returns a hash of the executable file of this process. Cost: it reads the file, 90 MB in 20 ms if the file is in the page cache.
// Errors: FileError.
uint64_t hash_of_program(FileSystem& files);

// Gathers one text per rank and returns them in the order of the ranks. Errors: kDevice if a rank has failed.
std::vector<std::string> gather_texts(Communicator& communicator, const std::string& own);

// Compares the facts of all ranks. Every rank passes facts with the same names. Errors: kUsage on every rank if a fact differs. The
// message names the fact, the first rank on which it differs from rank 0 (or from the first rank of its stage), and both hashes. kDevice
// if a rank has failed.
void require_equal_facts(Communicator& communicator, std::span<const RankFact> facts, const RankMesh& mesh);

// Compares the settings of all ranks, except those that may differ: where each process reads and writes files, and what it prints.
// Errors: kUsage on every rank, naming the first rank whose settings differ from those of rank 0, and the settings; kDevice if a rank has
// failed.
void require_equal_settings(Communicator& communicator, const Arguments& arguments);

// Returns hashes of what determines a run: its model, its data, the collective operations of its plan in their order, and its kernels.
// Cost: proportional to the data.
std::vector<RankFact> facts_of_run(const RunSetup& setup, const Plan& plan);
// Return the hash of the weights, or of the optimizer's states, in the executor's memory. Cost: reads all of them once.
RankFact fact_of_weights(Executor& executor, std::string_view remedy);
RankFact fact_of_states(Executor& executor, std::string_view remedy);

}  // namespace plimsoll
