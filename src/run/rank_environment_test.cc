#include "run/rank_environment.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plimsoll {
namespace {

// Returns the environment variables with those of `changes` set instead; an empty value removes a variable.
Environment changed(Environment variables, const Environment& changes) {
  for (const auto& [name, value] : changes) {
    if (value.empty()) {
      variables.erase(name);
    } else {
      variables[name] = value;
    }
  }
  return variables;
}

// Variables of rank 5 of a run on two hosts with four ranks each.
const Environment kTorchrun = {{"RANK", "5"},          {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "1"},    {"LOCAL_WORLD_SIZE", "4"},
                               {"MASTER_ADDR", "ann"}, {"MASTER_PORT", "1234"}};
const Environment kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "2"},
                              {"OMPI_COMM_WORLD_SIZE", "4"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
// Variables of the only task on the last of four nodes.
const Environment kSlurm = {{"SLURM_JOB_ID", "1007"},
                            {"SLURM_STEP_ID", "0"},
                            {"SLURM_PROCID", "6"},
                            {"SLURM_NTASKS", "7"},
                            {"SLURM_LOCALID", "0"},
                            {"SLURM_NODEID", "3"},
                            {"SLURM_TASKS_PER_NODE", "2(x3),1"},
                            {"SLURM_JOB_NODELIST", "node[1-3,07]"}};

RankPlace place(int rank, int size, int local_rank, int local_size, std::string host, uint16_t port) {
  return {.rank = rank,
          .size = size,
          .local_rank = local_rank,
          .local_size = local_size,
          .store_host = std::move(host),
          .store_port = port};
}

TEST(RankEnvironment, ReadsTheVariablesOfEachLauncher) {
  const struct {
    const char* description;
    Environment environment;
    RankPlace expected;
  } cases[] = {
      {"torchrun", kTorchrun, place(5, 8, 1, 4, "ann", 1234)},
      {"the default port", changed(kTorchrun, {{"MASTER_PORT", ""}}), place(5, 8, 1, 4, "ann", 29500)},
      {"torchrun, which serves a store", changed(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}}),
       place(5, 8, 1, 4, "ann", 1235)},
      {"torchrun, which serves a store at the last port",
       changed(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"MASTER_PORT", "65535"}}),
       place(5, 8, 1, 4, "ann", 65534)},
      {"torchrun, which leaves the port to rank 0",
       changed(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}}), place(5, 8, 1, 4, "ann", 1234)},
      {"torchrun within a job of Slurm and of Open MPI", changed(changed(kTorchrun, kSlurm), kOpenMpi),
       place(5, 8, 1, 4, "ann", 1234)},
      {"torchrun with one rank", {{"RANK", "0"}, {"WORLD_SIZE", "1"}}, RankPlace{}},
      {"Open MPI", kOpenMpi, place(2, 4, 2, 4, "127.0.0.1", 29500)},
      {"Open MPI within a job of Slurm", changed(kSlurm, kOpenMpi), place(2, 4, 2, 4, "127.0.0.1", 29500)},
      {"Open MPI on two hosts",
       changed(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                          {"MASTER_ADDR", "ann"},
                          {"MASTER_PORT", "99"}}),
       place(2, 4, 0, 2, "ann", 99)},
      {"Slurm", kSlurm, place(6, 7, 0, 1, "node1", 16007)},
      {"Slurm with exported variables of torchrun",
       changed(kSlurm, {{"WORLD_SIZE", "7"}, {"MASTER_ADDR", "ann"}, {"MASTER_PORT", "99"}}),
       place(6, 7, 0, 1, "ann", 99)},
      {"the second step of a job", changed(kSlurm, {{"SLURM_STEP_ID", "1"}}),
       place(6, 7, 0, 1, "node1", 15000 + 1007 + 7919)},
      {"a job of a federation, whose number has 32 bits", changed(kSlurm, {{"SLURM_JOB_ID", "4294967295"}}),
       place(6, 7, 0, 1, "node1", 15000 + 4294967295 % 15000)},
      {"a step on a part of the nodes of its job",
       changed(kSlurm, {{"SLURM_STEP_NUM_TASKS", "2"},
                        {"SLURM_PROCID", "1"},
                        {"SLURM_LOCALID", "1"},
                        {"SLURM_NODEID", "0"},
                        {"SLURM_STEP_TASKS_PER_NODE", "2"},
                        {"SLURM_STEP_NODELIST", "other"}}),
       place(1, 2, 1, 2, "other", 16007)},
      {"only SLURM_NTASKS_PER_NODE",
       changed(kSlurm,
               {{"SLURM_TASKS_PER_NODE", ""}, {"SLURM_NTASKS_PER_NODE", "2"}, {"SLURM_LOCALID", "1"}}),
       place(6, 7, 1, 2, "node1", 16007)},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(launched_rank_place(c.environment), c.expected) << c.description;
    EXPECT_EQ(rank_place(c.environment), c.expected) << c.description;
    EXPECT_EQ(num_local_ranks(c.environment), c.expected.local_size) << c.description;
  }
}

