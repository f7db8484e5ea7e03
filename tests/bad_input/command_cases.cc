// Test cases of bad input: names of commands, their help, and the arguments of fit, inspect and tokenize.
#include <filesystem>

#include "tests/bad_input/ground.h"

namespace plimsoll::testing {
namespace {

// Makes a test case that inspects a file of the valid run.
Case inspect(std::string name, Words message, const std::string& file) {
  return {std::move(name), 0, std::move(message), [file](const Ground& ground) {
            return Words{"inspect", ground.run() + "/" + file};
          }};
}

std::vector<Case> name_cases() {
  return {
      words("CommandNone", 2, {"usage: plimsoll"}, {}),
      words("CommandHelp", 0, {"usage: plimsoll", "Exit codes"}, {"--help"}),
      words("CommandMistyped", 2,
            {"'trian' is not a command", "monitor, env, completion, man, schema, did you mean 'train'?\n"},
            {"trian"}),
      words("CommandHelpMistyped", 2, {"'pan' is not a command", "did you mean 'plan'?\n"}, {"help", "pan"}),
      words("CommandUnknown", 2, {"'destroy' is not a command", "monitor, env, completion, man, schema\n"},
            {"destroy"}),
      words("PresetMisspelled", 2, {"'bert-lrage-uncased'", "did you mean 'bert-large-uncased'?"},
            {"plan", "--config_name", "bert-lrage-uncased"}),
      words("PresetUnknown", 4, {"'organization/no-such-model'", "Presets that need no files"},
            {"plan", "--config_name", "organization/no-such-model"}),
      words("ArgumentNoSuchGlueTask", 2, {"sst3", "sst2"},
            {"train", "--config_name", "bert-base-uncased", "--task_name", "sst3"}),
      words("CommandHelpOfACommand", 0, {"usage: plimsoll train ", "--learning_rate", "groups: model, data"},
            {"help", "train"}),
      words("PlanHelp", 0, {"usage: plimsoll plan ", "--config_name", "groups: model, data"},
            {"plan", "--help"}),
      words("EvalHelp", 0,
            {"usage: plimsoll eval ", "--validation_file FILE", "--help all explain arguments"},
            {"eval", "--help"}),
      words("PredictHelpOfAGroup", 0, {"--max_predict_samples", "All other arguments of train"},
            {"predict", "--help", "data"}),
      words("MergeHelpOfAGroup", 2, {"merge --help data: merge has no groups of arguments"},
            {"merge", "--help", "data"}),
      words("CompletionOfNoShell", 2, {"completion: give the name of the shell: bash, zsh or fish"},
            {"completion"}),
      words("CompletionOfAnotherShell", 2,
            {"completion: 'fissh' is not one of bash, zsh, fish, did you mean 'fish'?"},
            {"completion", "fissh"}),
      words("CompletionOfTwoShells", 2, {"completion: two words, 'bash' and 'zsh'; give one"},
            {"completion", "bash", "zsh"}),
      words("ManOfNoCommand", 2, {"man: 'trian' is not a command", "did you mean 'train'?"},
            {"man", "trian"}),
      words("SchemaOfAWord", 2, {"schema: unknown argument 'x'; it takes only options"}, {"schema", "x"}),
      words("MergeWord", 2, {"merge: unknown argument 'x'"}, {"merge", "--adapter", "a", "x"}),
      words("MergeWithoutAValue", 2, {"merge: --adapter needs a value: DIR"}, {"merge", "--adapter"}),
      words("TokenizeMistyped", 2, {"tokenize: unknown option '--shwo', did you mean 'show'?"},
            {"tokenize", "--shwo"}),
      words("PredictHelp", 0, {"usage: plimsoll predict ", "--test_file FILE"}, {"predict", "--help"}),
  };
}

std::vector<Case> fit_cases() {
  return {

      words("FitWithABudget", 0,
            {"--recompute_budget 3072MiB", "not possible: checkpointing", "to run the first"},
            {"fit", "--config_name", "bert-base-uncased", "--device", "l4", "--recompute_budget", "3GiB"}),
      words("FitWithABudgetThatNothingFits", 3, {"nothing fits: ", "the smallest run of bert-base-uncased"},
            {"fit", "--config_name", "bert-base-uncased", "--device", "l4", "--recompute_budget", "1MiB"}),
      words("FitSelective", 0, {"--recompute selective", "not possible: checkpointing", "to run the first"},
            {"fit", "--config_name", "bert-base-uncased", "--device", "l4", "--recompute", "selective"}),
      words("FitPricesOfAFolder", 2, {"fit: --prices /tmp: it is a folder; give a file"},
            {"fit", "--config_name", "bert-base-uncased", "--device", "all", "--prices", "/tmp"}),
      words("FitPricesNotThere", 2, {"--prices /nonexistent", "No such file or directory; check its name"},
            {"fit", "--config_name", "bert-base-uncased", "--device", "all", "--prices", "/nonexistent"}),
      words("FitPricesEmpty", 2, {"--prices /dev/null: the file contains no price; write lines such as"},
            {"fit", "--config_name", "bert-base-uncased", "--device", "all", "--prices", "/dev/null"}),
      {"FitPriceOfNoCard",
       2,
       {"prices.csv:1: no plan can be made for the card 'tpu'; choose from h200, "},
       [](const Ground& ground) {
         return Words{"fit",
                      "--config_name",
                      "bert-base-uncased",
                      "--device",
                      "all",
                      "--prices",
                      ground.file("prices.csv", "tpu,0.5\n")};
       }},
  };
}

std::vector<Case> inspect_cases() {
  return {

      words("ReportNotThere", 2, {"report: '/nonexistent' is not a folder", "--output_dir of a run"},
            {"report", "/nonexistent"}),
      words("ReportOfNoRun", 2, {"report: '/' has no plan.json", "--output_dir of a run"}, {"report", "/"}),
      words("ReportUnknownOption", 2, {"unknown option '--foo'"}, {"report", "--foo"}),
      words("ReportWithoutARun", 2, {"report: give at least one run"}, {"report", "--output", "x.html"}),
      words("TraceWithoutAProfile", 2, {"--trace x.json needs --profile", "--dry_run"},
            {"train", "--config_name", "bert-base-uncased", "--dataset_name", "dummy", "--trace", "x.json"}),
      words("InspectNotThere", 2, {"/nonexistent"}, {"inspect", "/nonexistent"}),
      words("InspectDataNotThere", 2, {"'train.tsv': no such file; check the path\n"},
            {"inspect", "train.tsv"}),
      words("InspectNoSuchModel", 2, {"and then use plimsoll inspect ./bret-base"}, {"inspect", "bret-base"}),
      words("InspectUnknownOption", 2, {"unknown option '--foo'"}, {"inspect", "--foo"}),
      {"InspectAPicture",
       2,
       {"loss.svg", "inspect reads", "'.svg'"},
       [](const Ground& ground) {
         return Words{"inspect", ground.run() + "/loss.svg"};
       }},
      words("InspectNothing", 2, {"usage"}, {"inspect"}),
      inspect("InspectLog", {"the log of a run", "to step 2", "loss", "ended: mean loss"}, "log.jsonl"),
      inspect("InspectPlan", {"a plan:", "MiB in total", "arena", "optimizer states"}, "plan.json"),
      inspect("InspectMemory", {"memory of a run", "predicted", "held"}, "memory.json"),
      inspect("InspectTrainerState", {"trainer_state.json", "at step 2 of 2", "the log of a run"},
              "checkpoint-2/trainer_state.json"),
      inspect("InspectResults", {"***** all metrics *****", "train_loss"}, "all_results.json"),
      inspect("InspectRunState", {"inspect its folder"}, "checkpoint-2/run_state.json"),
      inspect("InspectCheckpoint", {"checkpoint is valid", "step 2 of 2"}, "checkpoint-2"),
      {"InspectDamagedCheckpoint",
       4,
       {"checkpoint DAMAGED: ", "model.safetensors", "train.tsv: 8 rows"},
       [](const Ground& ground) {
         const std::string checkpoint = ground.run_copy() + "/checkpoint-2";
         std::string weights = read_file(checkpoint + "/model.safetensors");
         weights.back() = static_cast<char>(weights.back() ^ 1);
         ground.file(std::filesystem::relative(checkpoint, ground.path("")).string() + "/model.safetensors",
                     weights);
         // If one of several paths is damaged, `inspect` must still show the paths that follow it.
         return Words{"inspect", checkpoint, ground.data()};
       }},
      {"InspectLogOfAGpu",
       0,
       {"the log of a run: 2 records of steps", "to step 20", "loss"},
       [](const Ground& ground) {
         return Words{
             "inspect",
             ground.file(
                 "gpu_log.jsonl",
                 "{\"epoch\": 0.1, \"gpu_power_w\": 698.5, \"gpu_throttle\": \"power cap\", \"loss\": 1.5, "
                 "\"step\": 10}\n"
                 "{\"epoch\": 0.2, \"gpu_power_w\": 650.0, \"gpu_throttle\": \"none\", \"loss\": 1.25, "
                 "\"step\": 20}\n")};
       }},
      {"InspectDataWithSteps",
       0,
       {"2 rows", "'text'", "label"},
       [](const Ground& ground) {
         return Words{"inspect", ground.file("steps.jsonl",
                                             "{\"step\": 1, \"epoch\": 2, \"text\": \"a\", \"label\": 0}\n"
                                             "{\"step\": 1, \"epoch\": 2, \"text\": \"b\", \"label\": 1}\n")};
       }},
  };
}

std::vector<Case> tokenize_cases() {
  return {

      words("TokenizeNoTokenizer", 2, {"--tokenizer_name"}, {"tokenize"}),
      words("TokenizeNoFolder", 2, {"--tokenizer_name needs a value: DIR"}, {"tokenize", "--tokenizer_name"}),
      {"TokenizeTwoFiles",
       2,
       {"two files", "first.txt", "second.txt"},
       [](const Ground& ground) {
         return Words{"tokenize", "--tokenizer_name", ground.model(), "first.txt", "second.txt"};
       }},
      {"TokenizeTwoTokenizers",
       2,
       {"given twice", "other"},
       [](const Ground& ground) {
         return Words{"tokenize", "--tokenizer_name", ground.model(), "--tokenizer_name=other"};
       }},
      {"TokenizeNoFile",
       4,
       {"missing.txt", "cannot open the file", "No such file"},
       [](const Ground& ground) {
         return Words{"tokenize", "--tokenizer_name", ground.model(), ground.path("missing.txt")};
       }},
      {"TokenizeAFolder",
       2,
       {"a folder", "a text file"},
       [](const Ground& ground) {
         return Words{"tokenize", "--tokenizer_name", ground.model(), ground.model()};
       }},
  };
}

// Makes a test case that decodes lines of token ids.
Case decode(std::string name, int code, std::vector<std::string> wanted, std::string lines) {
  return {std::move(name), code, std::move(wanted), [lines = std::move(lines)](const Ground& ground) {
            return Words{"tokenize", "--tokenizer_name", ground.model(), "--decode",
                         ground.file("ids.txt", lines)};
          }};
}

std::vector<Case> decode_cases() {
  return {
      decode("DecodeGood", 0, {"{\"text\": \""}, "[2, 5, 3]\n{\"ids\": [2], \"offsets\": []}\n[]\n"),
      decode("DecodeNotAList", 4, {"ids.txt:2: the line should be a list of ids", "but it is '5'"},
             "[2]\n5\n"),
      decode("DecodeNotJson", 4, {"ids.txt:1: the line should be a list of ids"}, "[2, \n"),
      decode("DecodeText", 4, {"ids.txt:1: the line should be a list of ids"}, "[\"the\"]\n"),
      decode("DecodeNegativeId", 4, {"ids.txt:1: the line should be a list of ids"}, "[-1]\n"),
      decode("DecodeHugeId", 4, {"ids.txt:1: the line should be a list of ids"}, "[99999999999]\n"),
      decode("DecodeUnknownId", 4,
             {"ids.txt:2: the tokenizer has no token with id 999999; its largest id is"}, "[2]\n[999999]\n"),
      {"SkipWithoutDecode",
       2,
       {"--skip_special_tokens has no effect without --decode"},
       [](const Ground& ground) {
         return Words{"tokenize", "--tokenizer_name", ground.model(), "--skip_special_tokens", ground.data()};
       }},
      {"VocabSizeWithoutTrain",
       2,
       {"--vocab_size has no effect without --train"},
       [](const Ground& ground) {
         return Words{"tokenize", "--tokenizer_name", ground.model(), "--vocab_size", "300", ground.data()};
       }},
  };
}

// Makes a test case that trains a tokenizer on this text with further arguments.
Case train_tokenizer(std::string name, int code, std::vector<std::string> wanted, std::string text,
                     Words more) {
  const std::string folder = "trained_" + name;
  return {std::move(name), code, std::move(wanted),
          [folder, text = std::move(text), more = std::move(more)](const Ground& ground) {
            Words all{"tokenize", "--output_dir", ground.path(folder), ground.file("corpus.txt", text)};
            all.insert(all.end(), more.begin(), more.end());
            return all;
          }};
}

std::vector<Case> train_tokenizer_cases() {
  const std::string text = "the lower the better\nthe lowest\n";
  return {
      train_tokenizer("TrainTokenizerGood", 0, {"a byte-level BPE tokenizer with 26"}, text,
                      {"--train", "bpe"}),
      train_tokenizer("TrainWordPieceGood", 0, {"a WordPiece tokenizer with"}, text,
                      {"--train=wordpiece", "--do_lower_case", "false", "--min_frequency", "1"}),
      train_tokenizer("TrainUnknownKind", 2, {"'unigram'", "bpe", "wordpiece"}, text, {"--train", "unigram"}),
      train_tokenizer("TrainVocabNotANumber", 2, {"--vocab_size is '3k', but should be a number"}, text,
                      {"--train", "bpe", "--vocab_size", "3k"}),
      train_tokenizer("TrainVocabZero", 2, {"--vocab_size is 0, but should be 1 to"}, text,
                      {"--train", "bpe", "--vocab_size", "0"}),
      train_tokenizer("TrainVocabTooSmall", 2, {"no room for the", "--vocab_size of at least 257"}, text,
                      {"--train", "bpe", "--vocab_size", "200"}),
      train_tokenizer("TrainNegativeFrequency", 2, {"--min_frequency is -1"}, text,
                      {"--train", "bpe", "--min_frequency=-1"}),
      train_tokenizer("TrainEmptySpecialToken", 2, {"--special_tokens has an empty token"}, text,
                      {"--train", "bpe", "--special_tokens", "<a>,,<b>"}),
      train_tokenizer("TrainWithShow", 2, {"--show has no effect with --train"}, text,
                      {"--train", "bpe", "--show"}),
      train_tokenizer("TrainLowerCaseBpe", 2, {"--do_lower_case has no effect with --train bpe"}, text,
                      {"--train", "bpe", "--do_lower_case", "true"}),
      train_tokenizer("TrainNotUtf8", 4, {"corpus.txt:2: the line is not valid UTF-8"}, "the\n\xff\n",
                      {"--train", "bpe"}),
      train_tokenizer("TrainNoText", 4, {"the text has no words"}, "", {"--train", "bpe"}),
      train_tokenizer("TrainMissingFile", 4, {"nowhere.txt: cannot open the file"}, text,
                      {"nowhere.txt", "--train", "bpe"}),
      {"TrainNoOutput",
       2,
       {"give --output_dir DIR"},
       [](const Ground& ground) {
         return Words{"tokenize", "--train", "bpe", ground.data()};
       }},
      {"TrainNoFile",
       2,
       {"at least one text file"},
       [](const Ground& ground) {
         return Words{"tokenize", "--train", "bpe", "--output_dir", ground.path("trained")};
       }},
      {"TrainOverATokenizer",
       2,
       {"already has a tokenizer (", "give another --output_dir"},
       [](const Ground& ground) {
         return Words{"tokenize", "--train", "bpe", "--output_dir", ground.model(), ground.data()};
       }},
      {"TrainIntoAFile",
       7,
       {"train.tsv"},
       [](const Ground& ground) {
         return Words{"tokenize", "--train", "bpe", "--output_dir", ground.data(), ground.data()};
       }},
      {"TrainOnAFolder",
       2,
       {"/model: it is a folder"},
       [](const Ground& ground) {
         return Words{"tokenize",    "--train", "bpe", "--output_dir", ground.path("trained_on_a_folder"),
                      ground.model()};
       }},
  };
}

}  // namespace

std::vector<Case> command_cases() {
  return joined({name_cases(), fit_cases(), inspect_cases(), tokenize_cases(), decode_cases(),
                 train_tokenizer_cases()});
}

}  // namespace plimsoll::testing
