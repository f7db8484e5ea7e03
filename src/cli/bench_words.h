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
  std::string disk_folder = {};  // folder whose disk --disk measures
  LinkBenchOptions links_options;
  std::string output_dir = "experiments";
  std::string peer_python = "python3";
  std::string peer_script;  // path of the script that runs Hugging Face's Trainer; exists if `peer` is set
  std::vector<std::string> sweeps;
  std::vector<std::string> only;
  // The texts of --rerun: earlier results of each experiment whose name contains one of these texts are discarded.
  std::vector<std::string> rerun;
  int repeats = 0;                // smallest number of runs per row; read_bench_words() sets it
  std::vector<std::string> more;  // arguments of `train` that are added to every run
};

// Converts the parsed command line of `bench`. Errors: kUsage if the options select no measurement or several at once,
// or if a script does not exist.
BenchWords read_bench_words(const CommandWords& words);

// Returns those of the arguments that select the device (such as --device), with their values.
std::vector<std::string> device_arguments(const std::vector<std::string>& arguments);

// Returns the first experiment, with which the others are compared, and those whose name contains one of the texts.
// Without texts it returns all experiments. Errors: kUsage, with all names, for a text that no name contains.
std::vector<Experiment> only_experiments(const std::vector<Experiment>& all,
                                         const std::vector<std::string>& texts);

// Returns true if the name of the experiment contains at least one of the texts.
bool is_named(const Experiment& experiment, const std::vector<std::string>& texts);
// Checks that every text is contained in the name of an experiment. Errors: kUsage, with the option and all names, for a text
// that no name contains.
void require_names(const std::vector<Experiment>& all, const std::vector<std::string>& texts,
                   const std::string& option);

}  // namespace plimsoll::cli