TEST(RankEnvironment, TheLauncherIsTheFirstWhoseVariablesDescribeARun) {
  EXPECT_EQ(launcher_of({}), Launcher::kNone);
  EXPECT_EQ(launcher_of(changed(kSlurm, {{"SLURM_NTASKS", "1"}})), Launcher::kNone);
  EXPECT_EQ(launcher_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), Launcher::kTorchrun);
  EXPECT_EQ(launcher_of(changed(kSlurm, kTorchrun)), Launcher::kTorchrun);
  EXPECT_EQ(launcher_of(changed(kSlurm, kOpenMpi)), Launcher::kOpenMpi);
  EXPECT_EQ(launcher_of(kSlurm), Launcher::kSlurm);
}

// A plan assumes the same number of ranks on every machine, so other combinations must be refused.
TEST(RankEnvironment, MachinesWithDifferentNumbersOfRanksAreRefused) {
  EXPECT_NO_THROW(require_equal_machines({}));
  EXPECT_NO_THROW(require_equal_machines({.size = 6, .local_size = 2}));
  try {
    require_equal_machines({.size = 3, .local_size = 2});
    ADD_FAILURE() << "3 ranks on machines with 2 ranks were accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_STREQ(
        error.what(),
        "the environment describes 3 ranks of which 2 run on this machine, but every machine of a run "
        "has the same number of ranks, and 3 is no multiple of 2: start the same number of processes "
        "on every machine");
  }
}

TEST(RankEnvironment, OtherProcessesAreNoRanks) {
  const struct {
    const char* description;
    Environment environment;
  } cases[] = {
      {"no variables", {}},
      {"empty variables", {{"RANK", ""}, {"WORLD_SIZE", ""}}},
      {"variables that a shell exports", {{"MASTER_ADDR", "ann"}, {"MASTER_PORT", "1"}, {"WORLD_SIZE", "1"}}},
      {"mpirun with one process", changed(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "1"}})},
      {"srun with one task", changed(kSlurm, {{"SLURM_NTASKS", "1"}})},
      {"a step with one task in a job of seven", changed(kSlurm, {{"SLURM_STEP_NUM_TASKS", "1"}})},
      {"the shell of salloc", changed(kSlurm, {{"SLURM_STEP_ID", ""}, {"SLURM_PROCID", ""}})},
      {"a batch script", changed(kSlurm, {{"SLURM_STEP_ID", ""}, {"SLURM_PROCID", "0"}})},
      {"a batch script with the number of its step", changed(kSlurm, {{"SLURM_STEP_ID", "4294967291"}})},
      {"an interactive step", changed(kSlurm, {{"SLURM_STEP_ID", "4294967290"}})},
      {"a special step as a negative number", changed(kSlurm, {{"SLURM_STEP_ID", "-5"}})},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(launched_rank_place(c.environment), std::nullopt) << c.description;
    EXPECT_EQ(rank_place(c.environment), RankPlace{}) << c.description;
    EXPECT_EQ(num_local_ranks(c.environment), std::nullopt) << c.description;
  }
}

