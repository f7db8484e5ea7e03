// Tests that a failed start leaves no partial state: the next call starts from the beginning, fails with the
// same message as long as the fault exists, and succeeds after it was corrected.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "plimsoll/trainer.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using testing::read_file;
using testing::refusal;
using testing::TestFolder;
using testing::write_tiny_base;

Arguments evaluating(const TestFolder& folder, const std::string& model) {
  Arguments arguments = testing::tiny_arguments("", folder.path("evaluated"));
  arguments.model_name_or_path = model;
  return arguments;
}

TEST(Start, AnAdapterThatDoesNotFitIsRefusedEachTime) {
  const TestFolder folder("start_adapter");
  const std::string base = write_tiny_base(folder);
  Arguments arguments = evaluating(folder, base);
  arguments.lora_r = 2;
  arguments.save_strategy = "no";
  Trainer adapted(arguments);
  adapted.save_model(folder.path("adapter"));
  // Damages the adapter: one of its tensors gets another name of the same length.
  const std::string file = folder.path("adapter") + "/adapter_model.safetensors";
  std::string text = read_file(file);
  const size_t at = text.find("lora_B");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 6, "lora_X");
  std::ofstream(file, std::ios::binary) << text;

  arguments = evaluating(folder, base);
  arguments.adapter_name_or_path = folder.path("adapter");
  Trainer trainer(arguments, Task::kEvaluate);
  const std::string message = refusal([&] { trainer.evaluate(); }, ErrorCode::kBadData);
  EXPECT_NE(message.find("lora_B"), std::string::npos) << message;
  EXPECT_EQ(trainer.memory().arena_high_water_bytes, 0);
  EXPECT_EQ(refusal([&] { trainer.evaluate(); }, ErrorCode::kBadData), message);
  EXPECT_EQ(refusal([&] { trainer.start(); }, ErrorCode::kBadData), message);
  EXPECT_EQ(refusal([&] { trainer.save_model(folder.path("saved")); }, ErrorCode::kBadData), message);
  EXPECT_FALSE(fs::exists(folder.path("saved")));
}

// The weight file is truncated after its header, between the construction of the Trainer and start(). After the
// file is whole again, the same Trainer must be able to start.
TEST(Start, WeightsThatCannotBeReadAreReadOnceTheyAreWhole) {
  const TestFolder folder("start_weights");
  const std::string base = write_tiny_base(folder);
  const std::string file = base + "/model.safetensors";
  const std::string whole = read_file(file);
  const double expected = Trainer(evaluating(folder, base), Task::kEvaluate).evaluate().at("eval_loss");
  for (const Task task : {Task::kEvaluate, Task::kTrain}) {
    SCOPED_TRACE(task == Task::kTrain ? "train" : "evaluate");
    Arguments arguments = evaluating(folder, base);
    arguments.do_eval = true;
    arguments.save_strategy = "no";
    Trainer trainer(arguments, task);
    fs::resize_file(file, whole.size() - 100);
    const auto first_call = [&] { task == Task::kTrain ? trainer.train().metrics : trainer.evaluate(); };
    const std::string message = refusal(first_call, ErrorCode::kBadData);
    EXPECT_NE(message.find("model.safetensors"), std::string::npos) << message;
    EXPECT_EQ(refusal([&] { trainer.evaluate(); }, ErrorCode::kBadData), message);
    EXPECT_EQ(refusal([&] { trainer.start(); }, ErrorCode::kBadData), message);
    // The Trainer keeps the file open, so it reads the restored content.
    std::ofstream(file, std::ios::binary) << whole;
    EXPECT_EQ(trainer.evaluate().at("eval_loss"), expected);
  }
}

}  // namespace
}  // namespace plimsoll
