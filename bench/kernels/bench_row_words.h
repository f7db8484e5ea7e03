// Parses the command line of kernel_rows_bench. Thread-safe: pure functions.
#pragma once

#include <string>
#include <vector>

namespace plimsoll {

struct BenchRowWords {
  int repetitions = 5;
  // Only kernel implementations whose name contains one of these texts are timed; if there are none, all are.
  std::vector<std::string> rows = {};
};

// Reads the words after the name of the program. Errors: kUsage for an unknown option, for an invalid number of
// repetitions, and for a word that is in no name of a kernel implementation.
BenchRowWords read_bench_row_words(const std::vector<std::string>& words);

}  // namespace plimsoll
