// The words of `plimsoll bench`: what they ask for, its usage, and where the peer's script lies. Not
// thread-safe: it looks at the file system.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/experiments.h"

namespace plimsoll::cli {

extern const char* const kBenchUsage;

struct BenchWords {
  bool experiments = false;
  bool calibrate = false;
  bool peer = false;
  std::string output_dir = "experiments";
  std::string peer_python = "python3";
  std::string peer_script;  // where `peer`, a file that is there
  std::vector<std::string> sweeps;
  std::vector<std::string> only;
  std::vector<std::string> more;  // for every run
};

// Errors: kUsage for words that ask for nothing or for two things at once, and for a script that is nowhere.
BenchWords read_bench_words(const std::vector<std::string>& words);

// The first of the experiments and those whose name has one of the texts; all where there are none. Errors:
// kUsage, with the names, for a text that none has.
std::vector<Experiment> only_experiments(const std::vector<Experiment>& all,
                                         const std::vector<std::string>& texts);

}  // namespace plimsoll::cli
