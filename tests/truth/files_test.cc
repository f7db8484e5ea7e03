// Tests fine-tuning on a file, evaluation and prediction end to end. The output files and their keys must equal
// those of Hugging Face's run_glue.py.
#include <gtest/gtest.h>

#include <algorithm>

#include <filesystem>

#include "tests/bad_input/binary.h"
#include "tests/bad_input/ground.h"

namespace plimsoll::testing {
namespace {

void expect_keys(const std::string& path, const std::vector<std::string>& keys) {
  const std::string text = read_file(path);
  ASSERT_FALSE(text.empty()) << path;
  for (const std::string& key : keys) {
    EXPECT_NE(text.find("\"" + key + "\""), std::string::npos) << key << " is not in " << path << ":\n"
                                                               << text;
  }
}

TEST(Files, TrainEvaluatePredictWriteWhatHuggingFaceWrites) {
  const Ground ground;
  ASSERT_TRUE(ground.is_good()) << ground.complaint();
  const std::string out = ground.path("tuned");
  const ProcessResult train = run_plimsoll({"train",
                                            "--model_name_or_path",
                                            ground.model(),
                                            "--train_file",
                                            ground.data(),
                                            "--validation_file",
                                            ground.data(),
                                            "--do_train",
                                            "--do_eval",
                                            "--eval_strategy",
                                            "epoch",
                                            "--save_strategy",
                                            "epoch",
                                            "--load_best_model_at_end",
                                            "--metric_for_best_model",
                                            "accuracy",
                                            "--num_train_epochs",
                                            "3",
                                            "--per_device_train_batch_size",
                                            "4",
                                            "--learning_rate",
                                            "1e-3",
                                            "--logging_steps",
                                            "1",
                                            "--num_threads",
                                            "1",
                                            "--output_dir",
                                            out},
                                           ground.path("log"));
  ASSERT_EQ(train.exit_code, 0) << train.output;
  expect_keys(out + "/train_results.json",
              {"epoch", "train_loss", "train_runtime", "train_samples_per_second", "train_steps_per_second"});
  const std::vector<std::string> eval_keys = {"eval_loss", "eval_accuracy", "eval_runtime",
                                              "eval_samples_per_second", "eval_steps_per_second"};
  expect_keys(out + "/eval_results.json", eval_keys);
  expect_keys(out + "/all_results.json", eval_keys);
  expect_keys(out + "/all_results.json", {"train_loss", "epoch"});
  expect_keys(
      out + "/checkpoint-6/trainer_state.json",
      {"best_metric", "best_model_checkpoint", "best_global_step", "epoch", "global_step", "max_steps",
       "num_train_epochs", "log_history", "eval_accuracy", "grad_norm", "learning_rate", "loss"});
  for (const char* file :
       {"config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json", "log.jsonl", "plan.json",
        "memory.json", "report.json", "loss.svg", "memory.svg"}) {
    EXPECT_TRUE(std::filesystem::exists(out + "/" + file)) << file;
  }
  expect_keys(out + "/config.json", {"architectures", "id2label", "label2id", "model_type", "problem_type"});

  const ProcessResult eval = run_plimsoll({"eval", "--model_name_or_path", out, "--validation_file",
                                           ground.data(), "--output_dir", ground.path("evaluated")},
                                          ground.path("log"));
  ASSERT_EQ(eval.exit_code, 0) << eval.output;
  expect_keys(ground.path("evaluated") + "/eval_results.json", eval_keys);

  const ProcessResult predict = run_plimsoll({"predict", "--model_name_or_path", out, "--test_file",
                                              ground.data(), "--output_dir", ground.path("predicted")},
                                             ground.path("log"));
  ASSERT_EQ(predict.exit_code, 0) << predict.output;
  const std::string lines = read_file(ground.path("predicted") + "/predict_results.txt");
  EXPECT_TRUE(lines.starts_with("index\tprediction\n0\t")) << lines;
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 9) << lines;
  EXPECT_NE(lines.find("\n7\t"), std::string::npos) << lines;
  const std::vector<std::string> predict_keys = {"predict_runtime", "predict_samples",
                                                 "predict_samples_per_second", "predict_steps_per_second"};
  expect_keys(ground.path("predicted") + "/predict_results.json", predict_keys);
  expect_keys(ground.path("predicted") + "/all_results.json", predict_keys);
  EXPECT_NE(read_file(ground.path("predicted") + "/predict_results.json").find("\"predict_samples\": 8,"),
            std::string::npos);
  EXPECT_NE(predict.output.find("***** predict metrics *****"), std::string::npos) << predict.output;
}

TEST(Files, PredictingAfterTrainingWritesItsResultsToo) {
  const Ground ground;
  ASSERT_TRUE(ground.is_good()) << ground.complaint();
  const std::string out = ground.path("trained");
  Words words = ground.train_dummy({"--max_steps", "1", "--do_predict", "--output_dir", out});
  std::erase(words, "--dry_run");
  const ProcessResult train = run_plimsoll(words, ground.path("log"));
  ASSERT_EQ(train.exit_code, 0) << train.output;
  // The random test data has labels, so the results of predict must also contain a loss and metrics.
  expect_keys(out + "/predict_results.json",
              {"predict_runtime", "predict_samples", "predict_samples_per_second", "predict_steps_per_second",
               "predict_loss", "predict_accuracy"});
  expect_keys(out + "/all_results.json", {"predict_samples", "train_loss"});
}

TEST(Files, GoingOnWithAFinishedRunKeepsItsTrainingResults) {
  const Ground ground;
  ASSERT_TRUE(ground.is_good()) << ground.complaint();
  const std::string out = ground.path("finished");
  Words words = ground.train_dummy({"--max_steps", "2", "--save_steps", "1", "--output_dir", out});
  std::erase(words, "--dry_run");
  const ProcessResult train = run_plimsoll(words, ground.path("log"));
  ASSERT_EQ(train.exit_code, 0) << train.output;
  const std::vector<const char*> files = {"/train_results.json", "/memory.json",        "/plan.json",
                                          "/log.jsonl",          "/trainer_state.json", "/README.md"};
  std::vector<std::string> before;
  for (const char* file : files) before.push_back(read_file(out + file));
  words.insert(words.end(), {"--resume_from_checkpoint", "True", "--do_eval"});
  const ProcessResult again = run_plimsoll(words, ground.path("log"));
  ASSERT_EQ(again.exit_code, 0) << again.output;
  EXPECT_NE(again.output.find("training was already complete at step 2"), std::string::npos) << again.output;
  for (size_t i = 0; i < files.size(); ++i) {
    ASSERT_FALSE(before[i].empty()) << files[i];
    EXPECT_EQ(read_file(out + files[i]), before[i]) << files[i];
  }
  expect_keys(out + "/eval_results.json", {"eval_loss", "eval_accuracy"});
  expect_keys(out + "/all_results.json", {"train_loss", "eval_loss"});
}

}  // namespace
}  // namespace plimsoll::testing
