// Checks before the first step that all ranks of a run do the same work on the same model, so that a difference is an error
// that names it instead of a hang or of weights that drift apart. One thread per rank calls the functions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "device/comm/communicator.h"
#include "exec/executor.h"
#include "run/run_setup.h"

namespace plimsoll {

// Something that must be equal on all ranks, as a hash.
struct RankFact {
  std::string_view name;    // "the training data"
  std::string_view remedy;  // what to do if it differs
  uint64_t hash = 0;
};

// Compares the facts of all ranks. Every rank passes the same names. Errors: kUsage on every rank, naming the first fact that
// differs, the first rank whose fact differs from that of rank 0, and both hashes; kDevice if a rank has failed.
void require_equal_facts(Communicator& communicator, std::span<const RankFact> facts);

// Returns the facts of a run: its settings, its training data, the collective operations of its plan in their order, and its
// kernels. Cost: milliseconds.
std::vector<RankFact> facts_of_run(const RunSetup& setup, const Plan& plan);
// Returns the fact of the weights, which the executor holds. Cost: reads all weights once.
RankFact fact_of_weights(Executor& executor);

}  // namespace plimsoll
