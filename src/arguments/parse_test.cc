// Compares the table of settings with Hugging Face's names, and tests the parser of command lines.
#include "plimsoll/arguments.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "arguments/argument_table.h"
#include "arguments/testing/parse_words.h"
#include "arguments/value.h"

namespace plimsoll {
namespace {

using test::error_of;
using test::parse;

// The names of all fields that the constructor of TrainingArguments accepts in transformers 5.23.
constexpr std::array kTrainingArguments = {"output_dir",
                                           "per_device_train_batch_size",
                                           "num_train_epochs",
                                           "max_steps",
                                           "learning_rate",
                                           "lr_scheduler_type",
                                           "lr_scheduler_kwargs",
                                           "warmup_steps",
                                           "optim",
                                           "optim_args",
                                           "weight_decay",
                                           "adam_beta1",
                                           "adam_beta2",
                                           "adam_epsilon",
                                           "optim_target_modules",
                                           "gradient_accumulation_steps",
                                           "average_tokens_across_devices",
                                           "max_grad_norm",
                                           "label_smoothing_factor",
                                           "bf16",
                                           "fp16",
                                           "bf16_full_eval",
                                           "fp16_full_eval",
                                           "tf32",
                                           "activation_checkpointing",
                                           "activation_checkpointing_kwargs",
                                           "gradient_checkpointing",
                                           "gradient_checkpointing_kwargs",
                                           "torch_compile",
                                           "torch_compile_backend",
                                           "torch_compile_mode",
                                           "use_liger_kernel",
                                           "liger_kernel_config",
                                           "use_cache",
                                           "neftune_noise_alpha",
                                           "torch_empty_cache_steps",
                                           "auto_find_batch_size",
                                           "logging_strategy",
                                           "logging_steps",
                                           "logging_first_step",
                                           "log_on_each_node",
                                           "logging_nan_inf_filter",
                                           "include_num_input_tokens_seen",
                                           "log_level",
                                           "log_level_replica",
                                           "disable_tqdm",
                                           "report_to",
                                           "run_name",
                                           "project",
                                           "trackio_space_id",
                                           "trackio_bucket_id",
                                           "trackio_static_space_id",
                                           "eval_strategy",
                                           "eval_steps",
                                           "eval_delay",
                                           "per_device_eval_batch_size",
                                           "prediction_loss_only",
                                           "eval_on_start",
                                           "eval_do_concat_batches",
                                           "eval_use_gather_object",
                                           "eval_accumulation_steps",
                                           "include_for_metrics",
                                           "batch_eval_metrics",
                                           "save_only_model",
                                           "save_strategy",
                                           "save_steps",
                                           "save_on_each_node",
                                           "save_total_limit",
                                           "enable_jit_checkpoint",
                                           "push_to_hub",
                                           "hub_token",
                                           "hub_private_repo",
                                           "hub_model_id",
                                           "hub_strategy",
                                           "hub_always_push",
                                           "hub_revision",
                                           "load_best_model_at_end",
                                           "metric_for_best_model",
                                           "greater_is_better",
                                           "ignore_data_skip",
                                           "restore_callback_states_from_checkpoint",
                                           "full_determinism",
                                           "seed",
                                           "data_seed",
                                           "use_cpu",
                                           "accelerator_config",
                                           "parallelism_config",
                                           "dataloader_drop_last",
                                           "dataloader_num_workers",
                                           "dataloader_pin_memory",
                                           "dataloader_persistent_workers",
                                           "dataloader_prefetch_factor",
                                           "dataloader_multiprocessing_context",
                                           "dataloader_in_order",
                                           "remove_unused_columns",
                                           "label_names",
                                           "train_sampling_strategy",
                                           "length_column_name",
                                           "ddp_find_unused_parameters",
                                           "ddp_bucket_cap_mb",
                                           "ddp_broadcast_buffers",
                                           "ddp_static_graph",
                                           "ddp_backend",
                                           "ddp_timeout",
                                           "fsdp",
                                           "fsdp_config",
                                           "deepspeed",
                                           "debug",
                                           "skip_memory_metrics",
                                           "do_train",
                                           "do_eval",
                                           "do_predict",
                                           "resume_from_checkpoint",
                                           "local_rank"};

// The arguments of Hugging Face's example script run_glue.
constexpr std::array kRunGlue = {"model_name_or_path",
                                 "config_name",
                                 "tokenizer_name",
                                 "cache_dir",
                                 "use_fast_tokenizer",
                                 "model_revision",
                                 "token",
                                 "trust_remote_code",
                                 "ignore_mismatched_sizes",
                                 "task_name",
                                 "dataset_name",
                                 "dataset_config_name",
                                 "max_seq_length",
                                 "overwrite_cache",
                                 "pad_to_max_length",
                                 "max_train_samples",
                                 "max_eval_samples",
                                 "max_predict_samples",
                                 "train_file",
                                 "validation_file",
                                 "test_file"};

// Names in kTrainingArguments that were added after Transformers 5.0. The documentation of 5.0 lists the other 110.
constexpr std::array kSinceVersion5 = {"activation_checkpointing", "activation_checkpointing_kwargs",
                                       "dataloader_multiprocessing_context", "dataloader_in_order"};

TEST(ArgumentTable, HoldsEveryNameOfTrainingArguments) {
  EXPECT_EQ(kTrainingArguments.size() - kSinceVersion5.size(), 110u);
  std::set<std::string_view> expected(kTrainingArguments.begin(), kTrainingArguments.end());
  ASSERT_EQ(expected.size(), kTrainingArguments.size());
  std::set<std::string_view> found;
  for (const ArgumentInfo& info : argument_table()) {
    if (info.origin == ArgumentOrigin::kTrainer) found.insert(info.name);
  }
  EXPECT_EQ(found, expected);
}

TEST(ArgumentTable, HoldsEveryNameOfRunGlue) {
  for (const char* name : kRunGlue) {
    const Setting* setting = find_setting(name);
    ASSERT_NE(setting, nullptr) << name;
    EXPECT_EQ(setting->info.origin, ArgumentOrigin::kScript) << name;
  }
}

TEST(ArgumentTable, EveryRowIsWellFormed) {
  const Arguments defaults;
  for (const Setting& setting : settings()) {
    const ArgumentInfo& info = setting.info;
    EXPECT_TRUE(info.help.ends_with('.')) << info.name;
    EXPECT_EQ(info.note.empty(), info.status == ArgumentStatus::kImplemented) << info.name;
    EXPECT_FALSE(info.note.ends_with('.')) << info.name;
    EXPECT_NO_THROW(check_range(defaults, setting, info.name)) << info.name;
    EXPECT_EQ(find_old_name(info.name), nullptr) << info.name << " is both current and old";
  }
}

TEST(ArgumentTable, EveryIntervalRefusesNanAndAWrongSide) {
  int num_intervals = 0;
  for (const Setting& setting : settings()) {
    if (setting.info.range.empty() || setting.info.range.find('|') != std::string_view::npos) continue;
    ++num_intervals;
    Arguments arguments;
    if (const auto* real = std::get_if<double Arguments::*>(&setting.member)) {
      arguments.** real = std::numeric_limits<double>::quiet_NaN();
    } else {
      // The values of this test are permitted for all settings: 1 is within the interval of every real setting, and 3
      // within that of every integer setting.
      const bool is_real = std::holds_alternative<std::optional<double> Arguments::*>(setting.member);
      set_from_text(arguments, setting, setting.info.unit == "bytes" ? "1B" : is_real ? "1" : "3", "x");
      EXPECT_THROW(set_from_text(arguments, setting, is_real ? "-1e9" : "-2", "x"), Error)
          << setting.info.name;
      continue;
    }
    EXPECT_THROW(check_range(arguments, setting, "x"), Error) << setting.info.name;
  }
  EXPECT_GT(num_intervals, 30);
}

// The arguments of LoraConfig (peft 0.21) and BitsAndBytesConfig (transformers 5.23) that users commonly set.
TEST(ArgumentTable, KnowsTheNamesOfPeftAndBitsandbytes) {
  for (const char* name : {"r",
                           "target_modules",
                           "exclude_modules",
                           "lora_alpha",
                           "lora_dropout",
                           "bias",
                           "use_rslora",
                           "modules_to_save",
                           "init_lora_weights",
                           "layers_to_transform",
                           "rank_pattern",
                           "alpha_pattern",
                           "use_dora",
                           "task_type",
                           "peft_type",
                           "load_in_8bit",
                           "load_in_4bit",
                           "llm_int8_threshold",
                           "llm_int8_skip_modules",
                           "llm_int8_enable_fp32_cpu_offload",
                           "llm_int8_has_fp16_weight",
                           "bnb_4bit_compute_dtype",
                           "bnb_4bit_quant_type",
                           "bnb_4bit_use_double_quant",
                           "bnb_4bit_quant_storage"}) {
    EXPECT_TRUE(find_setting(name) != nullptr || find_old_name(name) != nullptr) << name;
  }
}

TEST(ArgumentTable, EveryOldNameLeadsSomewhereAndWarnsOnce) {
  ASSERT_GT(old_names().size(), 30u);
  for (const OldName& old : old_names()) {
    EXPECT_EQ(old.replacement.empty(), !old.note.empty()) << old.name;
    std::vector<std::string> words = {"--" + std::string(old.name)};
    if (!old.replacement.empty()) {
      ASSERT_NE(find_setting(old.replacement), nullptr) << old.name;
    }
    const std::string_view replaced = old.replacement;
    if (!old.is_flag)
      words.push_back(replaced == "eval_strategy"  ? "epoch"
                      : replaced == "warmup_steps" ? "0.1"
                      : replaced == "dtype"        ? "bfloat16"
                                                   : "4");
    if (replaced == "lora_bias") words.back() = "none";
    const ParseResult result = parse_arguments(words);
    // Names of PEFT are not old names, so they must cause no warning.
    EXPECT_EQ(result.warnings.size(), old.kind == NameKind::kOld ? 1u : 0u) << old.name;
  }
}

TEST(ArgumentTable, EveryOldValueIsReadAsAnotherAndWarnsOnce) {
  ASSERT_GE(old_values().size(), 1u);
  for (const OldValue& old : old_values()) {
    const Setting* setting = find_setting(old.setting);
    ASSERT_NE(setting, nullptr) << old.setting;
    const ParseResult result =
        parse_arguments(std::vector<std::string>{"--" + std::string(old.setting), std::string(old.value)});
    EXPECT_EQ(format_value(result.arguments, *setting), old.replacement);
    EXPECT_TRUE(result.explicitly_set.contains(std::string(old.setting)));
    ASSERT_EQ(result.warnings.size(), 1u) << old.value;
    EXPECT_EQ(result.warnings[0], fmt::format("--{0} {1} is an old name, read as --{0} {2}", old.setting,
                                              old.value, old.replacement));
  }
}

TEST(ParseArguments, ATaskIsReadInAnyCase) {
  EXPECT_EQ(parse({"--dataset_name", "glue", "--task_name", "MRPC"}).arguments.task_name, "mrpc");
  EXPECT_EQ(error_of({"--task_name", "MRP"}),
            "--task_name: 'MRP' is not one of cola, mnli, mrpc, qnli, qqp, rte, sst2, stsb, wnli, ner, "
            "pos, chunk");
}

TEST(ParseArguments, DefaultsAreHuggingFaces) {
  const Arguments a = parse({}).arguments;
  EXPECT_EQ(a.per_device_train_batch_size, 8);
  EXPECT_EQ(a.learning_rate, 5e-5);
  EXPECT_EQ(a.num_train_epochs, 3.0);
  EXPECT_EQ(a.adam_beta2, 0.999);
  EXPECT_EQ(a.save_steps, 500.0);
  EXPECT_EQ(a.seed, 42);
  EXPECT_EQ(a.max_seq_length, 128);
  EXPECT_FALSE(a.memory_limit);
  EXPECT_TRUE(parse({}).notes.empty());
  EXPECT_TRUE(parse({}).explicitly_set.empty());
}

TEST(ParseArguments, TakesValuesInEveryForm) {
  const ParseResult r = parse({"--learning_rate=3e-4", "--max-steps", "-1", "--per-device-train-batch-size",
                               "+32", "--run_name", "a=b c", "--warmup_steps=.1"});
  EXPECT_EQ(r.arguments.learning_rate, 3e-4);
  EXPECT_EQ(r.arguments.max_steps, -1);
  EXPECT_EQ(r.arguments.per_device_train_batch_size, 32);
  EXPECT_EQ(r.arguments.run_name, "a=b c");
  EXPECT_EQ(r.arguments.warmup_steps, 0.1);
  EXPECT_EQ(r.explicitly_set,
            (std::set<std::string>{"learning_rate", "max_steps", "per_device_train_batch_size", "run_name",
                                   "warmup_steps"}));
}

TEST(ParseArguments, FlagsStandAloneOrTakeAWord) {
  EXPECT_TRUE(parse({"--do_train"}).arguments.do_train);
  EXPECT_TRUE(parse({"--do_train", "--do_eval"}).arguments.do_eval);
  for (const char* yes : {"True", "true", "1", "yes", "on"}) {
    EXPECT_TRUE(parse({"--do_train", yes}).arguments.do_train) << yes;
  }
  for (const char* no : {"False", "false", "0", "no", "off"}) {
    EXPECT_FALSE(parse({"--do_train", no}).arguments.do_train) << no;
    EXPECT_FALSE(parse({std::string("--do-train=") + no}).arguments.do_train) << no;
  }
  EXPECT_FALSE(parse({"--no_skip_memory_metrics"}).arguments.skip_memory_metrics);
  EXPECT_FALSE(parse({"--no-skip-memory-metrics"}).arguments.skip_memory_metrics);
  EXPECT_EQ(parse({"--no_disable_tqdm"}).arguments.disable_tqdm, false);
  EXPECT_EQ(parse({"--disable_tqdm", "None"}).arguments.disable_tqdm, std::nullopt);
  EXPECT_EQ(error_of({"--do_train", "maybe"}),
            "'maybe' after --do_train: expected True or False, or nothing");
  EXPECT_EQ(error_of({"--do_train=maybe"}), "--do_train: expected True or False, got 'maybe'");
  EXPECT_EQ(error_of({"--no_do_train=1"}), "--no_do_train: takes no value");
  EXPECT_NE(error_of({"--no_learning_rate"}).find("unknown setting"), std::string::npos);
}

TEST(ParseArguments, ListsPairsAndSizes) {
  EXPECT_EQ(parse({"--disable_pass", "fuse", "cse", "--bf16"}).arguments.disable_pass,
            (StringList{"fuse", "cse"}));
  EXPECT_EQ(parse({"--disable_pass", "fuse, cse"}).arguments.disable_pass, (StringList{"fuse", "cse"}));
  EXPECT_EQ(parse({"--optim_args", "momentum=0.9,nesterov=true"}).arguments.optim_args,
            (KeyValues{{"momentum", "0.9"}, {"nesterov", "true"}}));
  EXPECT_EQ(
      parse({"--lr_scheduler_kwargs", R"({"num_cycles": 2, "mode": "min"})"}).arguments.lr_scheduler_kwargs,
      (KeyValues{{"num_cycles", "2"}, {"mode", "min"}}));
  EXPECT_EQ(error_of({"--optim_args", "momentum"}),
            "--optim_args: expected key=value,key=value, got 'momentum'");
  EXPECT_EQ(parse({"--memory_limit", "2GiB"}).arguments.memory_limit, int64_t{2} << 30);
  EXPECT_EQ(parse({"--memory_limit", "1.5G"}).arguments.memory_limit, int64_t{3} << 29);
  EXPECT_EQ(parse({"--memory_limit", "500 MB"}).arguments.memory_limit, 500'000'000);
  EXPECT_EQ(parse({"--memory_limit=7B"}).arguments.memory_limit, 7);
  EXPECT_EQ(parse({"--memory_limit=1048576"}).arguments.memory_limit, 1048576);
  EXPECT_EQ(parse({"--matmul_workspace=0"}).arguments.matmul_workspace, 0);
  for (const char* setting : {"--memory_limit", "--recompute_budget", "--matmul_workspace"}) {
    EXPECT_EQ(error_of({setting, "16"}), std::string(setting) +
                                             ": 16 has no unit and would be 16 bytes; write "
                                             "16GiB, 16MiB or 16B");
  }
  EXPECT_EQ(error_of({"--memory_limit", "1.5"}),
            "--memory_limit: 1.5 has no unit and would be 1.5 bytes; write 1.5GiB, 1.5MiB or 2B");
  for (const char* fraction : {"16.", "16.0", "2000000.5", "0.5", ".5"}) {
    EXPECT_NE(error_of({"--memory_limit", fraction}).find(std::string(fraction) + " has no unit"),
              std::string::npos)
        << fraction;
  }
  EXPECT_EQ(parse({"--memory_limit", "none"}).arguments.memory_limit, std::nullopt);
  for (const char* bad : {"2GiBs", "GiB", "1e3", "99999999999TiB", "2..5G"}) {
    EXPECT_NE(error_of({"--memory_limit", bad}).find("expected a size such as 2GiB"), std::string::npos)
        << bad;
  }
}

TEST(ParseArguments, SaysBothTypesWhenOneIsWrong) {
  EXPECT_EQ(error_of({"--learning_rate", "abc"}), "--learning_rate: expected a number, got 'abc'");
  EXPECT_EQ(error_of({"--learning_rate", "nan"}), "--learning_rate: expected a number, got 'nan'");
  EXPECT_EQ(error_of({"--learning_rate", "1e999"}), "--learning_rate: expected a number, got '1e999'");
  EXPECT_EQ(error_of({"--max_steps", "1.5"}), "--max_steps: expected an integer, got '1.5'");
  EXPECT_EQ(error_of({"--seed", "99999999999999999999"}),
            "--seed: expected an integer, got '99999999999999999999'");
  EXPECT_EQ(error_of({"--adam_beta1", "1"}), "--adam_beta1: 1 is outside [0, 1)");
  EXPECT_EQ(error_of({"--eval_strategy", "epochs"}),
            "--eval_strategy: 'epochs' is not one of no, steps, epoch, did you mean 'epoch'?");
  EXPECT_EQ(error_of({"--learning_rate"}), "--learning_rate: the value is missing; write it after the name");
  EXPECT_EQ(error_of({"--learning_rate", "--do_train"}),
            "--learning_rate: the value is missing; write it after the name");
  EXPECT_EQ(error_of({"--run_name", std::string("a\0b", 3)}),
            "--run_name: expected a text, got a text with a NUL byte");
}

TEST(ParseArguments, SuggestsTheNearestName) {
  EXPECT_EQ(error_of({"--learning_rat", "1"}),
            "--learning_rat: unknown setting, did you mean 'learning_rate'?");
  EXPECT_EQ(error_of({"--lr", "1"}), "--lr: unknown setting, did you mean 'learning_rate'?");
  EXPECT_NE(error_of({"--batch-size=1"}).find("'per_device_train_batch_size'"), std::string::npos);
  EXPECT_NE(error_of({"--prefetch_factor", "1"}).find("'dataloader_prefetch_factor'"), std::string::npos);
  EXPECT_EQ(error_of({"--xyzzyplugh"}), "--xyzzyplugh: unknown setting");
  EXPECT_NE(error_of({"-lr"}).find("two dashes"), std::string::npos);
  EXPECT_NE(error_of({"train.csv"}).find("expected --name value"), std::string::npos);
}

TEST(ParseArguments, TranslatesOldNames) {
  ParseResult r =
      parse({"--evaluation_strategy", "epoch", "--warmup_ratio", "0.1", "--no_cuda", "--overwrite_output_dir",
             "--group_by_length", "--fp16_backend", "auto", "--per_gpu_train_batch_size=4"});
  EXPECT_EQ(r.warnings.size(), 7u);
  EXPECT_EQ(r.arguments.eval_strategy, "epoch");
  EXPECT_EQ(r.arguments.warmup_steps, 0.1);
  EXPECT_EQ(r.arguments.device, "cpu");
  EXPECT_EQ(r.arguments.train_sampling_strategy, "group_by_length");
  EXPECT_EQ(r.arguments.per_device_train_batch_size, 4);
  EXPECT_EQ(r.warnings[0], "--evaluation_strategy is an old name, read as --eval_strategy epoch");
  EXPECT_TRUE(r.explicitly_set.contains("eval_strategy"));

  r = parse({"--warmup_steps", "7", "--warmup_ratio", "0.1"});
  EXPECT_EQ(r.arguments.warmup_steps, 7.0);
  ASSERT_EQ(r.warnings.size(), 1u);
  EXPECT_EQ(r.warnings[0],
            "--warmup_ratio is an old name of warmup_steps, and the value given as warmup_steps is used");

  r = parse({"--group_by_length", "False"});
  EXPECT_EQ(r.arguments.train_sampling_strategy, "random");
  EXPECT_EQ(r.warnings.size(), 1u);
  EXPECT_EQ(error_of({"--warmup_ratio", "3"}),
            "--warmup_ratio: 3 is outside [0, 1); --warmup_steps takes a number of steps");
  EXPECT_EQ(error_of({"--evaluation_strategy", "x"}),
            "--evaluation_strategy: 'x' is not one of no, steps, epoch");
  EXPECT_EQ(parse({"--push_to_hub_token", "hf_abc"}).warnings[0].find("hf_abc"), std::string::npos);
}

TEST(ParseArguments, ReadsPeftsNames) {
  ParseResult r = parse({"--r", "4", "--target_modules", "query", "key", "--bias=none"});
  EXPECT_EQ(r.arguments.lora_r, 4);
  EXPECT_EQ(r.arguments.lora_target_modules, (StringList{"query", "key"}));
  EXPECT_TRUE(r.explicitly_set.contains("lora_target_modules"));
  EXPECT_TRUE(r.warnings.empty());
  r = parse({"--lora_target_modules", "value", "--target_modules", "query"});
  EXPECT_EQ(r.arguments.lora_target_modules, StringList{"value"});
  ASSERT_EQ(r.warnings.size(), 1u);
  EXPECT_EQ(r.warnings[0],
            "--target_modules is PEFT's name of lora_target_modules, and the value given as "
            "lora_target_modules is used");
  EXPECT_EQ(error_of({"--r", "0"}), "--r: 0 is outside [1, 65536]");
}

// A setting that this version does not support must accept its default, in upper or lower case, and refuse all other
// values. If the default is True or False, any word with that meaning is accepted.
TEST(ParseArguments, TakesTheDefaultsOfPeftAndRefusesTheRest) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--task_type", "seq_cls"},
                                                {"--peft_type", "lora"},
                                                {"--init_lora_weights"},
                                                {"--init_lora_weights", "true"},
                                                {"--init_lora_weights=1"},
                                                {"--use_dora", "False"}}) {
    EXPECT_TRUE(parse(words).notes.empty()) << words[0];
  }
  EXPECT_EQ(error_of({"--task_type", "CAUSAL_LM"}),
            "--task_type CAUSAL_LM: an adapter has the task of --problem_type, so omit this argument");
  EXPECT_NE(error_of({"--init_lora_weights", "pissa"}).find("--adapter_name_or_path"), std::string::npos);
  EXPECT_NE(error_of({"--init_lora_weights", "no"}).find("--init_lora_weights False: "), std::string::npos);
  EXPECT_NE(error_of({"--rank_pattern", R"({"query": 4})"}).find("--rank_pattern query=4: "),
            std::string::npos);
}

