// Runs of several processes on small models, for the tests of this folder: their arguments, the variables of launchers, and the
// processes and checkpoints of a run that is under way. Free functions; they assert nothing.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/bad_input/binary.h"

namespace plimsoll::testing {

// Returns true if the tests run on GPUs: PLIMSOLL_TEST_DEVICE is set (CMakeLists.txt).
bool on_gpus();

struct Layout {
  int ranks = 1;
  int accumulation = 1;
};

// Returns the arguments of a run with these ranks on the data of tiny_words.h. The optimizer is SGD, because AdamW would amplify rounding
// differences of gradients near zero. On GPUs at most two ranks are used. Together they process the same batches in each step as the
// wanted ranks would.
std::vector<std::string> words_of(const std::string& model, const std::string& output_dir,
                                  const Layout& wanted, int steps, const std::vector<std::string>& more = {});

// Returns the variables that torchrun sets for a rank of a run on this host.
std::vector<std::string> variables_of(int rank, int port, int num_ranks = 2);

// Returns the processes of the ranks that the program has started, in the order of the ranks.
std::vector<pid_t> ranks_of(const Process& launcher);

// Each function waits until its condition holds or the process ends. wait_for(): the path exists.
// wait_for_step(): a checkpoint of this step or a later one exists. wait_for_save(): a temporary folder exists,
// in which a checkpoint is being written.
void wait_for(Process& process, const std::string& path);
void wait_for_step(Process& process, const std::string& run, int64_t step);
void wait_for_save(Process& process, const std::string& run);

// Returns the values of one key from all log records that have it.
std::vector<double> logged_values(const std::string& output_dir, const std::string& key);

// Returns the number of times that a text occurs in another.
int count_of(const std::string& text, const std::string& part);

}  // namespace plimsoll::testing