TEST(RankEnvironment, TheFirstHostAndTheTasksOfANodeComeFromLists) {
  const struct {
    const char* nodes;
    const char* expected;
  } hosts[] = {
      {"other", "other"},           {"other,node[1-3]", "other"}, {"node[1-3,07],other", "node1"},
      {"node[007-100]", "node007"}, {"node[9]", "node9"},         {"rack[2-3]n[04,07]-x", "rack2n04-x"},
  };
  for (const auto& c : hosts) {
    EXPECT_EQ(rank_place(changed(kSlurm, {{"SLURM_JOB_NODELIST", c.nodes}})).store_host, c.expected)
        << c.nodes;
  }
  const struct {
    const char* tasks;
    const char* node;
    int expected;
  } counts[] = {
      {"2(x3),1", "0", 2}, {"2(x3),1", "2", 2}, {"2(x3),1", "3", 1}, {"1,3(x2),2", "2", 3}, {"4", "0", 4},
  };
  for (const auto& c : counts) {
    const Environment environment =
        changed(kSlurm, {{"SLURM_TASKS_PER_NODE", c.tasks}, {"SLURM_NODEID", c.node}});
    EXPECT_EQ(rank_place(environment).local_size, c.expected) << c.tasks << " of node " << c.node;
  }
}

