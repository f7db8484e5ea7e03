// Arguments that are unknown, contradictory or out of range.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/bad_input/ground.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;

Case words(std::string name, int exit_code, Words message, Words command) {
  return {std::move(name), exit_code, std::move(message),
          [command = std::move(command)](const Ground&) { return command; }};
}

// A run over random ids, read and planned only.
Case argument(std::string name, int exit_code, Words message, Words more) {
  return {std::move(name), exit_code, std::move(message),
          [more = std::move(more)](const Ground& ground) { return ground.train_dummy(more); }};
}

// A file of the good run, looked into.
Case inspect(std::string name, Words message, const std::string& file) {
  return {std::move(name), 0, std::move(message), [file](const Ground& ground) {
            return Words{"inspect", ground.run() + "/" + file};
          }};
}

bool cpu_has_bf16() {
  std::ifstream file("/proc/cpuinfo");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return text.find(" avx512_bf16") != std::string::npos || text.find(" amx_bf16") != std::string::npos;
}

}  // namespace

std::vector<Case> argument_cases() {
  return {
      words("CommandNone", 2, {"usage: plimsoll"}, {}),
      words("CommandHelp", 0, {"usage: plimsoll", "Exit codes"}, {"--help"}),
      words("CommandMistyped", 2, {"'trian' is no command", "merge, monitor, did you mean 'train'?\n"},
            {"trian"}),
      words("CommandHelpMistyped", 2, {"'pan' is no command", "did you mean 'plan'?\n"}, {"help", "pan"}),
      words("CommandUnknown", 2, {"'destroy' is no command", "merge, monitor\n"}, {"destroy"}),
      words(
          "PresetUnknown", 4,
          {"'bert-lrage-uncased'", "Presets that need nothing of this", "did you mean 'bert-large-uncased'?"},
          {"plan", "--config_name", "bert-lrage-uncased"}),
      argument("ArgumentsGood", 0, {"weights"}, {}),
      argument("ArgumentUnknown", 2, {"--learning_rat", "did you mean 'learning_rate'"},
               {"--learning_rat", "1"}),
      argument("ArgumentWithoutValue", 2, {"--learning_rate"}, {"--learning_rate"}),
      argument("ArgumentWithoutDashes", 2, {"'stray'"}, {"stray"}),
      argument("ArgumentTextForNumber", 2, {"--max_steps", "ten"}, {"--max_steps", "ten"}),
      argument("ArgumentFractionForInteger", 2, {"--seed", "1.5"}, {"--seed", "1.5"}),
      argument("ArgumentNotUtf8", 2, {"--run_name", "not UTF-8"}, {"--run_name", "caf\xe9"}),
      argument("ArgumentKeyNotUtf8", 2, {"--optim_args", "not UTF-8"},
               {"--optim", "sgd", "--optim_args", "\x8bmomentum=0.5"}),
      argument("ArgumentNaN", 2, {"--learning_rate", "nan"}, {"--learning_rate", "nan"}),
      argument("ArgumentInfinite", 2, {"--learning_rate"}, {"--learning_rate", "1e999"}),
      argument("ArgumentsThatLeaveNothingToDo", 2, {"--do_train False", "--do_eval or --do_predict"},
               {"--do_train", "False"}),
      argument("ArgumentOutOfRange", 2, {"--adam_beta1", "1.5", "[0, 1)"}, {"--adam_beta1", "1.5"}),
      argument("ArgumentZeroBatch", 2, {"--per_device_train_batch_size", "0"},
               {"--per_device_train_batch_size", "0"}),
      argument("ArgumentEnormousBatch", 2, {"--per_device_train_batch_size"},
               {"--per_device_train_batch_size", "9223372036854775807"}),
      argument("ArgumentEnormousData", 2, {"--dummy_num_samples"},
               {"--dummy_num_samples", "9223372036854775807"}),
      argument("ArgumentEnormousAccumulation", 2, {"--gradient_accumulation_steps"},
               {"--gradient_accumulation_steps", "9223372036854775807"}),
      argument("ArgumentManyDummyTokens", 2, {"--dummy_num_samples 2147483647 sequences", "give fewer"},
               {"--dummy_num_samples", "2147483647"}),
      argument("ArgumentEnormousLabels", 2, {"--num_labels: 1000000000 is outside"},
               {"--num_labels", "1000000000"}),
      argument("ArgumentWrongBool", 2, {"--do_eval", "maybe"}, {"--do_eval", "maybe"}),
      argument("ArgumentChoiceMistyped", 2, {"'epochs'", "did you mean 'epoch'"},
               {"--eval_strategy", "epochs"}),
      argument("RecomputeContradicts", 2, {"--gradient_checkpointing means --recompute full", "none"},
               {"--gradient_checkpointing", "--recompute", "none"}),
      argument("RecomputeUnknown", 2, {"--recompute", "all", "selective"}, {"--recompute", "all"}),
      argument("RecomputeBudgetTooSmall", 3,
               {"--recompute_budget 1.0 MiB: nothing fits", "MiB more; give --recompute_budget"},
               {"--recompute_budget", "1MiB"}),
      argument("ArgumentsContradict", 2, {"--fp16 and --bf16 exclude"}, {"--fp16", "--bf16"}),
      argument("ArgumentsBestWithoutEvaluation", 2, {"--load_best_model_at_end", "--eval_strategy is no"},
               {"--load_best_model_at_end"}),
      argument("ArgumentFp16OnCpu", 2, {"--fp16", "on a CPU"}, {"--fp16"}),
      argument("OffloadOptimizerOnCpu", 2, {"--offload_optimizer", "already", "cuda:0"},
               {"--offload_optimizer"}),
      argument("OffloadActivationsOnTheCpuThatWasAskedFor", 2, {"--offload_activations", "already", "cuda:0"},
               {"--offload_activations", "--device", "cpu"}),
      argument("OffloadActivationsWithABudget", 2,
               {"--recompute_budget", "--offload_activations", "one of them"},
               {"--offload_activations", "--recompute_budget", "1GiB"}),
      argument("PagedOptimizerOnCpu", 0, {"paged_adamw_8bit", "host's memory already"},
               {"--optim", "paged_adamw_8bit"}),
      argument("ArgumentFp16OnTheCpuThatWasAskedFor", 2, {"--fp16", "--bf16", "cuda:0"},
               {"--fp16", "--use_cpu"}),
      argument("ArgumentRefused", 2, {"--neftune_noise_alpha", "not in this version"},
               {"--neftune_noise_alpha", "5"}),
      // Where the CPU has bf16 instructions it is no mistake.
      cpu_has_bf16() ? argument("ArgumentBf16OnCpu", 0, {"bf16 mixed"}, {"--bf16"})
                     : argument("ArgumentBf16OnCpu", 2, {"--bf16", "leave it out"}, {"--bf16"}),
      argument("ArgumentFreezeMatchesNothing", 2,
               {"--freeze bert.embedings.*", "near it are bert.embeddings."},
               {"--freeze", "bert.embedings.*"}),
      argument("ArgumentFreezeAPart", 2, {"*.query.weight", "self.key.weight", "frozen together"},
               {"--freeze", "*.query.weight"}),
      argument("ArgumentLoraRank", 2, {"--lora_r: 0 is outside [1, 65536]"}, {"--lora_r", "0"}),
      argument("ArgumentFreezeEverything", 2, {"--freeze *", "nothing is left to train", "classifier"},
               {"--freeze", "*"}),
      argument("ArgumentLoraAlpha", 2, {"--lora_alpha", "-1", "(0, inf)"}, {"--lora_alpha", "-1"}),
      argument("ArgumentLoraBias", 2, {"--lora_bias all", "--modules_to_save"}, {"--lora_bias", "all"}),
      argument("ArgumentFourBitsOfNothing", 2, {"--load_in_4bit", "--lora_r"}, {"--load_in_4bit"}),
      argument("ArgumentBothBits", 2, {"--load_in_4bit and --load_in_8bit"},
               {"--lora_r", "2", "--load_in_4bit", "--load_in_8bit"}),
      argument("ArgumentLoraTarget", 2, {"--lora_target_modules quary", "near it are query"},
               {"--lora_target_modules", "quary"}),
      argument("ArgumentLoraExpression", 2, {"no regular expression"}, {"--lora_target_modules", ".*[query"}),
      argument("ArgumentLoraModuleToSave", 2, {"--modules_to_save poler"}, {"--modules_to_save", "poler"}),
      argument("ArgumentOptimizerUnknown", 2, {"--optim", "did you mean 'adamw_torch'"},
               {"--optim", "adamw_troch"}),
      argument("ArgumentOptimizerNotHere", 2, {"galore_adamw", "low rank", "--optim adamw_8bit"},
               {"--optim", "galore_adamw"}),
      argument("ArgumentOptimizerSetting", 2, {"momentun"},
               {"--optim", "sgd", "--optim_args", "momentun=0.9"}),
      {"ArgumentScheduleSetting",
       2,
       {"num_cycle", "num_cycles"},
       [](const Ground& ground) {
         Words command =
             ground.train_dummy({"--lr_scheduler_type", "cosine", "--lr_scheduler_kwargs", "num_cycle=2"});
         std::erase(command, "--dry_run");
         return command;
       }},
      argument("ArgumentEnormousSteps", 2, {"--max_steps"}, {"--max_steps", "1000000000000"}),
      argument("ArgumentEnormousEpochs", 2, {"--num_train_epochs"}, {"--num_train_epochs", "1e30"}),
      argument("ArgumentOldName", 0, {"old name", "eval_strategy"}, {"--evaluation_strategy", "epoch"}),
      argument("ArgumentRemovedName", 0, {"logging_dir", "ignored"}, {"--logging_dir", "logs"}),
      argument("ArgumentDeviceNotHere", 7, {"--device cuda:99", "--device cpu"}, {"--device", "cuda:99"}),
      {"ArgumentDeviceOfTheTable",
       2,
       {"--device h200", "plan", "cuda:N"},
       [](const Ground& ground) {
         Words command = ground.train_dummy({"--device", "h200"});
         std::erase(command, "--dry_run");
         return command;
       }},
      argument("ArgumentDryRunForACardThatIsNotHere", 0, {"not asked: rates of"}, {"--device", "h200"}),
      argument("ArgumentDeviceNotInTheTable", 2, {"--device h300", "h200", "cuda:N"}, {"--device", "h300"}),
      argument("ArgumentDeviceUnknown", 2, {"--device", "abacus"}, {"--device", "abacus"}),
      argument("ArgumentLabelNames", 2, {"--label_names", "--label_column_name"}, {"--label_names", "kind"}),
      argument("ArgumentPassUnknown", 2, {"--disable_pass nothing", "there are"},
               {"--disable_pass", "nothing"}),
      argument("ArgumentPassNeeded", 2, {"--disable_pass accumulate", "--gradient_accumulation_steps"},
               {"--disable_pass", "accumulate", "--gradient_accumulation_steps", "2"}),
      argument("ArgumentStopAfterUnknown", 2, {"--stop_after_pass nothing", "there are none, unread_rows"},
               {"--stop_after_pass", "nothing"}),
      argument("ArgumentStopAfterAPass", 0, {"--stop_after_pass fuse: left out are", "accumulate runs"},
               {"--stop_after_pass", "fuse", "--gradient_accumulation_steps", "2"}),
      argument("ArgumentOverrideUnknown", 2, {"hiden_size"}, {"--config_overrides", "hiden_size=3"}),
      argument("ArgumentOverrideBad", 2, {"hidden_size"}, {"--config_overrides", "hidden_size=15"}),
      argument("ArgumentVocabularyTooSmall", 2, {"begin at 100", "vocab_size is 54"},
               {"--config_overrides", "vocab_size=54"}),
      argument("ArgumentMemoryLimit", 3,
               {"--memory_limit", "1.0 MiB allowed (--memory_limit)", "--optim sgd"},
               {"--memory_limit", "1MiB"}),
      argument("ArgumentMemoryLimitUnit", 2, {"--memory_limit", "12 apples"},
               {"--memory_limit", "12 apples"}),
      argument("ArgumentGradientType", 2, {"--gradient_dtype bf16", "CPU", "leave it out"},
               {"--gradient_dtype", "bf16"}),
      argument("ArgumentProductsInBf16", 2, {"--matmul_precision bf16", "fp32", "--bf16"},
               {"--matmul_precision", "bf16"}),
      argument("ArgumentProductsContradict", 2, {"--tf32 True", "--matmul_precision tf32x3", "contradict"},
               {"--matmul_precision", "tf32x3", "--tf32"}),
      argument("ArgumentProductsOnACpu", 2, {"--matmul_precision tf32x3", "no TF32", "8.0"},
               {"--matmul_precision", "tf32x3"}),
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
      {"RunWithARateThatExplodes",
       5,
       {"step ", "the weights were not changed", "irst ", "Samples", "Try a lower"},
       [](const Ground& ground) {
         Words command =
             ground.train(ground.data(), {"--learning_rate", "1e30", "--max_grad_norm", "0", "--max_steps",
                                          "20", "--output_dir", ground.path("exploded")});
         std::erase(command, "--dry_run");
         return command;
       }},
      {"RunWithWeightsThatAreNaN",
       5,
       {"step 1", "the loss is nan", "First not finite: the weight 'classifier.weight'", "Samples",
        "take another copy"},
       [](const Ground& ground) {
         std::string text = read_file(ground.model() + "/model.safetensors");
         for (size_t i = text.size() - 128; i < text.size(); ++i) text[i] = '\xff';
         Words command = ground.train(ground.data(), {"--output_dir", ground.path("nan")});
         command[2] = ground.model_with("model.safetensors", text);
         std::erase(command, "--dry_run");
         return command;
       }},
      words("ArgumentNoModel", 2, {"no model", "--model_name_or_path"}, {"train", "--dataset_name", "dummy"}),
      words("ArgumentModelNotThere", 4, {"/nonexistent/model"},
            {"train", "--model_name_or_path", "/nonexistent/model", "--dataset_name", "dummy"}),
      words("ArgumentModelNotInCache", 4, {"bert-base-uncasd"},
            {"train", "--model_name_or_path", "bert-base-uncasd", "--dataset_name", "dummy"}),
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
      {"ArgumentLongerThanTheModel",
       0,
       {"warning: --max_seq_length 600", "32 tokens"},
       [](const Ground& ground) {
         return ground.train(ground.data(), {"--max_seq_length", "600"});
       }},
      words("ArgumentNoSuchGlueTask", 2, {"sst3", "sst2"},
            {"train", "--config_name", "bert-base-uncased", "--task_name", "sst3"}),
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
      {"ArgumentNoTokenizer",
       2,
       {"--tokenizer_name"},
       [](const Ground& ground) {
         return Words{"train", "--config_name", ground.model(), "--train_file", ground.data(), "--dry_run"};
       }},
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
      {"ArgumentOutputIsAFile",
       2,
       {"train.tsv", "is no folder"},
       [](const Ground& ground) {
         Words command = ground.train_dummy({"--output_dir", ground.data() + "/x"});
         std::erase(command, "--dry_run");
         return command;
       }},
      {"ArgumentMetricNotThere",
       2,
       {"--metric_for_best_model rouge", "eval_loss"},
       [](const Ground& ground) {
         Words command = ground.train_dummy(
             {"--output_dir", ground.path("metric"), "--load_best_model_at_end", "--eval_strategy", "steps",
              "--eval_steps", "1", "--save_steps", "1", "--metric_for_best_model", "rouge"});
         std::erase(command, "--dry_run");
         return command;
       }},
      argument("ArgumentTf32OfATuringCard", 2, {"--tf32: t4 has no TF32 (a GPU"},
               {"--device", "t4", "--tf32"}),
      argument("ArgumentPlanIntoNoFolder", 7,
               {"--json /nonexistent/p.json", "No such file or directory; check"},
               {"--json", "/nonexistent/p.json"}),
      words("FitWithABudget", 2,
            {"--recompute_budget: what it computes again is chosen for one batch", "leave it out"},
            {"fit", "--config_name", "bert-base-uncased", "--device", "l4", "--recompute_budget", "1GiB"}),
      words("FitSelective", 2, {"--recompute selective: what it computes again is chosen for one batch"},
            {"fit", "--config_name", "bert-base-uncased", "--device", "l4", "--recompute", "selective"}),
      words("FitPricesOfAFolder", 2, {"fit: --prices /tmp: a folder; name a file"},
            {"fit", "--config_name", "bert-base-uncased", "--device", "all", "--prices", "/tmp"}),
      words("FitPricesNotThere", 2, {"--prices /nonexistent", "No such file or directory; check its name"},
            {"fit", "--config_name", "bert-base-uncased", "--device", "all", "--prices", "/nonexistent"}),
      words("FitPricesEmpty", 2, {"--prices /dev/null: it has no price; write lines such as"},
            {"fit", "--config_name", "bert-base-uncased", "--device", "all", "--prices", "/dev/null"}),
      {"FitPriceOfNoCard",
       2,
       {"prices.csv:1: 'tpu' is no card that a plan can be made for; there are h200, "},
       [](const Ground& ground) {
         return Words{"fit",
                      "--config_name",
                      "bert-base-uncased",
                      "--device",
                      "all",
                      "--prices",
                      ground.file("prices.csv", "tpu,0.5\n")};
       }},
      words("InspectNotThere", 2, {"/nonexistent"}, {"inspect", "/nonexistent"}),
      words("InspectDataNotThere", 2, {"'train.tsv': no such file; check the path\n"},
            {"inspect", "train.tsv"}),
      words("InspectNoSuchModel", 2, {"and then use plimsoll inspect ./bret-base"}, {"inspect", "bret-base"}),
      words("InspectUnknownOption", 2, {"unknown option '--foo'"}, {"inspect", "--foo"}),
      {"InspectAPicture",
       2,
       {"loss.svg", "inspect knows", "'.svg'"},
       [](const Ground& ground) {
         return Words{"inspect", ground.run() + "/loss.svg"};
       }},
      words("CommandHelpOfACommand", 0, {"usage: plimsoll train ", "--learning_rate", "Peak learning rate"},
            {"help", "train"}),
      words("PlanHelp", 0, {"usage: plimsoll plan ", "--recompute text", "Every other argument of train"},
            {"plan", "--help"}),
      words("EvalHelp", 0,
            {"usage: plimsoll eval ", "--validation_file FILE", "Every other argument of train"},
            {"eval", "--help"}),
      words("PredictHelp", 0, {"usage: plimsoll predict ", "--test_file FILE"}, {"predict", "--help"}),
      {"ArgumentOutputFolderIsAFile",
       2,
       {"--output_dir ", "train.tsv is no folder; name another"},
       [](const Ground& ground) {
         Words words = ground.predict(ground.model());
         words[6] = ground.data();
         return words;
       }},
      argument("ArgumentDataWithoutItsName", 2,
               {"'rows.csv': expected --name value", "a data file follows --train_file"}, {"rows.csv"}),
      argument("ArgumentOutputIsEmpty", 2, {"--output_dir is empty"}, {"--output_dir", ""}),
      argument("ArgumentDummyLongerThanTheModel", 0, {"warning: --dummy_seq_length 100", "32 tokens"},
               {"--dummy_seq_length", "100"}),
      words("PlanLongerThanTheModel", 0, {"warning: --max_seq_length 1000", "512 tokens"},
            {"plan", "--config_name", "bert-base-uncased", "--max_seq_length", "1000", "--device", "cpu"}),
      words("InspectNothing", 2, {"usage"}, {"inspect"}),
      inspect("InspectLog", {"the log of a run", "to step 2", "loss", "ended: mean loss"}, "log.jsonl"),
      inspect("InspectPlan", {"a plan:", "MiB in all", "arena", "optimizer states"}, "plan.json"),
      inspect("InspectMemory", {"memory of a run", "predicted", "held"}, "memory.json"),
      inspect("InspectTrainerState", {"trainer_state.json", "at step 2 of 2", "the log of a run"},
              "checkpoint-2/trainer_state.json"),
      inspect("InspectResults", {"***** all metrics *****", "train_loss"}, "all_results.json"),
      inspect("InspectRunState", {"inspect its folder"}, "checkpoint-2/run_state.json"),
      inspect("InspectCheckpoint", {"checkpoint verifies", "step 2 of 2"}, "checkpoint-2"),
      {"InspectDamagedCheckpoint",
       4,
       {"checkpoint DAMAGED: ", "model.safetensors", "train.tsv: 8 rows"},
       [](const Ground& ground) {
         const std::string checkpoint = ground.run_copy() + "/checkpoint-2";
         std::string weights = read_file(checkpoint + "/model.safetensors");
         weights.back() = static_cast<char>(weights.back() ^ 1);
         ground.file(fs::relative(checkpoint, ground.path("")).string() + "/model.safetensors", weights);
         // What comes after it is shown all the same.
         return Words{"inspect", checkpoint, ground.data()};
       }},
      {"InspectDataWithSteps",
       0,
       {"2 rows", "'text'", "label"},
       [](const Ground& ground) {
         return Words{"inspect", ground.file("steps.jsonl",
                                             "{\"step\": 1, \"epoch\": 2, \"text\": \"a\", \"label\": 0}\n"
                                             "{\"step\": 1, \"epoch\": 2, \"text\": \"b\", \"label\": 1}\n")};
       }},
      {"RunBesideAReadmeOfSomebodyElse",
       0,
       {"README.md stays as it was"},
       [](const Ground& ground) {
         const std::string run = ground.path("with_readme");
         fs::create_directories(run);
         ground.file("with_readme/README.md", "# mine\n");
         Words command = ground.train(ground.data(), {"--max_steps", "1", "--output_dir", run});
         std::erase(command, "--dry_run");
         return command;
       }},
      {"RunWithAReadmeOfItsOwn",
       0,
       {"memory.svg, README.md\n"},
       [](const Ground& ground) {
         Words command =
             ground.train(ground.data(), {"--max_steps", "1", "--output_dir", ground.path("fresh")});
         std::erase(command, "--dry_run");
         return command;
       }},
      words("TokenizeNoTokenizer", 2, {"--tokenizer_name"}, {"tokenize"}),
      words("TokenizeNoFolder", 2, {"--tokenizer_name needs a folder"}, {"tokenize", "--tokenizer_name"}),
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
      {"TokenizeAFolder",
       2,
       {"a folder", "a file of lines"},
       [](const Ground& ground) {
         return Words{"tokenize", "--tokenizer_name", ground.model(), ground.model()};
       }},
  };
}

}  // namespace plimsoll::testing
