// Tests a GPU whose memory is used by another process, and a GPU that fails during a run. The error must name
// the cause, the saved files must be complete, and the run must be able to resume on another device. The last
// test makes CUDA unusable for this process.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "plimsoll/trainer.h"
#include "tests/training/gpu_trap.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

using testing::TestFolder;

Arguments gpu_arguments(const std::string& model, const std::string& output_dir) {
  Arguments arguments = testing::tiny_arguments(model, output_dir);
  arguments.device = "cuda:0";
  return arguments;
}

TEST(ALostGpu, BeforeTheRunItsMemoryIsTaken) {
  const TestFolder folder("gpu_memory_taken");
  const std::string model = testing::write_tiny_model(folder);
  Trainer trainer(gpu_arguments(model, folder.path("run")));
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
  void* taken = nullptr;
  const size_t left = size_t{96} << 20;
  ASSERT_EQ(cudaMalloc(&taken, free_bytes - left), cudaSuccess);
  try {
    trainer.start();
    ADD_FAILURE() << "it started";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kWillNotFit) << error.what();
    const std::string message = error.what();
    for (const char* part : {"will not fit now", "MiB needed", "are free on", "process "}) {
      EXPECT_NE(message.find(part), std::string::npos) << message;
    }
  }
  ASSERT_EQ(cudaFree(taken), cudaSuccess);
  // The failed start must leave the Trainer usable: after memory has become free, it can start.
  trainer.start();
  EXPECT_EQ(trainer.train().step, 12);
}

// A callback that makes the GPU fail after step 3.
class Trap : public Callback {
 public:
  void on_step_end(const StepInfo& info, TrainControl&) override {
    if (info.step == 3) testing::trap_gpu();
  }
};

TEST(ALostGpu, InTheMiddleOfARunWhatWasSavedGoesOnOnTheCpu) {
  const TestFolder folder("gpu_fails");
  const std::string model = testing::write_tiny_model(folder);
  Arguments arguments = gpu_arguments(model, folder.path("run"));
  {
    Trainer trainer(arguments);
    trainer.add_callback(std::make_shared<Trap>());
    try {
      trainer.train();
      ADD_FAILURE() << "it went on";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDevice) << error.what();
      const std::string message = error.what();
      for (const char* part : {"the GPU reports", "planned: ", "MiB are used on the card now",
                               " is complete: resume with --resume_from_checkpoint True"}) {
        EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
      }
    }
  }
  EXPECT_TRUE(std::filesystem::exists(folder.path("run") + "/checkpoint-2"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("run") + "/checkpoint-4"));
  arguments.device = "cpu";
  arguments.resume_from_checkpoint = "True";
  EXPECT_EQ(Trainer(arguments).train().step, 12);
}

}  // namespace
}  // namespace plimsoll