TEST(ParseArguments, TheLastOfTwoWinsWithAWarning) {
  const ParseResult r = parse({"--seed", "1", "--seed", "2"});
  EXPECT_EQ(r.arguments.seed, 2);
  ASSERT_EQ(r.warnings.size(), 1u);
  EXPECT_TRUE(parse({"--seed", "1", "--seed", "1"}).warnings.empty());
}

TEST(ParseArguments, HelpStopsReading) {
  ParseResult r = parse({"--fp16", "--help", "optimizer", "--nonsense"});
  EXPECT_TRUE(r.help);
  EXPECT_EQ(r.help_topic, "optimizer");
  r = parse({"-h"});
  EXPECT_TRUE(r.help);
  EXPECT_EQ(r.help_topic, "");
}

TEST(ParseArguments, PositionalsAreReturnedOnRequest) {
  const std::vector<std::string> words = {"a.tsv", "--bf16", "b.csv", "--", "--c"};
  const ParseResult r = parse_arguments(words, {.allow_positionals = true});
  EXPECT_EQ(r.positionals, (std::vector<std::string>{"a.tsv", "b.csv", "--c"}));
  EXPECT_TRUE(r.arguments.bf16);
}

TEST(ParseArguments, ResumeStandsAloneOrTakesAFolder) {
  EXPECT_EQ(parse({"--resume_from_checkpoint"}).arguments.resume_from_checkpoint, "True");
  EXPECT_EQ(parse({"--resume_from_checkpoint", "true", "--do_train"}).arguments.resume_from_checkpoint,
            "True");
  EXPECT_EQ(parse({"--resume_from_checkpoint", "out/checkpoint-3"}).arguments.resume_from_checkpoint,
            "out/checkpoint-3");
  EXPECT_EQ(parse({"--resume_from_checkpoint", "False"}).arguments.resume_from_checkpoint, "");
}

