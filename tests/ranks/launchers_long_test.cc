// Tests runs whose processes are started by other launchers: Open MPI's mpirun, PyTorch's torchrun, and Slurm's
// srun and sbatch in a cluster that consists of this machine (slurm_node.sh). The weights must have the same
// bits as those of a run that starts its ranks itself. `scripts/setup.sh launchers` installs all launchers
// except torchrun; tests of missing launchers are skipped.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/bad_input/binary.h"
#include "tests/support/places.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll::testing {
namespace {

std::string quoted(const std::string& word) {
  return "'" + word + "'";
}

// Returns true if the shell finds these programs.
bool has_programs(const std::string& names) {
  return std::system(("for name in " + names + "; do command -v $name >/dev/null || exit 1; done").c_str()) ==
         0;
}

struct ShellResult {
  int exit_code = -1;
  std::string output = {};
};

// Runs a shell command with a time limit.
ShellResult run_shell(const TestFolder& folder, const std::string& command) {
  const std::string log = folder.path("shell.log");
  const int status =
      std::system(("timeout 300 sh -c " + quoted(command) + " > " + log + " 2>&1 < /dev/null").c_str());
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1, .output = read_file(log)};
}

class Launchers : public ::testing::Test {
 protected:
  // Returns the command line of a run of two ranks. It contains no quotes, so that a script or another command
  // can contain it.
  std::string command(const std::string& run, const std::string& more = "") const {
    return place("PLIMSOLL_PROGRAM", PLIMSOLL_BINARY_DIR "/plimsoll") + " train --use_cpu --config_name " +
           model_ +
           " --dataset_name dummy --dummy_num_samples 22 --dummy_seq_length 12 --per_device_train_batch_size "
           "3 --optim "
           "adamw_torch --learning_rate 0.05 --num_threads 1 --max_steps 6 --save_strategy no --output_dir " +
           folder_.path(run) + " " + more;
  }
  std::string model_of(const std::string& run) const {
    return read_file(folder_.path(run) + "/model.safetensors");
  }
  void run_own() const {
    const ShellResult own = run_shell(folder_, command("own", "--nproc_per_node 2"));
    ASSERT_EQ(own.exit_code, 0) << own.output;
  }
  // Returns the command that runs `text` in a Slurm cluster of four processors on this machine.
  std::string in_cluster(const std::string& text) const {
    return PLIMSOLL_SOURCE_DIR "/tests/ranks/slurm_node.sh " + folder_.path("slurm") + " 4 " + text;
  }

  const TestFolder folder_{"launchers"};
  const std::string model_ = write_tiny_model(folder_);
};

class OpenMpi : public Launchers {
 protected:
  void SetUp() override {
    if (!has_programs("mpirun")) GTEST_SKIP() << "mpirun is missing: scripts/setup.sh launchers";
  }
  static std::string mpirun(int num_ranks) {
    return "mpirun --allow-run-as-root --oversubscribe -np " + std::to_string(num_ranks) + " ";
  }
};

// Debian has no package of PyTorch's torchrun, so these tests run only if python3 finds the module
// torch.distributed.run.
class Torchrun : public Launchers {
 protected:
  void SetUp() override {
    if (std::system("python3 -c \"import torch.distributed.run\" 2>/dev/null") != 0)
      GTEST_SKIP() << "python3 has no PyTorch: pip install torch";
  }
};

class Slurm : public Launchers {
 protected:
  void SetUp() override {
    if (!has_programs("slurmctld slurmd srun sbatch munged python3"))
      GTEST_SKIP() << "slurmctld, slurmd, srun, munged or python3 is missing: scripts/setup.sh launchers";
    if (geteuid() != 0) GTEST_SKIP() << "slurmd needs root";
  }
};

