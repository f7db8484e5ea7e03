// Test cases of bad input: models, data, argument files and output folders that are missing or invalid, an
// output folder that is a file, and runs that fail because of the data that they read.
#include <filesystem>

#include "tests/bad_input/ground.h"

namespace plimsoll::testing {
namespace {

std::vector<Case> model_argument_cases() {
  return {

      argument("ArgumentOverrideUnknown", 2, {"hiden_size"}, {"--config_overrides", "hiden_size=3"}),
      argument("ArgumentOverrideBad", 2, {"hidden_size"}, {"--config_overrides", "hidden_size=15"}),
      argument("ArgumentVocabularyTooSmall", 2, {"begin at 100", "vocab_size is 54"},
               {"--config_overrides", "vocab_size=54"}),
      words("ArgumentNoModel", 2, {"no model", "--model_name_or_path"}, {"train", "--dataset_name", "dummy"}),
      words("ArgumentModelNotThere", 4, {"/nonexistent/model"},
            {"train", "--model_name_or_path", "/nonexistent/model", "--dataset_name", "dummy"}),
      words("ArgumentModelNotInCache", 4, {"bert-base-german", "git lfs install"},
            {"train", "--model_name_or_path", "bert-base-german", "--dataset_name", "dummy"}),
      {"ArgumentLongerThanTheModel",
       0,
       {"warning: --max_seq_length 600", "32 tokens"},
       [](const Ground& ground) {
         return ground.train(ground.data(), {"--max_seq_length", "600"});
       }},
      {"ArgumentNoTokenizer",
       2,
       {"--tokenizer_name"},
       [](const Ground& ground) {
         return Words{"train", "--config_name", ground.model(), "--train_file", ground.data(), "--dry_run"};
       }},
      argument("ArgumentDummyLongerThanTheModel", 0, {"warning: --dummy_seq_length 100", "32 tokens"},
               {"--dummy_seq_length", "100"}),
      words("PlanLongerThanTheModel", 0, {"warning: --max_seq_length 1000", "512 tokens"},
            {"plan", "--config_name", "bert-base-uncased", "--max_seq_length", "1000", "--device", "cpu"}),
  };
}

std::vector<Case> data_argument_cases() {
  return {

      argument("ArgumentLabelNames", 2, {"--label_names", "--label_column_name"}, {"--label_names", "kind"}),
      {"ArgumentNothingToPredict",
       2,
       {"no data to predict", "--test_file"},
       [](const Ground& ground) { return ground.train(ground.data(), {"--do_predict"}); }},
      {"ArgumentLabelsDoNotFit",
       2,
       {"--num_labels 5", "2"},
       [](const Ground& ground) {
         return ground.train(ground.data(), {"--num_labels", "5"});
       }},
      {"ArgumentGlueWithoutData",
       2,
       {"--task_name mrpc", "--dataset_name FOLDER", "dev.tsv"},
       [](const Ground& ground) {
         return Words{"train", "--model_name_or_path", ground.model(), "--task_name", "mrpc"};
       }},
      {"ArgumentSmoothingOfARegression",
       0,
       {"warning: --label_smoothing_factor has no effect", "regression"},
       [](const Ground& ground) {
         return ground.train(ground.file("target.csv", "sentence,label\nword1,0.5\nword2,1.5\n"),
                             {"--label_smoothing_factor", "0.1", "--ignore_mismatched_sizes"});
       }},
      {"ArgumentNoTrainingData",
       2,
       {"no training data", "--train_file"},
       [](const Ground& ground) {
         return Words{"train", "--model_name_or_path", ground.model(), "--dry_run"};
       }},
      {"ArgumentNoValidationData",
       2,
       {"no validation data", "--validation_file"},
       [](const Ground& ground) { return ground.train(ground.data(), {"--do_eval"}); }},
      argument("ArgumentDataWithoutItsName", 2,
               {"'rows.csv': expected --name value", "a data file follows --train_file"}, {"rows.csv"}),
  };
}

std::vector<Case> argument_file_cases() {
  return {

      {"ArgumentFileNotThere",
       2,
       {"nothing.json"},
       [](const Ground& ground) {
         return Words{"train", ground.path("nothing.json")};
       }},
      {"ArgumentFileBad",
       2,
       {"bad.json"},
       [](const Ground& ground) {
         return Words{"train", ground.file("bad.json", "{\"learning_rate\": ")};
       }},
      {"ArgumentYamlBad",
       2,
       {"bad.yaml:2", "not YAML"},
       [](const Ground& ground) {
         return Words{"train", ground.file("bad.yaml", "learning_rate: 1\n  x: [1, 2\n")};
       }},
      {"ArgumentYamlUnknownName",
       2,
       {"names.yaml", "learning_rat", "did you mean"},
       [](const Ground& ground) {
         return Words{"train", ground.file("names.yaml", "learning_rat: 1\n")};
       }},
      {"ArgumentFileUnknownName",
       2,
       {"names.json", "learning_rat", "did you mean"},
       [](const Ground& ground) {
         return Words{"train", ground.file("names.json", "{\"learning_rat\": 1}")};
       }},
  };
}

std::vector<Case> output_cases() {
  return {

      argument("ArgumentsBestWithoutEvaluation", 2, {"--load_best_model_at_end", "--eval_strategy is no"},
               {"--load_best_model_at_end"}),
      {"ArgumentOutputIsAFile",
       2,
       {"train.tsv", "is not a folder"},
       [](const Ground& ground) {
         return undried(ground.train_dummy({"--output_dir", ground.data() + "/x"}));
       }},
      {"ArgumentMetricNotThere",
       2,
       {"--metric_for_best_model rouge", "eval_loss"},
       [](const Ground& ground) {
         return undried(ground.train_dummy({"--output_dir", ground.path("metric"), "--load_best_model_at_end",
                                            "--eval_strategy", "steps", "--eval_steps", "1", "--save_steps",
                                            "1", "--metric_for_best_model", "rouge"}));
       }},
      argument("ArgumentPlanIntoNoFolder", 7,
               {"--json /nonexistent/p.json", "No such file or directory; check"},
               {"--json", "/nonexistent/p.json"}),
      argument("ArgumentReportIntoNoFolder", 7,
               {"--html /nonexistent/p.html", "No such file or directory; check"},
               {"--html", "/nonexistent/p.html"}),
      argument("ArgumentTraceIntoNoFolder", 7,
               {"--trace /nonexistent/p.json", "No such file or directory; check"},
               {"--trace", "/nonexistent/p.json"}),
      {"ArgumentOutputFolderIsAFile",
       2,
       {"--output_dir ", "train.tsv is not a folder; choose another"},
       [](const Ground& ground) {
         Words words = ground.predict(ground.model());
         words[6] = ground.data();
         return words;
       }},
      argument("ArgumentOutputIsEmpty", 2, {"--output_dir is empty"}, {"--output_dir", ""}),
  };
}

std::vector<Case> run_end_cases() {
  return {

      {"RunWithARateThatExplodes",
       5,
       {"step ", "the weights were not changed", "irst ", "Samples", "Try a lower"},
       [](const Ground& ground) {
         return undried(
             ground.train(ground.data(), {"--learning_rate", "1e30", "--max_grad_norm", "0", "--max_steps",
                                          "20", "--output_dir", ground.path("exploded")}));
       }},
      {"RunWithWeightsThatAreNaN",
       5,
       {"step 1", "the loss is nan", "The first value that is not finite: the weight 'classifier.weight'",
        "Samples", "use another copy"},
       [](const Ground& ground) {
         std::string text = read_file(ground.model() + "/model.safetensors");
         for (size_t i = text.size() - 128; i < text.size(); ++i) text[i] = '\xff';
         Words command = ground.train(ground.data(), {"--output_dir", ground.path("nan")});
         command[2] = ground.model_with("model.safetensors", text);
         return undried(command);
       }},
      {"RunBesideAReadmeOfSomebodyElse",
       0,
       {"README.md was kept"},
       [](const Ground& ground) {
         const std::string run = ground.path("with_readme");
         std::filesystem::create_directories(run);
         ground.file("with_readme/README.md", "# mine\n");
         return undried(ground.train(ground.data(), {"--max_steps", "1", "--output_dir", run}));
       }},
      {"RunWithAReadmeOfItsOwn",
       0,
       {"memory.svg, README.md\n"},
       [](const Ground& ground) {
         return undried(
             ground.train(ground.data(), {"--max_steps", "1", "--output_dir", ground.path("fresh")}));
       }},
  };
}

}  // namespace

std::vector<Case> folder_cases() {
  return joined({model_argument_cases(), data_argument_cases(), argument_file_cases(), output_cases(),
                 run_end_cases()});
}

}  // namespace plimsoll::testing
