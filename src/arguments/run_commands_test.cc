// Tests which settings each command uses: their help, and the notes about unused settings.
#include "plimsoll/run_commands.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "arguments/testing/parse_words.h"

namespace plimsoll {
namespace {

bool lists(const std::string& help, std::string_view name) {
  return help.find(fmt::format("\n  --{}\n", name)) != std::string::npos ||
         help.find(fmt::format("\n  --{} ", name)) != std::string::npos;
}

TEST(RunCommands, AFileThatIsNotReadIsRefused) {
  const auto refused = [](RunCommand command, const std::vector<std::string>& words) {
    try {
      refuse_unused_files(command, parse_arguments(words));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refused(RunCommand::kEvaluate, {"--train_file", "a.csv"}),
            "eval does not read --train_file a.csv; train does. Omit it");
  EXPECT_EQ(refused(RunCommand::kPredict, {"--validation_file", "a.csv"}),
            "predict does not read --validation_file a.csv; train and eval do. Omit it");
  int used = 0;
  for (const ArgumentInfo& info : argument_table()) {
    if (info.unit != "file" && info.unit != "folder") continue;
    for (const RunCommand command :
         {RunCommand::kTrain, RunCommand::kPlan, RunCommand::kEvaluate, RunCommand::kPredict}) {
      const std::string name = "--" + std::string(info.name);
      EXPECT_EQ(refused(command, {name, "x"}).empty(), is_used_by(command, info.name)) << name;
      used += is_used_by(command, info.name) ? 1 : 0;
    }
  }
  EXPECT_GT(used, 30);
}

TEST(RunCommands, HelpListsWhatTheCommandUses) {
  const struct {
    const char* name;
    bool plan, evaluate, predict;
  } cases[] = {
      {"model_name_or_path", true, true, true},
      {"learning_rate", false, false, false},
      {"lr_scheduler_type", false, false, false},
      {"save_steps", false, false, false},
      {"optim", true, false, false},
      {"adam_beta1", false, false, false},
      {"recompute", true, false, false},
      {"per_device_train_batch_size", true, false, false},
      {"per_device_eval_batch_size", true, true, true},
      {"validation_file", true, true, false},
      {"test_file", true, true, true},
      {"eval_strategy", true, false, false},
      {"memory_limit", true, true, true},
      {"json", true, true, true},
      {"event_fd", false, true, true},
      {"adapter_name_or_path", true, true, true},
      {"text_column_names", true, true, true},
      {"nproc_per_node", true, false, false},
      {"ddp_backend", true, false, false},
      {"data_parallel_mode", true, false, false},
      {"ddp_timeout", false, false, false},
      {"max_restarts", false, false, false},
      {"async_save", true, false, false},
  };
  const std::string plan = command_help(RunCommand::kPlan);
  const std::string evaluate = command_help(RunCommand::kEvaluate);
  const std::string predict = command_help(RunCommand::kPredict);
  for (const auto& c : cases) {
    EXPECT_EQ(lists(plan, c.name), c.plan) << c.name;
    EXPECT_EQ(lists(evaluate, c.name), c.evaluate) << c.name;
    EXPECT_EQ(lists(predict, c.name), c.predict) << c.name;
    EXPECT_TRUE(lists(command_help(RunCommand::kTrain), c.name)) << c.name;
    EXPECT_EQ(is_used_by(RunCommand::kPlan, c.name), c.plan) << c.name;
  }
  EXPECT_EQ(command_help(RunCommand::kTrain), arguments_help());
  EXPECT_EQ(command_help(RunCommand::kEvaluate, "all"), arguments_help("all"));
  EXPECT_EQ(command_help(RunCommand::kEvaluate, "--learning-rate"), arguments_help("learning_rate"));
  EXPECT_NE(evaluate.find("All other arguments of train are accepted"), std::string::npos);
  EXPECT_NE(command_help(RunCommand::kEvaluate, "schedule")
                .find("no setting of the group 'schedule' has an effect"),
            std::string::npos);
}

TEST(RunCommands, ManySettingsAreOfTrainingAlone) {
  int only_train = 0;
  for (const ArgumentInfo& info : argument_table()) {
    if (info.status != ArgumentStatus::kImplemented) continue;
    only_train += is_used_by(RunCommand::kEvaluate, info.name) ? 0 : 1;
    if (is_used_by(RunCommand::kPredict, info.name)) {
      EXPECT_TRUE(is_used_by(RunCommand::kEvaluate, info.name)) << info.name;
    }
  }
  EXPECT_GE(only_train, 50);
}

TEST(RunCommands, OneNoteNamesWhatIsNotUsed) {
  EXPECT_EQ(unused_note(RunCommand::kEvaluate, {"learning_rate", "seed", "save_steps"}),
            "--learning_rate, --save_steps have no effect here: eval does not train");
  EXPECT_EQ(unused_note(RunCommand::kPredict, {"do_eval"}),
            "--do_eval has no effect here: a run that only predicts does not train or evaluate");
  EXPECT_EQ(unused_note(RunCommand::kPredict, {"seed", "test_file"}), "");
  // These settings change the plan of a text generation, so there must be no note that they are unused.
  EXPECT_EQ(unused_note(RunCommand::kGenerate, {"disable_pass", "matmul_precision", "weight_copies"}), "");
  EXPECT_EQ(unused_note(RunCommand::kPlan, {"learning_rate"}), "") << "a plan takes the settings of train";
  EXPECT_EQ(unused_note(RunCommand::kEvaluate, {"push_to_hub", "torch_compile"}), "")
      << "these have a refusal or a note of their own";
}

}  // namespace
}  // namespace plimsoll