// An option with choices may be given without a value. If the next word is not one of the choices, it must then not be
// taken as the value.
TEST(Parse, AnOptionWithChoicesMayStandAlone) {
  const auto scores = [](const std::vector<std::string>& words) {
    return parse_arguments(words, {.allow_positionals = true}).arguments.scores;
  };
  EXPECT_EQ(scores({}), "");
  EXPECT_EQ(scores({"--scores"}), "probabilities");
  EXPECT_EQ(scores({"--scores", "--use_cpu"}), "probabilities");
  EXPECT_EQ(scores({"--scores", "logits"}), "logits");
  EXPECT_EQ(scores({"--scores=logits"}), "logits");
  EXPECT_EQ(scores({"--scores", "True"}), "probabilities");
  EXPECT_EQ(scores({"--scores", "False"}), "");
  const std::vector<std::string> words{"--scores", "a good film"};
  const ParseResult text = parse_arguments(words, {.allow_positionals = true});
  EXPECT_EQ(text.arguments.scores, "probabilities");
  EXPECT_EQ(text.positionals, std::vector<std::string>{"a good film"});
  EXPECT_THROW(scores({"--scores", "logit"}), Error);
}

// For a command that accepts texts, a word that ends like the name of a settings file (such as config.json) is read as a
// settings file, unless it contains blanks or follows "--".
TEST(Parse, TextsAndSettingsFilesAreToldApart) {
  const std::vector<std::string> words{"parse the config.json", "--use_cpu", "good", "--",
                                       "settings.yaml",         "--x"};
  const ParseResult texts = parse_arguments(words, {.allow_positionals = true});
  EXPECT_EQ(texts.positionals,
            (std::vector<std::string>{"parse the config.json", "good", "settings.yaml", "--x"}));
  const std::vector<std::string> file{"/nonexistent/settings.yaml"};
  EXPECT_THROW(parse_arguments(file, {.allow_positionals = true}), Error);
}

TEST(Parse, NamesOfTheCommandLineAreKnown) {
  const std::vector<std::string> words{"--learning_rate", "1e-4", "--no_do_train"};
  const ParseResult result = parse_arguments(words);
  EXPECT_EQ(result.on_command_line, (std::set<std::string>{"learning_rate", "do_train"}));
  EXPECT_EQ(result.on_command_line, result.explicitly_set);
}

}  // namespace
}  // namespace plimsoll
