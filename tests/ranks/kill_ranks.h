// Kills ranks of training runs again and again. A short and a long test use it.
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll::testing {

// Kills random ranks of runs with SIGKILL, at random moments and while they save, until `kills` of them have been killed, and lets
// `train --max_restarts` start them again. The runs differ in the number of ranks, in the ZeRO stage, and in whether they save in the
// background. Expects that each run ends with the bits of a run that nothing disturbs, that every checkpoint is undamaged, and that
// no temporary files remain.
void expect_rank_kills_change_nothing(const std::string& name, int kills, uint64_t seed);

}  // namespace plimsoll::testing
