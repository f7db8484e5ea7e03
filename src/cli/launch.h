// Starts the processes (ranks) of one run on this host, and ends the run when one of them fails. The launcher knows nothing about training:
// the command of a rank is a parameter. Not thread-safe: it forks and blocks signals.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/arguments.h"
#include "plimsoll/training.h"

namespace plimsoll::cli {

using Variables = std::vector<std::pair<std::string, std::string>>;

// The settings that differ from the first start when all ranks are started again after a failure.
struct Restart {
  Variables variables;  // environment variables that are set in addition to those of every rank
  std::string origin;   // the source of the restart for a message: "resuming from out/checkpoint-10"
};

struct RankCommand {
  std::vector<std::string> words;  // the program and its arguments, the same for all ranks
  int num_ranks = 1;
  // The largest number of restarts after failures, and a function that returns the settings of a restart. This function is called when all
  // ranks have ended.
  int max_restarts = 0;
  std::function<Restart()> prepare_restart = {};
  // The time between SIGTERM and SIGKILL for the remaining ranks after one has failed, in which they may save a
  // checkpoint.
  std::chrono::milliseconds grace = std::chrono::seconds(10);
};

// Runs the ranks and returns the exit code of the run. Errors: kDevice if a process cannot be started.
//
// Each rank has torchrun's variables RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR (127.0.0.1)
// and MASTER_PORT (a port that was free at the start). Rank 0 has the standard streams of this process. The
// others have no standard input, their output is discarded, and the last 64 KiB of their standard error are
// printed if they cause a failure. All ranks are killed if this process ends for any reason.
//
// Failure. A rank fails if a signal ends it or if its exit code is neither 0 nor kInterrupted. The other ranks usually
// fail with kDevice a moment later, and the launcher may notice their failures first. The cause is therefore the first
// failure within a second that is not kDevice, or else the first failure of all. Ranks often find the same error, so
// rank 0, whose messages are visible, is the cause if it ends with the same exit code at the same time. The others
// receive SIGTERM, and SIGKILL after `grace`. The result is the exit code of the cause, or kDevice if a signal ended it.
//
// Signals. Each rank has its own process group, so that keys of the terminal reach only this process. A SIGINT, SIGTERM or SIGHUP to this
// process is forwarded to all ranks, to each of them once. Afterwards the result is the exit code of rank 0, or 128 + the signal if this
// signal ended it. Ctrl-Z stops the ranks together with this process.
//
// Stopped ranks. If ranks fail with kDevice while another rank is stopped (SIGSTOP), they have waited for the stopped rank. The launcher
// names the stopped rank as the cause and kills it.
//
// Restarts. If a signal ended the rank that is the cause, or this rank failed with kDevice, and no signal was forwarded to the ranks, all
// ranks are started again after all have ended, at most max_restarts times, with another port. Other failures would occur again, so the run
// is not restarted after them.
int launch_ranks(const RankCommand& command);

// Returns the number of ranks that `train` starts for these arguments, or 0 if this process itself
// trains or plans. `num_local_ranks` is the number of ranks that a launcher has started on this
// host, or nothing if no launcher has started this process. Errors: kUsage if --nproc_per_node
// contradicts the launcher, or if several ranks or restarted ranks would read standard input.
int num_ranks_to_start(const ParseResult& parsed, std::optional<int> num_local_ranks);

// Throws if the arguments request restarts although another launcher has started this rank: only that launcher can
// restart a run. Errors: kUsage, with the way in which that launcher restarts a run.
void require_no_restarts(const Arguments& arguments, Launcher launcher);

}  // namespace plimsoll::cli
