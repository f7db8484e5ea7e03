// Reads the rank of this process, and the number of ranks, from the environment variables that launchers set: torchrun, Open MPI's mpirun
// and Slurm's srun, in this order. The first launcher whose variables describe a run is used. An empty variable counts as not set.
//
// torchrun: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE and MASTER_ADDR. `plimsoll train --nproc_per_node` sets the
// same variables. If WORLD_SIZE is 1, only RANK and WORLD_SIZE are needed.
//
// Open MPI: OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_RANK and OMPI_COMM_WORLD_LOCAL_SIZE. They describe a run if
// there is more than one process. The store, a server through which the ranks find one another, is at MASTER_ADDR, or at 127.0.0.1 if all
// ranks are on one host. Open MPI sets no host name, so a run on several hosts needs MASTER_ADDR.
//
// Slurm: SLURM_PROCID, SLURM_LOCALID, and the variables that state for the step, or else for the job, the number of tasks
// (SLURM_STEP_NUM_TASKS, SLURM_NTASKS), the tasks per node (SLURM_STEP_TASKS_PER_NODE, SLURM_TASKS_PER_NODE with SLURM_NODEID, or else
// SLURM_NTASKS_PER_NODE) and the nodes (SLURM_STEP_NODELIST, SLURM_JOB_NODELIST, SLURM_NODELIST). They describe a run if srun started more
// than one task. The shell of an allocation and a batch script also have such variables, but SLURM_STEP_ID is missing there or names a
// special step. The store is at MASTER_ADDR, or on the first node.
//
// The port of the store is MASTER_PORT. If TORCHELASTIC_USE_AGENT_STORE is True, torchrun itself uses this port, and the store of the ranks
// uses the next port (after 65535, port 65534). Without MASTER_PORT, the port is 29500, except under Slurm:
//   15000 + (SLURM_JOB_ID + 7919 * SLURM_STEP_ID) mod 15000.
// Two steps of one job on one host therefore use different ports unless their numbers differ by a multiple of 15000. Steps with the same
// number in two jobs use different ports unless the job numbers differ by a multiple of 15000. The result is below 32768, the first port
// that Linux assigns to outgoing connections.
//
// Thread-safe: pure functions.
#pragma once

#include <optional>

#include "base/rank_place.h"
#include "plimsoll/training.h"

namespace plimsoll {

// Returns the rank of this process and the number of ranks, or rank 0 of 1 if no launcher has started it as a rank. Errors: kUsage for a
// variable that is missing, not a number, or contradicts another one.
RankPlace rank_place(const Environment& environment);

// Checks that the number of ranks of the run is a multiple of the number of ranks on this machine, because every machine must have the
// same number. Errors: kUsage if it is not.
void require_equal_machines(const RankPlace& place);

// Returns the rank of this process and the number of ranks if a launcher started it as a rank, and nothing otherwise. For torchrun this
// includes runs with only one rank, unlike for Open MPI and Slurm. Errors: as rank_place().
std::optional<RankPlace> launched_rank_place(const Environment& environment);

}  // namespace plimsoll
