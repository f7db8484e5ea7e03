// Test cases of bad input: files that contain the arguments of a run, and the files of a tokenizer other than
// tokenizer.json.
#include <filesystem>

#include "tests/bad_input/ground.h"

namespace plimsoll::testing {
// The suffix s makes a std::string of a literal with its full length, so that it can contain NUL bytes.
using namespace std::string_literals;
namespace {

const std::string kSettingsPointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n";

// Makes a test case that plans a run whose arguments are in a file with this content.
Case settings(std::string name, int exit_code, Words message, std::string file, std::string text) {
  return {std::move(name), exit_code, std::move(message),
          [file = std::move(file), text = std::move(text)](const Ground& ground) {
            return Words{"plan", ground.file(file, text), "--config_name", ground.model(), "--use_cpu"};
          }};
}

std::vector<Case> json_settings() {
  const auto json = [](std::string name, Words message, std::string text, int exit_code = 2) {
    return settings(std::move(name), exit_code, std::move(message), "settings.json", std::move(text));
  };
  return {
      json("SettingsGood", {"batch 4 x"}, "{\"per_device_train_batch_size\": 4}", 0),
      json("SettingsNull", {"batch 8 x"}, "{\"per_device_train_batch_size\": null}", 0),
      json("SettingsByteOrderMark", {"batch 4 x"}, "\xef\xbb\xbf{\"per_device_train_batch_size\": 4}", 0),
      json("SettingsEmpty", {"settings.json:1:1: not valid JSON"}, ""),
      json("SettingsList", {"settings.json:1: expected one object of settings, got a JSON array"}, "[1]"),
      json("SettingsText", {"got a JSON string"}, "\"seed\""),
      json("SettingsCut", {"settings.json:1:10: not valid JSON"}, "{\"seed\": 1"),
      json("SettingsTrailing", {"not valid JSON", "expected end of input"}, "{\"seed\": 1} x"),
      json("SettingsTwice", {"seed: the key occurs twice, first on line 1; keep one"},
           "{\"seed\": 1,\n\"seed\": 2}"),
      json("SettingsMistyped",
           {"settings.json:2: lerning_rate: unknown setting, did you mean 'learning_rate'?"},
           "{\n\"lerning_rate\": 1}"),
      json("SettingsWithDashes", {"--seed: unknown setting, did you mean 'seed'?"}, "{\"--seed\": 1}"),
      json("SettingsObject", {"seed: expected an integer, got an object"}, "{\"seed\": {\"a\": 1}}"),
      json("SettingsListForNumber", {"seed: expected an integer, got a list"}, "{\"seed\": [1]}"),
      json("SettingsFlagForNumber", {"learning_rate: expected a number, got the flag true"},
           "{\"learning_rate\": true}"),
      json("SettingsTextForFlag", {"do_eval: expected true or false, got the text 'maybe'"},
           "{\"do_eval\": \"maybe\"}"),
      json("SettingsNumberForFlag", {"do_eval: expected true or false, got the number 2"},
           "{\"do_eval\": 2}"),
      json("SettingsHuge", {"max_steps: expected an integer, got the number 1e+30"}, "{\"max_steps\": 1e30}"),
      json("SettingsInfinite", {"learning_rate: expected a number of at most 1.8e308"},
           "{\"learning_rate\": 1e999}"),
      json("SettingsNaN", {"not valid JSON", "invalid literal"}, "{\"learning_rate\": NaN}"),
      json("SettingsDeep", {"nested deeper than 32 levels"},
           "{\"seed\": " + std::string(100000, '[') + std::string(100000, ']') + "}"),
      json("SettingsLatin1", {"byte 0xE9 is not valid UTF-8"}, "{\"run_name\": \"\xe9\"}"),
      json("SettingsNul", {"a NUL byte (0x00)"}, "{\"run_name\": \"a\0b\"}"s),
      json("SettingsEscapedNul", {"run_name: expected a text, got a text with a NUL byte"},
           "{\"run_name\": \"a\\u0000b\"}"),
      json("SettingsHalfSurrogate", {"not valid JSON", "surrogate"}, "{\"run_name\": \"\\ud800\"}"),
      json("SettingsComment", {"not valid JSON"}, "// comment\n{\"seed\": 1}"),
      json("SettingsSingleQuotes", {"not valid JSON"}, "{'seed': 1}"),
      json("SettingsListOfNumbers",
           {"lora_target_modules: expected a list of texts, got a list with the number 3"},
           "{\"lora_target_modules\": [\"query\", 3]}"),
      json("SettingsPointer", {"settings.json: the file is a Git LFS pointer", "git lfs pull"},
           kSettingsPointer),
      json("SettingsGzip", {"settings.json", "gzip"}, "\x1f\x8b\x08\x00"s),
      json("SettingsWebPage", {"settings.json: the file is a web page"}, "<!DOCTYPE html><html></html>"),
      json("SettingsUtf16", {"settings.json", "UTF-16"}, "\xff\xfe{\0"s),
  };
}

std::vector<Case> yaml_settings() {
  const auto yaml = [](std::string name, Words message, std::string text, int exit_code = 2) {
    return settings(std::move(name), exit_code, std::move(message), "settings.yaml", std::move(text));
  };
  return {
      yaml("YamlGood", {"batch 4 x"}, "per_device_train_batch_size: 4\n", 0),
      yaml("YamlBlock", {"batch 4 x"}, "run_name: |\n  a\n  b\n\nper_device_train_batch_size: 4\n", 0),
      yaml("YamlEmpty", {"batch 8 x"}, "", 0),
      yaml("YamlList", {"settings.yaml:1: expected lines of `setting: value`, got a list"}, "- a\n- b\n"),
      yaml("YamlTab", {"settings.yaml:2: not YAML: illegal tab"}, "seed: 1\n\tmax_steps: 1\n"),
      yaml("YamlTwice", {"settings.yaml:2: seed: the key occurs twice"}, "seed: 1\nseed: 2\n"),
      yaml("YamlNoColon", {"settings.yaml:1:"}, "seed 1\n"),
      yaml("YamlOpenList", {"settings.yaml:1: not YAML: end of sequence flow not found"},
           "lora_target_modules: [query, \n"),
      yaml("YamlOpenQuote", {"settings.yaml:2: not YAML: illegal EOF in scalar"},
           "run_name: \"abc\nseed: 3\n"),
      yaml("YamlOpenSingleQuote", {"settings.yaml:2: not YAML: illegal EOF in scalar"},
           "run_name: 'abc\nseed: 3\n"),
      yaml("YamlTwoDocuments", {"a second document begins here"}, "seed: 1\n---\nseed: 2\n"),
      yaml("YamlUnknownAnchor", {"the referenced anchor is not defined"}, "seed: *x\n"),
      yaml("YamlInvalidUtf8", {"settings.yaml:1:11: not YAML: byte 0xFF"}, "run_name: \xff\n"),
      yaml("YamlPointer", {"settings.yaml: the file is a Git LFS pointer"}, kSettingsPointer),
      yaml("YamlNested", {"a: unknown setting"}, "a:\n  b: 1\n"),
  };
}

// Cases that plan a run with a configuration of DeepSpeed, FSDP or Accelerate.
std::vector<Case> foreign_configs() {
  const auto foreign = [](std::string name, int exit_code, Words message, std::string argument,
                          std::string text, Words more = {}) {
    return Case{std::move(name), exit_code, std::move(message),
                [argument = std::move(argument), text = std::move(text),
                 more = std::move(more)](const Ground& ground) {
                  Words words{"plan",      "--config_name", ground.model(),
                              "--use_cpu", argument,        ground.file("foreign.json", text)};
                  words.insert(words.end(), more.begin(), more.end());
                  return words;
                }};
  };
  const auto deepspeed = [&](std::string name, Words message, std::string text, Words more = {}) {
    return foreign(std::move(name), 2, std::move(message), "--deepspeed", std::move(text), std::move(more));
  };
  return {
      foreign("DeepspeedGood", 0,
              {"batch 4 x", "foreign.json sets --per_device_train_batch_size 4",
               "zero_optimization.overlap_comm"},
              "--deepspeed",
              "{\"train_micro_batch_size_per_gpu\": 4, \"zero_optimization\": {\"overlap_comm\": true}}"),
      deepspeed("DeepspeedEmpty", {"foreign.json:1:1: not valid JSON"}, ""),
      deepspeed("DeepspeedComment", {"foreign.json:1:", "not valid JSON"}, "// ZeRO\n{}"),
      deepspeed("DeepspeedList", {"expected one object of settings, got a JSON array"}, "[]"),
      deepspeed("DeepspeedMistyped", {"'gradient_cliping': unknown key, did you mean 'gradient_clipping'?"},
                "{\"gradient_cliping\": 1}"),
      deepspeed("DeepspeedWrongType", {"'zero_optimization.stage': expected an integer, got the text 'two'"},
                "{\"zero_optimization\": {\"stage\": \"two\"}}"),
      deepspeed("DeepspeedRefusedKey",
                {"'zero_optimization.zero_quantized_weights' is true: in this version weights are exchanged "
                 "in the type in which they are stored",
                 "remove the key"},
                "{\"zero_optimization\": {\"zero_quantized_weights\": true}}"),
      deepspeed("DeepspeedContradicts",
                {"'optimizer.params.lr' is 3e-05, but --learning_rate is 5e-05", "write \"auto\""},
                "{\"optimizer\": {\"params\": {\"lr\": 3e-5}}}", {"--learning_rate", "5e-5"}),
      deepspeed("DeepspeedBatchOfAnotherProduct",
                {"--train_batch_size 64: a step of this run has 8 x 1 x 1 sequences",
                 "give --gradient_accumulation_steps 8"},
                "{\"train_batch_size\": 64}"),
      deepspeed("DeepspeedDeep", {"nested deeper than 32 levels"},
                "{\"amp\": " + std::string(100000, '[') + std::string(100000, ']') + "}"),
      words("DeepspeedNotThere", 2, {"--deepspeed none.json: cannot read settings: the file does not exist"},
            {"plan", "--deepspeed", "none.json"}),
      words("DeepspeedAndFsdp", 2, {"--deepspeed and --fsdp exclude each other"},
            {"plan", "--deepspeed", "{}", "--fsdp", "full_shard"}),
      words("FsdpMistyped", 2, {"--fsdp: 'full_shards' is not one of", "did you mean 'full_shard'?"},
            {"plan", "--fsdp", "full_shards"}),
      words("FsdpHybrid", 2, {"--fsdp: 'hybrid_shard': ", "not in this version; give full_shard"},
            {"plan", "--fsdp", "hybrid_shard auto_wrap"}),
      foreign("FsdpConfigForTpus", 2, {"'xla' is true: TPUs are not supported; remove the key"},
              "--fsdp_config", "{\"xla\": true}", {"--fsdp", "full_shard"}),
      foreign("ParallelismOfTensors", 2, {"--tp_size 2 needs the norm of the gradients of all processes"},
              "--parallelism_config", "{\"tp_size\": 2}",
              {"--optimizer_in_backward", "--max_grad_norm", "0"}),
      foreign("ParallelismOfTokensTwice", 2,
              {"'sp_size' is 2, but another key also sets --cp_size, to 2: both state"},
              "--parallelism_config", "{\"cp_size\": 2, \"sp_size\": 2}"),
      deepspeed("DeepspeedSequenceParallel",
                {"--cp_size 2: 1 process (--nproc_per_node x --nnodes) cannot be divided into groups of 2"},
                "{\"sequence_parallel_size\": 2}"),
      foreign("TokensAndLayers", 2,
              {"--cp_size 2 divides the rows of activations between processes with whole weights, and "
               "--tp_size 2 divides the weights; give one of them"},
              "--parallelism_config", "{\"cp_size\": 2, \"tp_size\": 2}"),
      foreign("TokensAmongMoreThanHeads", 2,
              {"--cp_size 64: the attention heads of this model (num_attention_heads in config.json is",
               "cannot be divided among 64 processes; give a --cp_size that divides"},
              "--parallelism_config", "{\"cp_size\": 64}"),
      foreign("TokensAndUpdatesInTheBackwardPass", 2,
              {"--cp_size 2 sums the gradients of the processes before the update, but "
               "--optimizer_in_backward does not wait for them"},
              "--parallelism_config", "{\"cp_size\": 2}",
              {"--optimizer_in_backward", "True", "--max_grad_norm", "0"}),
      foreign("ParallelismOfAnotherNumber", 2,
              {"'dp_shard_size' is 4, but --nproc_per_node 2 and --nnodes 1 start 2; change one of them"},
              "--parallelism_config", "{\"dp_shard_size\": 4}", {"--nproc_per_node", "2"}),
  };
}

std::vector<Case> settings_files() {
  return {
      words("SettingsNotThere", 2, {"none.json: cannot read settings: the file does not exist"},
            {"plan", "none.json"}),
      words("SettingsOfAnotherFormat", 2, {"'a.toml': expected --name value, or a file of settings"},
            {"plan", "a.toml"}),
      {"SettingsAreAFolder",
       2,
       {"folder.json: cannot read settings: it is not a file"},
       [](const Ground& ground) {
         std::filesystem::create_directories(ground.path("folder.json"));
         return Words{"plan", ground.path("folder.json")};
       }},
      words("ExperimentsOfNoKind", 2, {"plan: --experiments: 'some' is not one of documents, all"},
            {"plan", "--experiments", "some"}),
      words("ExperimentsMistyped", 2, {"--lerning_rate: unknown setting"},
            {"plan", "--experiments", "--lerning_rate", "1"}),
      words("ExperimentsThatAllRefuse", 2, {"none of the experiments can be planned: --bf16: t4 has no bf16"},
            {"plan", "--experiments", "--device", "t4", "--bf16"}),
      words("BenchOnACardThatIsNotHere", 2,
            {"plimsoll plan --experiments --device l4 prints the predictions"},
            {"bench", "--experiments", "--device", "l4"}),
      words("BenchOfADryRun", 2, {"bench: --dry_run: bench measures runs", "plimsoll plan"},
            {"bench", "--experiments", "--config_name", "bert-base-uncased", "--use_cpu", "--dry_run"}),
      {"CompletionOfOptimizersAndPasses",
       0,
       {"adafactor", "adamw_torch", "recompute"},
       [](const Ground&) {
         return Words{"completion", "bash"};
       }},
      words("BenchOfNothing", 2, {"bench: give --experiments, or --parallel, or --sweep"},
            {"bench", "--seed", "1"}),
      words("LinksOfOneProcess", 2,
            {"bench: --links: links are measured between processes", "--nproc_per_node 2"},
            {"bench", "--links", "--use_cpu"}),
      words("LinksOfNoSize", 2, {"bench: --links 5: expected a size from 1KiB to 4GiB"},
            {"bench", "--links", "5", "--use_cpu", "--nproc_per_node", "2"}),
      words("LinksOfTooManyBytes", 2, {"bench: --links 5GiB: expected a size from 1KiB to 4GiB"},
            {"bench", "--links", "5GiB", "--use_cpu", "--nproc_per_node", "2"}),
      words("LinksWithoutTime", 2, {"bench: --seconds 0: expected a number of seconds from 0.01"},
            {"bench", "--links", "--seconds", "0", "--use_cpu", "--nproc_per_node", "2"}),
      words("SecondsWithoutLinks", 2, {"bench: --seconds has no effect without --links"},
            {"bench", "--experiments", "--seconds", "1"}),
      words("LinksAndMore", 2, {"bench: give --experiments, or --parallel, or --sweep"},
            {"bench", "--links", "--calibrate"}),
      words("DiskOfNoFolder", 2, {"bench: --disk /nowhere: '/nowhere' does not exist"},
            {"bench", "--disk", "/nowhere"}),
      words("DiskAndMore", 2, {"bench: --disk only measures the disk, so --use_cpu has no effect"},
            {"bench", "--disk", "/tmp", "--use_cpu"}),
      words("LinkCalibrationThatIsMissing", 4, {"/nowhere/links.json"},
            {"plan", "--config_name", "bert-base-uncased", "--use_cpu", "--nproc_per_node", "2",
             "--link_calibration", "/nowhere/links.json"}),
      words("BenchWithoutRuns", 2, {"--repeats 0: expected a number of runs from 1 to 100"},
            {"bench", "--experiments", "--repeats", "0"}),
      words("BenchSweepWithoutValues", 2, {"--sweep seed: expected NAME=VALUE"},
            {"bench", "--sweep", "seed"}),
      words("BenchSweepOfNoArgument", 2, {"--sweep nope=1: 'nope' is not an argument"},
            {"bench", "--sweep", "nope=1"}),
      words("BenchSweepEmptyValue", 2, {"--sweep seed=1,,2: a value is empty"},
            {"bench", "--sweep", "seed=1,,2"}),
      words("FitMemoryOfNoSize", 2, {"--memory: expected a size", "'much'"},
            {"fit", "--config_name", "bert-base-uncased", "--memory", "much"}),
      words("FitEnormousBatch", 2, {"--effective_batch_size 99999999: expected 1 to 65536"},
            {"fit", "--config_name", "bert-base-uncased", "--device", "l4", "--effective_batch_size",
             "99999999"}),
      words("FitNoSamples", 2, {"fit: --epoch_samples 0: expected an integer of at least 1"},
            {"fit", "--config_name", "bert-base-uncased", "--device", "all", "--epoch_samples", "0"}),
      words("FitEmptyCard", 2, {"fit: --device l4,,t4: a name is empty"},
            {"fit", "--config_name", "bert-base-uncased", "--device", "l4,,t4"}),
      words("FitOnCardsThatAllRefuse", 2, {"--bf16: t4 has no bf16"},
            {"fit", "--config_name", "bert-base-uncased", "--device", "t4,v100-16gb", "--bf16"}),
      words("FitOnCardsOfWhichOneRefuses", 0,
            {"not possible on t4: this run: --bf16: t4 has no bf16", "on l4: "},
            {"fit", "--config_name", "bert-base-uncased", "--device", "t4,l4", "--bf16",
             "--effective_batch_size", "1"}),
      words("MonitorWatchOfNoTime", 2, {"monitor: --watch -1: expected seconds"},
            {"monitor", "--watch", "-1"}),
      words("MonitorOfNoDevice", 2, {"--device x: expected the number of a GPU"},
            {"monitor", "--device", "x"}),
      words("MonitorWord", 2, {"monitor: unknown argument 'word'"}, {"monitor", "word"}),
      words("PlanJsonNowhere", 7, {"--json /nonexistent/x: cannot write the file"},
            {"plan", "--config_name", "bert-base-uncased", "--use_cpu", "--json", "/nonexistent/x"}),
      words("TrainReportNowhere", 7, {"--html /nonexistent/x: cannot write the file"},
            {"train", "--config_name", "bert-base-uncased", "--dataset_name", "dummy", "--use_cpu", "--html",
             "/nonexistent/x"}),
  };
}

Case tokenizer_file(std::string name, Words message, std::string file, std::string text, int exit_code = 4) {
  return {std::move(name), exit_code, std::move(message),
          [file = std::move(file), text = std::move(text)](const Ground& ground) {
            return ground.train(ground.data(), {"--tokenizer_name", ground.model_with(file, text)});
          }};
}

std::vector<Case> vocabulary_cases() {
  const std::string deep = "{\"a\": " + std::string(100000, '[') + std::string(100000, ']') + "}";
  const auto vocabulary = [](std::string name, Words message, std::string text) {
    return tokenizer_file(std::move(name), std::move(message), "vocab.txt", std::move(text));
  };
  const auto config = [](std::string name, Words message, std::string text, int exit_code = 4) {
    return tokenizer_file(std::move(name), std::move(message), "tokenizer_config.json", std::move(text),
                          exit_code);
  };
  const auto map = [](std::string name, Words message, std::string text) {
    return tokenizer_file(std::move(name), std::move(message), "special_tokens_map.json", std::move(text));
  };
  const auto added = [](std::string name, Words message, std::string text) {
    return tokenizer_file(std::move(name), std::move(message), "added_tokens.json", std::move(text));
  };
  return {
      vocabulary("VocabularyOfBlankLines", {"vocab.txt has 1 tokens but not '[UNK]'"}, std::string(50, '\n')),
      vocabulary("VocabularyWithoutClass", {"but not '[CLS]' (cls_token)"}, "[PAD]\n[UNK]\n[SEP]\n[MASK]\n"),
      vocabulary("VocabularyWithoutSeparator", {"but not '[SEP]' (sep_token)"},
                 "[PAD]\n[UNK]\n[CLS]\n[MASK]\n"),
      vocabulary("VocabularyOfJson", {"vocab.txt has 1 tokens but not '[UNK]'"}, "{\"[UNK]\": 0}"),
      vocabulary("VocabularyOfOldMacintosh", {"but not '[UNK]'"}, "[PAD]\r[UNK]\r[CLS]\r[SEP]\r[MASK]\r"),
      vocabulary("VocabularyOfUtf16", {"vocab.txt: the file is text in UTF-16"}, "\xff\xfe[\0U\0"s),
      config("TokenizerConfigGood", {"train 8 rows"}, "{}", 0),
      config("TokenizerConfigLowerNull", {"train 8 rows"}, "{\"do_lower_case\": null}", 0),
      config("TokenizerConfigHugeLength", {"train 8 rows"}, "{\"model_max_length\": 1e30}", 0),
      config("TokenizerConfigDeep", {"tokenizer_config.json", "nested deeper than 256 levels"}, deep),
      config("TokenizerConfigList", {"tokenizer_config.json: the document should be an object"}, "[]"),
      config("TokenizerConfigClassNumber", {"tokenizer_class should be a string"},
             "{\"tokenizer_class\": 3}"),
      config("TokenizerConfigLowerText", {"do_lower_case should be true or false"},
             "{\"do_lower_case\": \"yes\"}"),
      config("TokenizerConfigAccentsNumber", {"strip_accents should be true or false"},
             "{\"strip_accents\": 3}"),
      config("TokenizerConfigNegativeLength", {"model_max_length is -5"}, "{\"model_max_length\": -5}"),
      config("TokenizerConfigUnknownToken", {"but not '<unk>' (unk_token)"}, "{\"unk_token\": \"<unk>\"}"),
      config("TokenizerConfigTokenNumber", {"unk_token should be an object"}, "{\"unk_token\": 3}"),
      config("TokenizerConfigAddedList", {"added_tokens_decoder should be an object"},
             "{\"added_tokens_decoder\": []}"),
      config("TokenizerConfigAddedKey", {"the key 'x' should be a token's id"},
             "{\"added_tokens_decoder\": {\"x\": {\"content\": \"a\"}}}"),
      config("TokenizerConfigAddedHugeKey", {"should be a token's id"},
             "{\"added_tokens_decoder\": {\"99999999999999999999\": {\"content\": \"a\"}}}"),
      config("TokenizerConfigAddedBeyond", {"added token 'abc' is stored with id 5000"},
             "{\"added_tokens_decoder\": {\"5000\": {\"content\": \"abc\"}}}"),
      config("TokenizerConfigAddedWithoutText", {"added_tokens_decoder.5.content is missing"},
             "{\"added_tokens_decoder\": {\"5\": {}}}"),
      config("TokenizerConfigSide", {"truncation_side is 'up' but should be 'left' or 'right'"},
             "{\"truncation_side\": \"up\"}"),
      config("TokenizerConfigHalfSurrogate", {"not valid JSON", "surrogate"}, "{\"unk_token\": \"\\ud800\"}"),
      map("TokenMapList", {"special_tokens_map.json: the document should be an object"}, "[]"),
      map("TokenMapNumber", {"unk_token should be an object"}, "{\"unk_token\": 3}"),
      map("TokenMapWithoutText", {"cls_token.content is missing"}, "{\"cls_token\": {\"a\": 1}}"),
      map("TokenMapUnknownToken", {"but not 'nope' (sep_token)"}, "{\"sep_token\": \"nope\"}"),
      map("TokenMapCut", {"special_tokens_map.json: line 1, column 3: not valid JSON"}, "{\"a"),
      map("TokenMapDeep", {"nested deeper than 256 levels"}, deep),
      added("AddedTokensList", {"added_tokens.json: the document should be an object"}, "[]"),
      added("AddedTokensText", {"abc should be an integer"}, "{\"abc\": \"5\"}"),
      added("AddedTokensNegative", {"abc: id -1 is outside"}, "{\"abc\": -1}"),
      added("AddedTokensBeyond", {"added token 'abc' is stored with id 5000"}, "{\"abc\": 5000}"),
      added("AddedTokensDeep", {"nested deeper than 256 levels"}, deep),
  };
}

}  // namespace

std::vector<Case> settings_cases() {
  return joined({json_settings(), yaml_settings(), foreign_configs(), settings_files(), vocabulary_cases()});
}

}  // namespace plimsoll::testing
