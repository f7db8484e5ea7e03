// Tests a run of two ranks in which the GPU of one rank fails. That rank must report the error of its GPU, the
// other one must name the failed rank, and both must end with the error code kDevice. Each rank is a process
// that this one forks before it uses CUDA.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>

#include "plimsoll/free_port.h"
#include "plimsoll/trainer.h"
#include "tests/ranks/rank_processes.h"
#include "tests/training/gpu_trap.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll::testing {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A callback that makes the GPU of rank 1 fail after step 3, and writes the time of the failure to a file.
class TrapRank1 : public Callback {
 public:
  explicit TrapRank1(std::string path) : path_(std::move(path)) {}
  void on_step_end(const StepInfo& info, TrainControl&) override {
    if (info.step != 3) return;
    std::ofstream(path_) << now();
    trap_gpu();
  }

 private:
  std::string path_;
};

// Trains as one of two ranks and writes the result to a file: the error code, the time, and the message.
[[noreturn]] void train_as_rank(int rank, int port, Arguments arguments, const TestFolder& folder) {
  for (const std::string& variable : variables_of(rank, port)) {
    const size_t equals = variable.find('=');
    setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
  }
  int code = 0;
  std::string message;
  try {
    Trainer trainer(std::move(arguments));
    if (rank == 1) trainer.add_callback(std::make_shared<TrapRank1>(folder.path("trap")));
    trainer.train();
  } catch (const Error& error) {
    code = static_cast<int>(error.code());
    message = error.what();
  }
  std::ofstream(folder.path("end" + std::to_string(rank))) << code << ' ' << now() << ' ' << message;
  _exit(0);
}

struct RankEnding {
  int code = -1;
  double time = 0.0;
  std::string message = {};
};
RankEnding ending_of(const TestFolder& folder, int rank) {
  RankEnding ending;
  std::ifstream file(folder.path("end" + std::to_string(rank)));
  file >> ending.code >> ending.time;
  std::getline(file, ending.message, '\0');
  return ending;
}

TEST(ALostGpuOfARank, IsNamedByBothRanks) {
  const TestFolder folder("gpu_of_rank_fails");
  const std::string model = write_tiny_model(folder);
  Arguments arguments = tiny_arguments(model, folder.path("run"));
  arguments.device = "auto";
  const int port = free_port();
  pid_t ranks[2] = {};
  for (const int rank : {0, 1}) {
    ranks[rank] = fork();
    ASSERT_GE(ranks[rank], 0);
    if (ranks[rank] == 0) train_as_rank(rank, port, arguments, folder);
  }
  for (const pid_t rank : ranks) {
    int status = 0;
    ASSERT_EQ(waitpid(rank, &status, 0), rank);
    EXPECT_TRUE(WIFEXITED(status));
  }
  const RankEnding other = ending_of(folder, 0), failed = ending_of(folder, 1);
  EXPECT_EQ(failed.code, static_cast<int>(ErrorCode::kDevice)) << failed.message;
  EXPECT_NE(failed.message.find("the GPU reports"), std::string::npos) << failed.message;
  EXPECT_EQ(other.code, static_cast<int>(ErrorCode::kDevice)) << other.message;
  EXPECT_NE(other.message.find("rank 1"), std::string::npos) << other.message;
  for (const RankEnding& ending : {other, failed})
    EXPECT_NE(ending.message.find(" is complete: resume with --resume_from_checkpoint True"),
              std::string::npos)
        << ending.message;
  EXPECT_TRUE(std::filesystem::exists(folder.path("run") + "/checkpoint-2"));
  double trapped = 0.0;
  std::ifstream(folder.path("trap")) >> trapped;
  std::cout << "figure: the rank whose GPU failed ended after " << failed.time - trapped
            << " s, the other one after " << other.time - trapped << " s\n";
}

}  // namespace
}  // namespace plimsoll::testing
