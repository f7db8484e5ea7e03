// Reads the place of this process from the variables that launchers set for each process: torchrun, Open MPI's mpirun
// and Slurm's srun, in this order. The first launcher whose variables describe a run determines the place. An empty
// variable counts as not set.
//
// torchrun: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE and MASTER_ADDR. `plimsoll train --nproc_per_node` sets the
// same. If WORLD_SIZE is 1, only RANK and WORLD_SIZE are needed.
//
// Open MPI: OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_RANK and OMPI_COMM_WORLD_LOCAL_SIZE. They
// describe a run if there is more than one process. The store is at MASTER_ADDR, or at 127.0.0.1 if all ranks are on
// one host. Open MPI names no host, so a run of several hosts needs MASTER_ADDR.
//
// Slurm: SLURM_PROCID, SLURM_LOCALID, and of the step, or else of the job, the number of tasks (SLURM_STEP_NUM_TASKS,
// SLURM_NTASKS), the tasks per node (SLURM_STEP_TASKS_PER_NODE, SLURM_TASKS_PER_NODE with SLURM_NODEID, or else
// SLURM_NTASKS_PER_NODE) and the nodes (SLURM_STEP_NODELIST, SLURM_JOB_NODELIST, SLURM_NODELIST). They describe a run
// if srun started more than one task. The shell of an allocation and a batch script also have such variables, but
// SLURM_STEP_ID is missing there or names a special step. The store is at MASTER_ADDR, or on the first node.
//
// The port of the store is MASTER_PORT. If TORCHELASTIC_USE_AGENT_STORE is True, torchrun serves a store of its own there, and the next
// port is used. Without MASTER_PORT, the port is 29500, except under Slurm:
//   15000 + (SLURM_JOB_ID + 7919 * SLURM_STEP_ID) mod 15000.
// Two jobs on one host therefore use different ports unless their numbers differ by a multiple of 15000, and so do two
// steps of one job. The result is below 32768, where Linux starts to give out ports to clients.
//
// Thread-safe: pure functions.
#pragma once

#include <optional>

#include "base/rank_place.h"
#include "plimsoll/training.h"

namespace plimsoll {

// Returns the place of this process, or rank 0 of 1 if no launcher has started it as a rank. Errors: kUsage for a
// variable that is missing, not a number, or contradicts another one.
RankPlace rank_place(const Environment& environment);

// Checks that the number of ranks of the run is a multiple of the number of ranks on this machine, so that every machine can have
// the same number. Errors: kUsage if it is not.
void require_equal_machines(const RankPlace& place);

// Returns the place of this process if a launcher started it as a rank, and nothing otherwise. Unlike the variables of Open MPI
// and Slurm, those of torchrun also count if the run has only one rank. Errors: as rank_place().
std::optional<RankPlace> launched_rank_place(const Environment& environment);

}  // namespace plimsoll
