// Tests a loss that is infinite or NaN. The run must end before it changes a weight and must name the first
// value that is not finite. Earlier checkpoints must remain.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "plimsoll/trainer.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

using testing::read_file;
using testing::TestFolder;

// Returns the error of a run, or an empty string.
std::string failure_of(const Arguments& arguments) {
  try {
    Trainer(arguments).train();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFinite) << error.what();
    return error.what();
  }
  return {};
}

TEST(NotFinite, NamesTheFirstWeightThatIsNot) {
  const TestFolder folder("not_finite_weight");
  Arguments arguments = testing::tiny_arguments(testing::write_tiny_model(folder), folder.path("good"));
  arguments.max_steps = 1;
  Trainer trainer(arguments);
  trainer.train();
  trainer.save_model(folder.path("broken"));
  // The weight of the classifier is stored last in the file. Its bytes are set to NaN.
  std::string text = read_file(folder.path("broken") + "/model.safetensors");
  for (size_t i = text.size() - 64; i < text.size(); ++i) text[i] = '\xff';
  std::ofstream(folder.path("broken") + "/model.safetensors", std::ios::binary) << text;
  arguments.config_name.clear();
  arguments.model_name_or_path = folder.path("broken");
  arguments.output_dir = folder.path("run");
  const std::string message = failure_of(arguments);
  EXPECT_NE(message.find("step 1: the loss is nan"), std::string::npos) << message;
  EXPECT_NE(message.find("The first value that is not finite: the weight 'classifier.weight'"),
            std::string::npos)
      << message;
  EXPECT_FALSE(std::filesystem::exists(folder.path("run") + "/checkpoint-1"));
}

TEST(NotFinite, ARateThatExplodesLeavesWhatWasSaved) {
  const TestFolder folder("not_finite_rate");
  Arguments arguments = testing::tiny_arguments(testing::write_tiny_model(folder), folder.path("run"));
  arguments.learning_rate = 1e30;
  arguments.lr_scheduler_type = "constant";
  arguments.warmup_steps = 0;
  arguments.max_grad_norm = 0;
  const std::string message = failure_of(arguments);
  EXPECT_NE(message.find("the weights were not changed"), std::string::npos) << message;
  EXPECT_NE(message.find("irst "), std::string::npos) << message;
  // A run that fails must also write its plan, its log and its memory report.
  const auto text_of = [&](const char* file) { return read_file(folder.path("run") + file); };
  EXPECT_NE(text_of("/plan.json").find("\"total_bytes\""), std::string::npos);
  EXPECT_NE(text_of("/log.jsonl").find("\"loss\""), std::string::npos);
  const std::string held = text_of("/memory.json");
  EXPECT_NE(held.find("\"arena_high_water_bytes\""), std::string::npos) << held;
  EXPECT_EQ(held.find("\"arena_high_water_bytes\": 0,"), std::string::npos) << held;
  // The previous step was saved and can be loaded.
  ASSERT_TRUE(std::filesystem::exists(folder.path("run") + "/checkpoint-1"));
  arguments.resume_from_checkpoint = folder.path("run") + "/checkpoint-1";
  EXPECT_EQ(failure_of(arguments), message);
}

}  // namespace
}  // namespace plimsoll
