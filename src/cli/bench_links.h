// The part of `plimsoll bench` that measures exchanges between ranks. Not thread-safe: it starts processes.
#pragma once

#include <string>
#include <vector>

#include "cli/bench_words.h"

namespace plimsoll::cli {

// Runs `bench --links` and returns the exit code. Starts one process per rank with the same
// arguments; in the process of a rank, it measures the links. `words` are all words after `bench`.
// Errors: kUsage for fewer than two ranks; those of launch_ranks() and bench_links().
int run_bench_links(const BenchWords& read, const std::vector<std::string>& words);

}  // namespace plimsoll::cli
