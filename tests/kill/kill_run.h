// Runs a tiny training that is killed repeatedly, and compares it with the same training without kills.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::testing {

// Kills a run with SIGKILL `kills` times at random moments after its first save, and resumes from the newest
// checkpoint each time. Then lets it finish and compares it bit for bit with the uninterrupted run. `seed`
// and the number of the kill determine the moments. Reports through GoogleTest.
void expect_kills_change_nothing(const std::string& name, int kills, uint64_t seed);

// Returns arguments of `plimsoll train` with save_steps 1 on random ids, with dropout and random order.
std::vector<std::string> killed_run(const std::string& model, const std::string& output_dir,
                                    int64_t max_steps);

}  // namespace plimsoll::testing
