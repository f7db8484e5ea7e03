// Parses the command line of `plimsoll bench`. Not thread-safe: it accesses the
// file system.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/commands.h"
#include "plimsoll/experiments.h"
#include "plimsoll/links.h"

namespace plimsoll::cli {

struct BenchWords {
  bool experiments = false;
  bool parallel = false;
  bool calibrate = false;
  bool peer = false;
  bool links = false;
  bool json = false;
  std::string disk_folder = {};  // folder that --disk names
  LinkBenchOptions links_options;
  std::string output_dir = "experiments";
  std::string peer_python = "python3";
  std::string peer_script;  // an existing file, if `peer` is set
  std::vector<std::string> sweeps;
  std::vector<std::string> only;
  std::vector<std::string>
      rerun;                      // texts: kept results of rows whose name contains one of them are discarded
  int repeats = 0;                // runs per row, at least; 0 before read_bench_words() sets it
  std::vector<std::string> more;  // additional arguments of every run
};

// Takes the options of the command. Errors: kUsage for words that request nothing or two things at once, and for a
// script that does not exist.
BenchWords read_bench_words(const CommandWords& words);

// Returns the arguments that select the device, with their values.
std::vector<std::string> device_arguments(const std::vector<std::string>& arguments);

// Returns the first of the experiments and those whose name contains one of the texts, or all if there are no
// texts. Errors: kUsage, with all names, for a text that no name contains.
std::vector<Experiment> only_experiments(const std::vector<Experiment>& all,
                                         const std::vector<std::string>& texts);

// Returns true if the name of the experiment contains one of the texts.
bool is_named(const Experiment& experiment, const std::vector<std::string>& texts);
// Checks that every text is contained in the name of an experiment. Errors: kUsage, with the option and all names, for a text
// that no name contains.
void require_names(const std::vector<Experiment>& all, const std::vector<std::string>& texts,
                   const std::string& option);

}  // namespace plimsoll::cli