TEST_F(OpenMpi, TrainsWithTheSameBits) {
  run_own();
  const ShellResult result = run_shell(folder_, mpirun(2) + command("mpi"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find("rank 0 of 2"), std::string::npos) << result.output;
  EXPECT_TRUE(model_of("mpi") == model_of("own")) << result.output;
}

// If one rank ends with an error, mpirun ends the other ranks and reports that.
TEST_F(OpenMpi, AnErrorEndsTheRunOnce) {
  const ShellResult result = run_shell(folder_, mpirun(2) + command("mpi", "--train_file /nonexistent.csv"));
  EXPECT_NE(result.exit_code, 0) << result.output;
  const ShellResult restarts = run_shell(folder_, mpirun(2) + command("mpi", "--max_restarts 2"));
  EXPECT_EQ(restarts.exit_code, 2) << restarts.output;
  EXPECT_NE(restarts.output.find("--max_restarts 2: mpirun has started this process"), std::string::npos)
      << restarts.output;
}

// A single process that mpirun starts does not count as a rank: it starts the ranks itself.
TEST_F(OpenMpi, OneProcessStartsRanks) {
  run_own();
  const ShellResult result = run_shell(folder_, mpirun(1) + command("mpi", "--nproc_per_node 2"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_TRUE(model_of("mpi") == model_of("own")) << result.output;
}

// torchrun occupies the port MASTER_PORT with its own store. A run that it starts must still give the same
// bits.
TEST_F(Torchrun, TrainsWithTheSameBits) {
  run_own();
  const ShellResult result = run_shell(
      folder_, "python3 -m torch.distributed.run --nproc_per_node 2 --no_python " + command("torchrun"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find("rank 0 of 2"), std::string::npos) << result.output;
  EXPECT_TRUE(model_of("torchrun") == model_of("own")) << result.output;
}

TEST_F(Slurm, SrunTrainsWithTheSameBits) {
  run_own();
  const ShellResult result = run_shell(folder_, in_cluster("srun -n 2 " + command("srun")));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find("rank 0 of 2"), std::string::npos) << result.output;
  EXPECT_TRUE(model_of("srun") == model_of("own")) << result.output;
}

// A Slurm job trains three times: in a step, in a second step of the same job, and by a command of the batch
// script that starts its ranks without srun. All runs must have the same bits.
TEST_F(Slurm, BatchScriptsTrainWithTheSameBits) {
  run_own();
  std::filesystem::create_directories(folder_.path("scripts"));
  const std::string script = folder_.path("scripts/job.sh");
  std::ofstream(script) << "#!/bin/sh\nset -e\nsrun " << command("step0") << "\nsrun " << command("step1")
                        << "\n"
                        << command("batch", "--nproc_per_node 2") << "\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const std::string log = folder_.path("job.log");
  const ShellResult result = run_shell(folder_, in_cluster("sbatch --wait -n 2 -o " + log + " " + script));
  ASSERT_EQ(result.exit_code, 0) << result.output << read_file(log);
  for (const char* run : {"step0", "step1", "batch"})
    EXPECT_TRUE(model_of(run) == model_of("own")) << run << read_file(log);
}

// Writes a shell script that starts a Slurm step of two ranks, which trains without end, and runs the command `then` when the log
// has its first record.
std::string script_of_step(const TestFolder& folder, const std::string& train, const std::string& run,
                           const std::string& then) {
  const std::string script = folder.path("script.sh");
  std::ofstream(script) << "#!/bin/sh\nsrun -n 2 " << train << " &\nuntil grep -qs . " << run
                        << "/log.jsonl; do sleep 0.2; done\n"
                        << then << "\nwait $!\n";
  return script;
}

// Slurm sends SIGTERM to all tasks of a step. The run saves once and ends.
TEST_F(Slurm, ScancelEndsTheRunWithACheckpoint) {
  const std::string train =
      command("endless", "--max_steps 100000 --logging_steps 1 --save_strategy steps --save_steps 100000");
  const std::string script =
      script_of_step(folder_, train, folder_.path("endless"), "scancel --signal=TERM 1");
  const ShellResult result = run_shell(folder_, in_cluster("sh " + script));
  EXPECT_EQ(result.exit_code, 6) << result.output;
  EXPECT_NE(result.output.find("interrupted at step "), std::string::npos) << result.output;
}

TEST_F(Slurm, AKilledTaskEndsTheOthers) {
  const std::string train = command("endless", "--max_steps 100000 --logging_steps 1");
  // Finds the second task by its environment, in which SLURM_PROCID is 1.
  const std::string kill_task = "for task in $(pgrep -f output_dir." + folder_.path("endless") +
                                "); do grep -qs SLURM_PROCID=1 /proc/$task/environ && kill "
                                "-9 "
                                "$task; done";
  const std::string script = script_of_step(folder_, train, folder_.path("endless"), kill_task);
  const ShellResult result = run_shell(folder_, in_cluster("sh " + script));
  EXPECT_NE(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find("the process of rank 1 of 2 ended"), std::string::npos) << result.output;
}

}  // namespace
}  // namespace plimsoll::testing
