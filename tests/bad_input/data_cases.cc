// Test cases of bad input: data files and everything that is derived from them, such as tasks, caches, plans
// and columns. reader_cases.cc tests errors in single lines of these files.
#include <filesystem>

#include "tests/bad_input/ground.h"

namespace plimsoll::testing {
namespace {

// Makes a test case: a dry run of a GLUE task with a file of this name and content.
Case task(std::string name, int exit_code, Words words, std::string file, std::string text, Words more) {
  return {std::move(name), exit_code, std::move(words),
          [file = std::move(file), text = std::move(text), more = std::move(more)](const Ground& ground) {
            Words command = ground.train(ground.file(file, text), more);
            command.push_back("--ignore_mismatched_sizes");
            return command;
          }};
}

std::vector<Case> task_cases() {
  const Words mrpc = {"--task_name", "mrpc"};
  const std::string pairs = "\"word1, quoted\",word2,equivalent\nword3,word4,0\n";
  return {
      task("TaskWithCsv", 0, {"train 2 rows, 17 tokens", "2 labels"}, "pairs.csv",
           "sentence1,sentence2,label\n" + pairs, mrpc),
      task("TaskWithCsvOfGluesNames", 0, {"train 2 rows, 17 tokens"}, "glue.csv",
           "#1 String,#2 String,Quality\n" + pairs, mrpc),
      task("TaskWithJson", 0, {"train 1 row, "}, "pairs.jsonl",
           "{\"idx\": 7, \"sentence1\": \"word1\", \"sentence2\": \"word2\", \"label\": 1}\n", mrpc),
      task("TaskWithCsvOfOtherColumns", 4, {"other.csv", "'#1 String'", "'text'"}, "other.csv",
           "text,label\nword1,0\n", mrpc),
      task("TaskWithNamedColumns", 0, {"train 1 row, "}, "named.csv", "a,b,kind\nword1,word2,1\n",
           {"--task_name", "mrpc", "--text_column_names", "a", "b", "--label_column_name", "kind"}),
      task("TaskWithALabelThatItHasNot", 4, {"labels.csv:2", "'maybe' is not one of the task's labels"},
           "labels.csv", "sentence1,sentence2,label\nword1,word2,maybe\n", mrpc),
      task("TaskRowsLeftOut", 0,
           {"warning: ", "short.tsv: 2 of 4 rows lack a column", "first in line 3", "train 2 rows"},
           "short.tsv",
           "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t1\t1\ta\tb\t0\n2\t2\t2\tc\n"
           "3\t3\t3\tc\td\t1\n4\n",
           {"--task_name", "qqp"}),
      {"TaskPredictsBothSetsOfMnli",
       0,
       {"test 1 row, ", "test (mismatched) 2 rows", "wrote 1 prediction to ", "predict_results_mnli.txt",
        "wrote 2 predictions to ", "predict_results_mnli-mm.txt"},
       [](const Ground& ground) {
         const std::string folder = ground.path("MNLI");
         std::filesystem::create_directories(folder);
         const std::string header = "index\tsentence1\tsentence2\n";
         ground.file("MNLI/test_matched.tsv", header + "0\tword1\tword2\n");
         ground.file("MNLI/test_mismatched.tsv", header + "0\tword1\tword2\n1\tword3\tword4\n");
         return Words{"predict",
                      "--model_name_or_path",
                      ground.model(),
                      "--task_name",
                      "mnli",
                      "--dataset_name",
                      folder,
                      "--output_dir",
                      ground.path("mnli_out"),
                      "--ignore_mismatched_sizes"};
       }},
  };
}

std::vector<Case> cache_cases() {
  const auto cached = [](std::string name, Words words, std::string folder, Words more) {
    return Case{std::move(name), 0, std::move(words),
                [folder = std::move(folder), more = std::move(more)](const Ground& ground) {
                  Words command = ground.train(ground.data(), {"--cache_dir", ground.path(folder)});
                  command.insert(command.end(), more.begin(), more.end());
                  return command;
                }};
  };
  return {
      {"CacheNone",
       0,
       {"token cache: none, --cache_dir is not given"},
       [](const Ground& ground) { return ground.train(ground.data()); }},
      cached("CacheWritten", {"token cache ", "train.tsv written\n"}, "cache", {}),
      cached("CacheHit", {"token cache ", "train.tsv read from it\n"}, "cache", {}),
      cached("CacheOverwritten", {"token cache ", "train.tsv written anew\n"}, "cache",
             {"--overwrite_cache"}),
      cached("CacheThatCannotBe", {"token cache ", "train.tsv not kept (", "train.tsv/x"}, "train.tsv/x", {}),
  };
}

std::vector<Case> plan_cases() {
  const auto plan = [](const Ground& ground, const Words& more) {
    Words command = {"plan", "--config_name", ground.model(), "--num_threads", "1"};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  };
  return {
      {"PlanWithoutData", 0, {"batch 8 x 32"}, [plan](const Ground& ground) { return plan(ground, {}); }},
      {"PlanOfItsData",
       0,
       {"batch 8 x 7"},
       [plan](const Ground& ground) {
         return plan(ground, {"--tokenizer_name", ground.model(), "--train_file", ground.data()});
       }},
      {"PlanAsJsonAlone",
       0,
       {"{\n  \"by_phase\"", "\"total_bytes\""},
       [plan](const Ground& ground) {
         return plan(ground, {"--json", "-"});
       }},
      {"PlanOfDataWithoutATokenizer",
       0,
       {"note: --train_file: no tokenizer is given (--tokenizer_name FOLDER), so every text counts as 32 "
        "tokens",
        "batch 8 x 32"},
       [plan](const Ground& ground) {
         return plan(ground, {"--train_file", ground.data()});
       }},
      {"PlanOfAMissingFileWithoutATokenizer",
       4,
       {"nowhere.csv", "cannot open the file"},
       [plan](const Ground& ground) {
         return plan(ground, {"--train_file", "nowhere.csv"});
       }},
      {"PlanOfRowsWithoutATokenizer",
       4,
       {"planned_rows.csv:3", "quote"},
       [plan](const Ground& ground) {
         return plan(ground,
                     {"--train_file", ground.file("planned_rows.csv", "sentence,label\na,b\n\"c,d\n")});
       }},
      {"PlanOfLabelsWithoutATokenizer",
       0,
       {"every text counts as 32 tokens", "batch 5 x 32"},
       [plan](const Ground& ground) {
         return plan(ground, {"--train_file", ground.file("planned_labels.csv",
                                                          "sentence,label\na,x\nb,y\nc,z\nd,u\ne,v\n")});
       }},
      {"PlanOfWordsWithoutATokenizer",
       0,
       {"every text counts as 32 tokens", "batch 2 x 32"},
       [plan](const Ground& ground) {
         return plan(ground, {"--train_file",
                              ground.file("planned_words.jsonl",
                                          "{\"tokens\": [\"a\", \"b\"], \"ner_tags\": [\"O\", \"B-X\"]}\n"
                                          "{\"tokens\": [\"c\"], \"ner_tags\": [\"O\"]}\n"),
                              "--task_name", "ner"});
       }},
      {"PlanOfOtherDataThanForTraining",
       0,
       {"note: --validation_file is not read", "batches of 8 texts of 32 tokens"},
       [plan](const Ground& ground) {
         return plan(ground, {"--validation_file", ground.data()});
       }},
      {"PlanOfDataThatIsBad",
       4,
       {"planned.csv:3", "quote"},
       [plan](const Ground& ground) {
         return plan(ground, {"--tokenizer_name", ground.model(), "--train_file",
                              ground.file("planned.csv", "sentence,label\na,b\n\"c,d\n")});
       }},
  };
}

// Tests that a command either reads every file that its arguments name, or refuses the arguments.
std::vector<Case> named_file_cases() {
  const auto with = [](Words command, const Words& more) {
    command.insert(command.end(), more.begin(), more.end());
    return command;
  };
  return {
      {"TrainReadsEveryFile",
       0,
       {"validation 8 rows", "test 8 rows"},
       [](const Ground& ground) {
         return ground.train(ground.data(),
                             {"--validation_file", ground.data(), "--test_file", ground.data()});
       }},
      {"TrainWithAValidationFileButNoEvaluation",
       2,
       {"--do_eval False and --validation_file ", "exclude each other"},
       [](const Ground& ground) {
         return ground.train(ground.data(), {"--validation_file", ground.data(), "--do_eval", "False"});
       }},
      {"TrainWithATestFileButNoPrediction",
       2,
       {"--do_predict False and --test_file ", "exclude each other"},
       [](const Ground& ground) {
         return ground.train(ground.data(), {"--test_file", ground.data(), "--no_do_predict"});
       }},
      {"EvalOfATrainFile",
       2,
       {"eval does not read --train_file ", "; train does. Omit it"},
       [](const Ground& ground) {
         return ground.evaluate(ground.model(), ground.data(), {"--train_file", ground.data()});
       }},
      {"EvalReadsATestFileToo",
       0,
       {"validation 8 rows", "test 8 rows", "predict_results.txt"},
       [](const Ground& ground) {
         return ground.evaluate(ground.model(), ground.data(),
                                {"--test_file", ground.data(), "--output_dir", ground.path("eval_and_test")});
       }},
      {"PredictOfATrainFile",
       2,
       {"predict does not read --train_file ", "; train does. Omit it"},
       [with](const Ground& ground) {
         return with(ground.predict(ground.model()), {"--train_file", ground.data()});
       }},
      {"PredictOfAValidationFile",
       2,
       {"predict does not read --validation_file ", "; train and eval do. Omit it"},
       [with](const Ground& ground) {
         return with(ground.predict(ground.model()), {"--validation_file", ground.data()});
       }},
      {"PredictOfATextAndAFile",
       2,
       {"predict: the text 'good' and --test_file ", "exclude each other"},
       [with](const Ground& ground) {
         return with({"predict", "good"}, with(ground.predict(ground.model()), {}));
       }},
      {"PredictOfAFileWithoutItsOption",
       2,
       {"is a file, and words of the command line are texts", "give a data file with --test_file"},
       [](const Ground& ground) {
         return Words{"predict", "--model_name_or_path", ground.model(), ground.data()};
       }},
      {"TrainOfStandardInput",
       2,
       {"only `plimsoll predict` reads standard input", "give a file"},
       [](const Ground& ground) { return ground.train("-"); }},
      {"EvalOfStandardInput",
       2,
       {"only `plimsoll predict` reads standard input", "give a file"},
       [](const Ground& ground) { return ground.evaluate(ground.model(), "-"); }},
      {"PredictNothingOfStandardInput",
       4,
       {"standard input: it contains no text; write one text per line"},
       [](const Ground& ground) {
         return Words{"predict", "--model_name_or_path", ground.model(), "--test_file", "-"};
       }},
      {"PredictWithUnknownScores",
       2,
       {"--scores: 'logit' is not one of probabilities, logits, did you mean 'logits'?"},
       [with](const Ground& ground) {
         return with(ground.predict(ground.model()), {"--scores", "logit"});
       }},
      {"QuietAndLoud",
       2,
       {"--quiet means --log_level warning, and --log_level debug excludes it"},
       [](const Ground& ground) {
         return ground.train(ground.data(), {"--quiet", "--log_level", "debug"});
       }},
  };
}

// Cases of `plimsoll inspect`, which shows how training would read a data file.
std::vector<Case> inspected_data_cases() {
  const auto inspect = [](std::string name, Words words, std::string file, std::string text, Words more) {
    return Case{
        std::move(name), 0, std::move(words),
        [file = std::move(file), text = std::move(text), more = std::move(more)](const Ground& ground) {
          Words command = {"inspect", ground.file(file, text)};
          command.insert(command.end(), more.begin(), more.end());
          return command;
        }};
  };
  return {
      inspect("InspectVectorsOfTargets",
              {"text: 'text', label: 'label'", "multi_label_classification: vectors of 3 targets, 0 or 1",
               "LABEL_2", "2\n"},
              "vectors.jsonl",
              "{\"text\": \"a\", \"label\": [1, 0, 1]}\n{\"text\": \"b\", \"label\": [0, 0, 1]}\n", {}),
      inspect("InspectRegression", {"regression: 1 number per row, from 0.5 to 4\n"}, "scores.csv",
              "text,label\na,0.5\nb,4\nc,1.25\n", {}),
      inspect("InspectRegressionThatWasAskedFor", {"regression: 1 number per row, from 1 to 4\n"},
              "stars.csv", "text,label\na,1\nb,4\n", {"--problem_type=regression"}),
      inspect("InspectClasses", {"1 row, columns", "single_label_classification: 1 label\n"}, "one.csv",
              "text,label\na,yes\n", {}),
      inspect("InspectIndexColumn",
              {"text: 'text', label: 'label'", "note: ", "('id' is not text)", "--text_column_names"},
              "index.csv", "id,text,label\n0,a,yes\n1,b,no\n", {}),
      inspect("InspectNamedColumns", {"text: 'text', label: 'kind'", "2 labels"}, "named_too.csv",
              "id,text,kind\n0,a,yes\n1,b,no\n",
              {"--text_column_names", "text", "--label-column-name", "kind"}),
      inspect("InspectWithoutLabels",
              {"no label: there is no column 'label'; choose another with --label_column_name"},
              "unlabelled.csv", "text,kind\na,yes\n", {}),
      inspect("InspectWhatTrainingRefuses",
              {"1 row, columns", "training refuses it: ", "whole.jsonl:1: expected text in column 'text'"},
              "whole.jsonl", "{\"text\": 7, \"label\": 1}\n", {}),
      {"InspectHubNameNowhere",
       2,
       {"'nobody/nothing': no such file or folder, and no model of that name"},
       [](const Ground&) {
         return Words{"inspect", "nobody/nothing"};
       }},
  };
}

// Tests which columns of a data file a command reads when it uses a trained model. The number of tokens in
// the output shows this: with the special tokens, a single word has 3 tokens and a pair of words 5.
std::vector<Case> column_cases() {
  const auto predict = [](const Ground& ground, const std::string& model, const std::string& file) {
    Words words = ground.predict(model);
    words[4] = file;
    return words;
  };
  // Makes a test case that uses a model which was trained with the labels of the column 'kind'.
  const auto labels_of_kind = [](std::string name, Words words, std::string file, std::string text,
                                 Words more) {
    return Case{
        std::move(name), 0, std::move(words),
        [file = std::move(file), text = std::move(text), more = std::move(more)](const Ground& ground) {
          const std::string model = ground.model_replacing("config.json", "\"label_column_name\": \"label\"",
                                                           "\"label_column_name\": \"kind\"");
          return ground.evaluate(model, ground.file(file, text), more);
        }};
  };
  return {
      {"ColumnsAreThoseOfTraining",
       0,
       {"test 1 row, 3 tokens"},
       [predict](const Ground& ground) {
         return predict(ground, ground.model(), ground.file("kinds.csv", "kind,sentence\nword2,word1\n"));
       }},
      {"ColumnsThatAreNotThereAreNamed",
       0,
       {"warning: ",
        "was trained on the text of 'sentence', and the file has 'id', 'review', 'stars': the column "
        "'review' is read",
        "test 1 row, 3 tokens"},
       [predict](const Ground& ground) {
         return predict(ground, ground.model(), ground.file("texts.csv", "id,review,stars\nx1,word1,5\n"));
       }},
      {"ColumnsThatCouldBothBeTheTextAreRefused",
       4,
       {"texts.csv: the texts could be in any of the columns 'text', 'kind': select one with "
        "--text_column_names"},
       [predict](const Ground& ground) {
         return predict(ground, ground.model(), ground.file("texts.csv", "text,kind\nword1,word2\n"));
       }},
      {"ColumnOfLabelsThatIsGivenIsNoText",
       0,
       {"the column 'review' is read", "eval_accuracy"},
       [](const Ground& ground) {
         return ground.evaluate(ground.model(), ground.file("imdb.csv", "id,review,sentiment\n9,word1,bad\n"),
                                {"--label_column_name", "sentiment"});
       }},
      {"ColumnsOfTrainingThatAreAmbiguous",
       4,
       {"many.csv: the texts could be in any of the columns 'title', 'body', 'author'",
        "--text_column_names"},
       [](const Ground& ground) {
         return ground.train(ground.file("many.csv", "title,body,author,label\na,b,c,good\n"));
       }},
      {"ColumnsOfTrainingWithoutText",
       4,
       {"none.csv", "expected a text column in addition to the label 'label', found 'id', 'guid', 'label'"},
       [](const Ground& ground) {
         return ground.train(ground.file("none.csv", "id,guid,label\n1,b,good\n"));
       }},
      {"ColumnsThatAreGivenWin",
       0,
       {"test 1 row, 5 tokens"},
       [predict](const Ground& ground) {
         Words words =
             predict(ground, ground.model(), ground.file("given.csv", "sentence,kind\nword1,word2\n"));
         words.insert(words.end(), {"--text_column_names", "sentence,kind"});
         return words;
       }},
      labels_of_kind("ColumnOfLabelsIsThatOfTraining", {"validation 1 row, 3 tokens", "eval_accuracy"},
                     "kind.csv", "kind,sentence\nbad,word1\n", {}),
      labels_of_kind("ColumnOfLabelsIsThatOfTrainingBesideNamedTexts",
                     {"note: ", "the labels are those of the column 'kind', as in training, not of 'label'",
                      "validation 1 row, 3 tokens", "eval_accuracy"},
                     "words.csv", "kind,words,label\nbad,word1,awful\n", {"--text_column_names", "words"}),
      {"ColumnsOfAModelThatRemembersNone",
       0,
       {"note: ", "each text is a pair of the columns 'sentence' and 'kind'", "test 1 row, 5 tokens"},
       [predict](const Ground& ground) {
         const std::string model =
             ground.model_replacing("config.json", "\"text_column_names\"", "\"somebody_elses\"");
         return predict(ground, model, ground.file("pairs_of.csv", "sentence,kind\nword1,word2\n"));
       }},
  };
}

// Tests CSV and TSV files without a header. The program must not silently use their first row as the header.
std::vector<Case> header_cases() {
  const auto predicted = [](std::string name, int exit_code, Words message, std::string text,
                            Words more = {}) {
    return Case{std::move(name), exit_code, std::move(message),
                [text = std::move(text), more = std::move(more)](const Ground& ground) {
                  Words command = {"predict",
                                   "--model_name_or_path",
                                   ground.model(),
                                   "--test_file",
                                   ground.file("bare.csv", text),
                                   "--output_dir",
                                   ground.path("bare_out"),
                                   "--num_threads",
                                   "1"};
                  command.insert(command.end(), more.begin(), more.end());
                  return command;
                }};
  };
  return {
      predicted("PredictWithoutHeader", 4,
                {"bare.csv: the first row looks like data ('1'), but it must name the 2 columns"},
                "word1 word2,1\nword3,0\nword4,1\n"),
      predicted("PredictTextsWithoutHeader", 0,
                {"note: ", "the first row ('word1 word2') is read as the name"},
                "word1 word2\nword3\nword4\n"),
      predicted("PredictWithSelectedColumn", 0, {"wrote 2 predictions"}, "word1 word2,1\nword3,0\nword4,1\n",
                {"--text_column_names", "word1 word2"}),
      {"TrainWithoutHeaderAndTwoEqualValues",
       4,
       {"equal.csv:1: the first row looks like data ('0'), but it must name the 3 columns"},
       [](const Ground& ground) {
         return ground.train(ground.file("equal.csv", "0,0,\"word1\"\n1,1,word2\n"));
       }},
  };
}

}  // namespace

std::vector<Case> data_cases() {
  return joined({reader_cases(), header_cases(), task_cases(), cache_cases(), plan_cases(),
                 named_file_cases(), inspected_data_cases(), column_cases()});
}

}  // namespace plimsoll::testing