TEST(RankEnvironment, RefusesWhatContradictsItself) {
  const std::string torchrun =
      "; start every rank with torchrun or with plimsoll train --nproc_per_node, or unset RANK and "
      "WORLD_SIZE";
  const std::string mpirun = "; start every rank with mpirun";
  const std::string srun = "; start every rank with srun";
  const std::string tasks_of_nodes =
      ": expected the number of tasks of each node, such as 2(x3),1, with one for ";
  const struct {
    Environment environment;
    std::string message;
  } cases[] = {
      {changed(kTorchrun, {{"RANK", "8"}}), "RANK=8: WORLD_SIZE=8 has only the ranks 0 to 7" + torchrun},
      {changed(kTorchrun, {{"RANK", "-1"}}), "RANK=-1: expected a whole number, 0 or more" + torchrun},
      {changed(kTorchrun, {{"RANK", "1x"}}), "RANK=1x: expected a whole number, 0 or more" + torchrun},
      {changed(kTorchrun, {{"WORLD_SIZE", "0"}}),
       "WORLD_SIZE=0: expected a whole number, 1 or more" + torchrun},
      {changed(kTorchrun, {{"WORLD_SIZE", "99999999999999999999"}}),
       "WORLD_SIZE=99999999999999999999: expected a whole number, 1 or more" + torchrun},
      {changed(kTorchrun, {{"WORLD_SIZE", ""}}), "WORLD_SIZE is not set, but RANK=5 is" + torchrun},
      {changed(kTorchrun, {{"LOCAL_RANK", ""}}), "LOCAL_RANK is not set, but WORLD_SIZE=8 is" + torchrun},
      {changed(kTorchrun, {{"LOCAL_RANK", "4"}}),
       "LOCAL_RANK=4: LOCAL_WORLD_SIZE=4 has only the ranks 0 to 3" + torchrun},
      {changed(kTorchrun, {{"LOCAL_WORLD_SIZE", ""}}),
       "LOCAL_WORLD_SIZE is not set, but WORLD_SIZE=8 is" + torchrun},
      {changed(kTorchrun, {{"LOCAL_WORLD_SIZE", "9"}}),
       "LOCAL_WORLD_SIZE=9: this is the number of ranks on this host, which cannot be more than "
       "WORLD_SIZE=8, the number of ranks of the run" +
           torchrun},
      {changed(kTorchrun, {{"MASTER_ADDR", ""}}), "MASTER_ADDR is not set, but WORLD_SIZE=8 is" + torchrun},
      {changed(kTorchrun, {{"MASTER_PORT", "65536"}}),
       "MASTER_PORT=65536: expected a whole number, from 1 to 65535" + torchrun},
      {{{"WORLD_SIZE", "2"}},
       "RANK is not set, but WORLD_SIZE=2 is; start every rank with torchrun, or unset WORLD_SIZE"},
      {changed(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "4"}}),
       "OMPI_COMM_WORLD_RANK=4: OMPI_COMM_WORLD_SIZE=4 has only the ranks 0 to 3" + mpirun},
      {changed(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_RANK", ""}}),
       "OMPI_COMM_WORLD_LOCAL_RANK is not set, but OMPI_COMM_WORLD_SIZE=4 is" + mpirun},
      {changed(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}}),
       "MASTER_ADDR is not set, but OMPI_COMM_WORLD_SIZE=4 and OMPI_COMM_WORLD_LOCAL_SIZE=3 mean several "
       "hosts; give "
       "the host of rank 0: mpirun -x MASTER_ADDR=HOST"},
      {changed(kSlurm, {{"SLURM_PROCID", "7"}}),
       "SLURM_PROCID=7: SLURM_NTASKS=7 has only the ranks 0 to 6" + srun},
      {changed(kSlurm, {{"SLURM_STEP_ID", "batch"}}), "SLURM_STEP_ID=batch: expected a whole number" + srun},
      {changed(kSlurm, {{"SLURM_JOB_ID", "x"}}), "SLURM_JOB_ID=x: expected a whole number" + srun},
      {changed(kSlurm, {{"SLURM_LOCALID", "1"}}),
       "SLURM_LOCALID=1: SLURM_TASKS_PER_NODE=2(x3),1 has only the ranks 0 to 0" + srun},
      {changed(kSlurm, {{"SLURM_NODEID", "4"}}),
       "SLURM_TASKS_PER_NODE=2(x3),1" + tasks_of_nodes + "SLURM_NODEID=4" + srun},
      {changed(kSlurm, {{"SLURM_TASKS_PER_NODE", "2(x3"}}),
       "SLURM_TASKS_PER_NODE=2(x3" + tasks_of_nodes + "SLURM_NODEID=3" + srun},
      {changed(kSlurm, {{"SLURM_TASKS_PER_NODE", "2(x)"}}),
       "SLURM_TASKS_PER_NODE=2(x)" + tasks_of_nodes + "SLURM_NODEID=3" + srun},
      {changed(kSlurm, {{"SLURM_TASKS_PER_NODE", ""}}),
       "SLURM_STEP_TASKS_PER_NODE is not set, but SLURM_NTASKS=7 is" + srun},
      {changed(kSlurm, {{"SLURM_JOB_NODELIST", "node[1-3"}}),
       "SLURM_JOB_NODELIST=node[1-3: expected a list of nodes such as node[1-3,07],other, or else "
       "MASTER_ADDR" +
           srun},
      {changed(kSlurm, {{"SLURM_JOB_NODELIST", "node[]"}}),
       "SLURM_JOB_NODELIST=node[]: expected a list of nodes such as node[1-3,07],other, or else MASTER_ADDR" +
           srun},
      {changed(kSlurm, {{"SLURM_JOB_NODELIST", ""}}),
       "SLURM_STEP_NODELIST is not set, but SLURM_NTASKS=7 is" + srun},
  };
  for (const auto& c : cases) {
    try {
      const RankPlace read = rank_place(c.environment);
      ADD_FAILURE() << "expected: " << c.message << ", but read rank " << read.rank << " of " << read.size;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      EXPECT_EQ(std::string(error.what()), c.message);
    }
  }
}

}  // namespace
}  // namespace plimsoll
