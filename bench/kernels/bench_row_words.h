// Parses the command line of kernel_rows_bench. Thread-safe: pure functions.
#pragma once

#include <string>
#include <vector>

namespace plimsoll {

struct BenchRowWords {
  int repetitions = 5;
  // parts of names: only implementations of kernels whose names contain one of them are timed; if empty, all
  std::vector<std::string> rows = {};
};

// Reads the words after the name of the program. Errors: kUsage for an unknown option, for an invalid number of
// repetitions, and for a word that no row of the kernel catalog contains.
BenchRowWords read_bench_row_words(const std::vector<std::string>& words);

}  // namespace plimsoll
