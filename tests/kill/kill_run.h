// A tiny run that is killed again and again, and the same run left alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::testing {

// Kills a run with SIGKILL `kills` times at random moments after its first save, each time after going on
// from the newest checkpoint; then lets it end and compares it with the run that nobody killed, bit by bit.
// `seed` and the number of the kill decide the moments. Reports through GoogleTest.
void expect_kills_change_nothing(const std::string& name, int kills, uint64_t seed);

// Words of `plimsoll train`: save_steps 1 over random ids, dropout and random order included.
std::vector<std::string> killed_run(const std::string& model, const std::string& output_dir,
                                    int64_t max_steps);

}  // namespace plimsoll::testing
