// Builds and runs every program of examples/ as its first lines say, except own_loop, which tests/training/own_loop_test.cc
// compares with the Trainer.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "plimsoll/trainer.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

struct ProgramRun {
  int exit_code = -1;
  std::string output;
  double number_after(const std::string& words) const {
    const size_t at = output.find(words);
    return at == std::string::npos ? -1.0 : std::atof(output.c_str() + at + words.size());
  }
};

ProgramRun run(const std::string& example, const std::string& words) {
  const std::string command =
      std::string(PLIMSOLL_BINARY_DIR) + "/examples/" + example + " " + words + " 2>&1";
  ProgramRun run;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return run;
  char buffer[512];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) run.output += buffer;
  const int status = pclose(pipe);
  run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return run;
}

TEST(Examples, PredictTextPrintsAClassPerText) {
  const testing::TestFolder folder("predict_text");
  Arguments arguments;
  arguments.config_name = arguments.tokenizer_name = testing::write_tiny_model(folder, 0.0);
  arguments.train_file = testing::write_uneven_rows(folder, 23);
  arguments.output_dir = folder.path("out");
  arguments.max_steps = 2;
  arguments.save_strategy = "no";
  arguments.use_cpu = true;
  Trainer trainer(arguments);
  trainer.train();
  trainer.save_model(folder.path("trained"));
  const ProgramRun one = run("predict_text", folder.path("trained") + " 'a b c' 'd e'");
  ASSERT_EQ(one.exit_code, 0) << one.output;
  EXPECT_EQ(std::count(one.output.begin(), one.output.end(), '\n'), 2) << one.output;
  EXPECT_NE(one.output.find("  a b c\n"), std::string::npos) << one.output;
  EXPECT_TRUE(one.output.starts_with("even  0.") || one.output.starts_with("odd  0.")) << one.output;
  EXPECT_EQ(run("predict_text", "").exit_code, 2);
  EXPECT_EQ(run("predict_text", folder.path("none") + " text").exit_code, 4);
}

TEST(Examples, OwnDataLearns) {
  const testing::TestFolder folder("own_data_example");
  const ProgramRun program =
      run("own_data", "--config_name " + testing::write_tiny_model(folder, 0.0) + " --output_dir " +
                          folder.path("out") +
                          " --use_cpu --num_train_epochs 10 --learning_rate 1e-2 --save_strategy no");
  ASSERT_EQ(program.exit_code, 0) << program.output;
  EXPECT_GT(program.number_after("planned: "), 0) << program.output;
  EXPECT_GT(program.number_after("accuracy: "), 0.9) << program.output;
  EXPECT_GE(program.number_after("loss of the batch: "), 0) << program.output;
  EXPECT_TRUE(std::filesystem::exists(folder.path("out") + "/model.safetensors"));
}

TEST(Examples, OwnMetricIsReported) {
  const testing::TestFolder folder("own_metric_example");
  const std::string model = testing::write_tiny_model(folder, 0.0);
  const std::string file = testing::write_uneven_rows(folder, 23);
  const ProgramRun program =
      run("own_metric", "--config_name " + model + " --tokenizer_name " + model + " --train_file " + file +
                            " --validation_file " + file + " --output_dir " + folder.path("out") +
                            " --use_cpu --max_steps 3 --save_strategy no");
  ASSERT_EQ(program.exit_code, 0) << program.output;
  EXPECT_EQ(program.number_after("top-2 accuracy "), 1.0) << "there are two classes: " << program.output;
}

}  // namespace
}  // namespace plimsoll
