// Tests the rules between settings, with one test per rule.
#include <gtest/gtest.h>

#include "arguments/argument_table.h"
#include "arguments/testing/parse_words.h"
#include "arguments/value.h"

namespace plimsoll {
namespace {

using test::error_of;
using test::parse;
using test::usage_error;

TEST(ResolveArguments, GradientCheckpointingIsRecomputeFull) {
  EXPECT_EQ(parse({}).arguments.recompute, "auto");
  EXPECT_EQ(parse({"--gradient_checkpointing"}).arguments.recompute, "full");
  EXPECT_EQ(parse({"--activation_checkpointing", "--recompute", "full"}).arguments.recompute, "full");
  EXPECT_EQ(parse({"--gradient_checkpointing", "False", "--recompute", "selective"}).arguments.recompute,
            "selective");
  EXPECT_EQ(*parse({"--recompute_budget", "6GiB"}).arguments.recompute_budget, int64_t{6} << 30);
}

TEST(ResolveArguments, RefusesContradictionsOfRecomputing) {
  EXPECT_EQ(error_of({"--gradient_checkpointing", "--recompute", "cheap"}),
            "--gradient_checkpointing means --recompute full, and --recompute cheap excludes it; give one of "
            "them");
  EXPECT_EQ(error_of({"--gradient_checkpointing", "False", "--recompute", "full"}),
            "--gradient_checkpointing False and --recompute full exclude each other; give one of them");
  EXPECT_EQ(
      error_of({"--gradient_checkpointing", "--activation_checkpointing", "False"}),
      "--gradient_checkpointing True and --activation_checkpointing False are two names of one setting; "
      "give one of them");
  EXPECT_EQ(
      error_of({"--recompute_budget", "6GiB", "--activation_checkpointing"}),
      "--recompute_budget and --activation_checkpointing both choose what is recomputed; give one of them");
  EXPECT_EQ(error_of({"--recompute_budget", "6GiB", "--recompute", "none"}),
            "--recompute_budget and --recompute none both choose what is recomputed; give one of them");
  EXPECT_EQ(error_of({"--recompute_budget", "2000B", "--memory_limit", "1000B"}),
            "--recompute_budget 2000 is more than --memory_limit 1000 allows; give a budget of at most that");
  EXPECT_EQ(error_of({"--recompute", "selective", "--disable_pass", "recompute"}),
            "--disable_pass recompute disables the pass that --recompute selective needs; give one of them");
  EXPECT_EQ(error_of({"--recompute_budget", "2000B", "--disable_pass", "recompute"}),
            "--disable_pass recompute disables the pass that --recompute_budget needs; give one of them");
  EXPECT_NO_THROW(parse({"--recompute", "none", "--disable_pass", "recompute"}));
}

TEST(ResolveArguments, RefusesALossInChunksWithoutItsPass) {
  EXPECT_EQ(
      error_of({"--chunked_loss", "always", "--disable_pass", "chunked_loss"}),
      "--disable_pass chunked_loss disables the pass that --chunked_loss always needs; give one of them");
  EXPECT_NO_THROW(parse({"--disable_pass", "chunked_loss"}));
}

TEST(ResolveArguments, RefusesWhatTheOptimizerInTheBackwardPassRulesOut) {
  EXPECT_EQ(error_of({"--optimizer_in_backward"}),
            "--optimizer_in_backward updates weights before all gradients are known, so it cannot clip them "
            "to --max_grad_norm 1; give --max_grad_norm 0");
  EXPECT_EQ(
      error_of({"--optimizer_in_backward", "--max_grad_norm", "0", "--gradient_accumulation_steps", "2"}),
      "--optimizer_in_backward frees each gradient after its use, but --gradient_accumulation_steps 2 must "
      "keep it; give one of them");
  EXPECT_NE(error_of({"--optimizer_in_backward", "--max_grad_norm", "0", "--fp16"}).find("loss scale"),
            std::string::npos);
  EXPECT_NO_THROW(parse({"--optimizer_in_backward", "--max_grad_norm", "0"}));
}

TEST(ResolveArguments, RefusesContradictions) {
  EXPECT_EQ(error_of({"--fp16", "--bf16"}), "--fp16 and --bf16 exclude each other; give one of them");
  EXPECT_EQ(error_of({"--fp16_full_eval", "--bf16_full_eval"}),
            "--fp16_full_eval and --bf16_full_eval exclude each other; give one of them");
  EXPECT_EQ(error_of({"--use_cpu", "--device", "cuda:1"}),
            "--use_cpu and --device cuda:1 exclude each other; give one of them");
  EXPECT_EQ(error_of({"--dataloader_prefetch_factor", "4"}),
            "--dataloader_prefetch_factor 4 needs --dataloader_num_workers above 0, but it is 0");
  EXPECT_NO_THROW(parse({"--dataloader_prefetch_factor", "4", "--dataloader_num_workers", "1"}));
}

TEST(ResolveArguments, DataComesFromOnePlace) {
  EXPECT_EQ(error_of({"--dataset_name", "dummy", "--train_file", "a.csv"}),
            "--dataset_name dummy and --train_file a.csv exclude each other; give one of them");
  EXPECT_EQ(error_of({"--dataset_name", "dummy", "--test_file", "a.csv"}),
            "--dataset_name dummy and --test_file a.csv exclude each other; give one of them");
  EXPECT_EQ(error_of({"--dataset_name", "dummy", "--task_name", "mrpc"}),
            "--dataset_name dummy and --task_name mrpc exclude each other; give one of them");
  EXPECT_EQ(error_of({"--dataset_name", "glue", "--task_name", "mrpc", "--train_file", "a.csv"}),
            "--dataset_name glue and --train_file a.csv exclude each other; give one of them");
  EXPECT_NE(error_of({"--dataset_name", "imdb", "--train_file", "a.csv"}).find("not downloaded"),
            std::string::npos);
  EXPECT_NO_THROW(parse({"--dataset_name", "glue", "--task_name", "mrpc", "--test_file", "a.csv"}));
}

TEST(ResolveArguments, BestModelNeedsMatchingStrategies) {
  EXPECT_EQ(error_of({"--load_best_model_at_end"}),
            "--load_best_model_at_end needs equal strategies, but --eval_strategy is no and --save_strategy "
            "is steps; give both the same value");
  const std::vector<std::string> both = {"--load_best_model_at_end", "--eval_strategy", "steps"};
  const auto with = [&](const std::string& save, const std::string& eval) {
    std::vector<std::string> words = both;
    words.insert(words.end(), {"--save_steps", save, "--eval_steps", eval});
    return words;
  };
  EXPECT_NO_THROW(parse(with("200", "100")));
  EXPECT_NO_THROW(parse(with("0.2", "0.1")));
  EXPECT_EQ(error_of(with("250", "100")),
            "--load_best_model_at_end needs --save_steps to be a multiple of --eval_steps, but 250 is not a "
            "multiple of 100; change one of them");
  EXPECT_NE(error_of(with("0.25", "0.1")).find("0.25 is not a multiple of 0.1"), std::string::npos);
  EXPECT_NE(error_of(with("100", "0.1")).find("one is a fraction"), std::string::npos);
  EXPECT_NO_THROW(
      parse({"--load_best_model_at_end", "--eval_strategy", "epoch", "--save_strategy", "epoch"}));
  EXPECT_NO_THROW(parse({"--load_best_model_at_end", "--eval_strategy", "epoch", "--save_strategy", "best"}));
}

TEST(ResolveArguments, StepsAboveOneAreIntegers) {
  for (const char* name : {"--logging_steps", "--save_steps", "--warmup_steps"}) {
    EXPECT_NE(error_of({name, "2.5"}).find("must be an integer; a value below 1 is a fraction"),
              std::string::npos)
        << name;
    EXPECT_NO_THROW(parse({name, "0.5"})) << name;
    EXPECT_NO_THROW(parse({name, "2.0"})) << name;
  }
  EXPECT_NE(error_of({"--eval_strategy", "steps", "--eval_steps", "2.5"}).find("must be an integer"),
            std::string::npos);
  EXPECT_EQ(error_of({"--logging_steps", "0"}),
            "--logging_steps is 0, but --logging_strategy steps needs a value above 0; --logging_strategy no "
            "disables it");
  EXPECT_NO_THROW(parse({"--logging_steps", "0", "--logging_strategy", "no"}));
  EXPECT_NE(error_of({"--save_steps", "0"}).find("--save_strategy no disables it"), std::string::npos);
  EXPECT_NE(error_of({"--eval_strategy=steps", "--logging_steps=0", "--logging_strategy=no"})
                .find("needs --eval_steps"),
            std::string::npos);
}

TEST(ResolveArguments, WhatNeedsEvaluationsSaysSo) {
  EXPECT_EQ(
      error_of({"--lr_scheduler_type", "reduce_lr_on_plateau"}),
      "--lr_scheduler_type reduce_lr_on_plateau needs evaluations: give --eval_strategy steps or epoch");
  EXPECT_NE(error_of({"--lr_scheduler_type", "greedy"}).find("needs evaluations"), std::string::npos);
  EXPECT_NE(error_of({"--save_strategy", "best"}).find("needs evaluations"), std::string::npos);
  EXPECT_NE(error_of({"--early_stopping_patience", "2"}).find("needs evaluations"), std::string::npos);
}

// Trainer's default of --logging_steps and --eval_steps is 500. For --logging_steps, Plimsoll's default depends on the
// length of the run, which gives about 20 log records.
TEST(ResolveArguments, TheDefaultOfLoggingStepsIsAShareOfTheRun) {
  const Arguments plain = parse({"--eval_strategy", "steps"}).arguments;
  EXPECT_FALSE(plain.logging_steps);
  EXPECT_EQ(plain.eval_steps, 500.0);
  for (const auto& [steps, least] :
       {std::pair<int64_t, int64_t>{1, 1}, {6, 6}, {20, 20}, {39, 19}, {150, 18}, {1195, 19}, {112500, 20}}) {
    const int64_t points = steps / interval_steps(logging_interval(plain), steps);
    EXPECT_GE(points, least) << steps;
    EXPECT_LE(points, 20) << steps;
  }
  const Arguments given = parse({"--eval_strategy", "steps", "--logging_steps", "0.05"}).arguments;
  EXPECT_EQ(given.eval_steps, 0.05);
  EXPECT_EQ(logging_interval(parse({"--logging_steps", "500"}).arguments), 500.0);
  EXPECT_NO_THROW(parse({"--eval_strategy", "steps", "--load_best_model_at_end"}));
}

TEST(ResolveArguments, AFileThatIsNamedIsRead) {
  EXPECT_TRUE(parse({"--validation_file", "a.csv"}).arguments.do_eval);
  EXPECT_TRUE(parse({"--test_file", "a.csv"}).arguments.do_predict);
  EXPECT_FALSE(parse({"--train_file", "a.csv"}).arguments.do_eval);
  Arguments from_program;
  from_program.test_file = "a.csv";
  resolve_arguments(from_program);
  EXPECT_TRUE(from_program.do_predict);
  EXPECT_EQ(error_of({"--validation_file", "a.csv", "--do_eval", "False"}),
            "--do_eval False and --validation_file a.csv exclude each other: a file that is named is read; "
            "give one of them");
  EXPECT_EQ(error_of({"--no_do_predict", "--test_file", "a.csv"}),
            "--do_predict False and --test_file a.csv exclude each other: a file that is named is read; give "
            "one of them");
  EXPECT_NO_THROW(parse({"--do_eval", "False"}));
}

TEST(ResolveArguments, QuietIsALevel) {
  EXPECT_NO_THROW(parse({"--quiet"}));
  EXPECT_NO_THROW(parse({"--quiet", "--log_level", "warning"}));
  for (const char* level : {"detail", "debug", "info", "error", "critical"}) {
    EXPECT_EQ(error_of({"--quiet", "--log_level", level}),
              std::string("--quiet means --log_level warning, and --log_level ") + level +
                  " excludes it; give one of them");
    EXPECT_TRUE(parse({"--log_level", level}).notes.empty());
  }
}

TEST(ResolveArguments, FillsInWhatDependsOnOthers) {
  Arguments a = parse({"--eval_strategy", "steps", "--logging_steps", "10"}).arguments;
  EXPECT_TRUE(a.do_eval);
  EXPECT_EQ(a.eval_steps, 10.0);
  EXPECT_EQ(a.metric_for_best_model, "");
  EXPECT_FALSE(a.greater_is_better);

  a = parse({"--eval_strategy", "epoch", "--save_strategy", "epoch", "--load_best_model_at_end"}).arguments;
  EXPECT_EQ(a.metric_for_best_model, "loss");
  EXPECT_EQ(a.greater_is_better, false);
  EXPECT_EQ(parse({"--metric_for_best_model", "eval_f1"}).arguments.greater_is_better, true);
  EXPECT_EQ(parse({"--metric_for_best_model", "f1", "--no_greater_is_better"}).arguments.greater_is_better,
            false);
  EXPECT_EQ(parse({"--use_cpu"}).arguments.device, "cpu");
  EXPECT_EQ(parse({"--device", "cuda"}).arguments.device, "cuda:0");
  EXPECT_TRUE(parse({"--report_to", "none"}).arguments.report_to.empty());

  Arguments again = a;
  resolve_arguments(again);
  EXPECT_EQ(again, a) << "resolving arguments a second time must not change them";
}

TEST(ResolveArguments, ChecksOptimizerAndDevice) {
  EXPECT_NO_THROW(parse({"--optim", "adamw_torch"}));
  EXPECT_NO_THROW(parse({"--optim", "sgd", "--optim_args", "momentum=0.9"}));
  for (const char* paged : {"paged_adamw", "paged_adamw_32bit", "paged_adamw_8bit", "paged_lion_8bit"}) {
    EXPECT_NO_THROW(parse({"--optim", paged}));
  }
  EXPECT_EQ(error_of({"--optim", "paged_ademamix_8bit"}),
            "--optim paged_ademamix_8bit: Plimsoll does not implement that optimizer; the nearest is --optim "
            "adamw_8bit");
  EXPECT_NO_THROW(parse({"--offload_optimizer", "--device", "h200"}));
  const std::string unknown = error_of({"--optim", "adamw_troch"});
  EXPECT_TRUE(unknown.starts_with("--optim: 'adamw_troch' is not one of adamw_torch_fused, adamw_torch, "));
  EXPECT_TRUE(unknown.ends_with(", did you mean 'adamw_torch'?")) << unknown;
  EXPECT_NO_THROW(parse({"--device", "l4"}));
  for (const char* bad : {"cuda:", "cuda:x", "cuda0", "cuda:-1", "cuda:12345"}) {
    EXPECT_EQ(error_of({"--device", bad}),
              std::string("--device: expected cuda or cuda:N, got '") + bad + "'");
  }
}

TEST(ResolveArguments, ZeroStage) {
  EXPECT_NO_THROW(parse({"--zero_stage", "0"}));
  for (const char* bad : {"-1", "4"})
    EXPECT_NE(error_of({"--zero_stage", bad}).find("[0, 3]"), std::string::npos);
  for (const std::string stage : {"1", "2", "3"}) {
    EXPECT_NO_THROW(parse({"--zero_stage", stage}));
    const std::string begin = "--zero_stage " + stage;
    EXPECT_TRUE(error_of({"--zero_stage", stage, "--optim", "adafactor"}).starts_with(begin + " divides"));
    EXPECT_TRUE(error_of({"--zero_stage", stage, "--offload_optimizer"}).starts_with(begin + " keeps"));
    EXPECT_EQ(error_of({"--zero_stage", stage, "--offload_optimizer", "nvme:/nvme"}),
              begin +
                  " keeps the optimizer's states on the device, but --offload_optimizer nvme:/nvme stores "
                  "them on a "
                  "disk; give one of them");
    EXPECT_TRUE(error_of({"--zero_stage", stage, "--optimizer_in_backward", "--max_grad_norm", "0"})
                    .starts_with(begin + " sums"));
  }
}

TEST(ResolveArguments, OffloadOptimizer) {
  const auto given = [](const std::vector<std::string>& words) { return parse(words).arguments; };
  EXPECT_EQ(given({}).offload_optimizer, "False");
  EXPECT_EQ(given({"--offload_optimizer"}).offload_optimizer, "True");
  EXPECT_EQ(given({"--offload_optimizer", "no"}).offload_optimizer, "False");
  EXPECT_FALSE(offloads_optimizer(given({"--no_offload_optimizer"})));
  const Arguments disk = given({"--offload_optimizer", "nvme:/a b"});
  EXPECT_TRUE(offloads_optimizer(disk));
  EXPECT_EQ(nvme_folder(disk), "/a b");
  EXPECT_EQ(nvme_folder(given({"--offload_optimizer"})), "");
  EXPECT_EQ(error_of({"--offload_optimizer", "nvme:"}),
            "--offload_optimizer nvme:: no folder is named; write nvme:/path/to/a/folder, on a disk with "
            "room for the "
            "optimizer's states");
  EXPECT_EQ(
      error_of({"--offload_optimizer", "cpu"}),
      "--offload_optimizer cpu: expected True, False or nvme:FOLDER; True keeps the states in host memory");
  // A command line cannot set these values: a program can set "", and files that an earlier version wrote contain true
  // or false.
  Arguments arguments;
  arguments.offload_optimizer = "";
  static_cast<void>(resolve_arguments(arguments));
  EXPECT_FALSE(offloads_optimizer(arguments));
  EXPECT_EQ(arguments_from_json(R"({"offload_optimizer": true})").offload_optimizer, "True");
  EXPECT_EQ(arguments_from_json(R"({"offload_optimizer": false})").offload_optimizer, "False");
}

TEST(ResolveArguments, TensorParallelism) {
  EXPECT_NO_THROW(parse({"--tp_size", "2", "--nproc_per_node", "4"}));
  EXPECT_NO_THROW(parse({"--tp_size", "2", "--sequence_parallel", "--nproc_per_node", "4"}));
  EXPECT_EQ(
      error_of({"--sequence_parallel", "--nproc_per_node", "4"}),
      "--sequence_parallel divides the rows of activations among the processes that divide the layers, but "
      "with --tp_size 1 no processes do; give a --tp_size above 1, or leave --sequence_parallel out");
  EXPECT_NE(error_of({"--tp_size", "0"}).find("[1, 256]"), std::string::npos);
  EXPECT_NO_THROW(parse({"--tp_size", "2", "--zero_stage", "3", "--nproc_per_node", "4"}));
  EXPECT_TRUE(error_of({"--tp_size", "2", "--optimizer_in_backward", "--max_grad_norm", "0"})
                  .starts_with("--tp_size 2 needs the norm"));
}

TEST(ResolveArguments, PipelineParallelism) {
  EXPECT_NO_THROW(parse({"--pp_size", "2", "--nproc_per_node", "4", "--pipeline_schedule", "gpipe"}));
  EXPECT_NO_THROW(parse(
      {"--pp_size", "2", "--nproc_per_node", "4", "--pipeline_schedule", "interleaved", "--pp_chunks", "4"}));
  EXPECT_NE(error_of({"--pp_size", "0"}).find("[1, 256]"), std::string::npos);
  EXPECT_NE(error_of({"--pipeline_schedule", "zero_bubble"}).find("gpipe"), std::string::npos);
  EXPECT_NO_THROW(parse({"--pp_size", "2", "--tp_size", "2", "--nproc_per_node", "4"}));
  EXPECT_NO_THROW(parse({"--pp_size", "2", "--zero_stage", "1", "--nproc_per_node", "4"}));
  EXPECT_TRUE(error_of({"--pp_size", "2", "--zero_stage", "2"}).starts_with("a stage of --pp_size 2 runs"));
  EXPECT_TRUE(error_of({"--pp_size", "2", "--async_save"}).starts_with("the stages of --pp_size 2 write"));
  EXPECT_TRUE(error_of({"--pp_size", "2", "--optimizer_in_backward", "--max_grad_norm", "0"})
                  .starts_with("--pp_size 2 needs the norm"));
}

// Returns a value for this setting, as text. It differs from the setting's default and, for flags without a default, from False.
std::string another_value(const Setting& setting) {
  const Arguments defaults;
  const std::string text = format_value(defaults, setting);
  if (setting.is_flag()) return text == "True" ? "False" : "True";
  if (setting.info.unit == "bytes") return "7B";
  if (setting.info.type == "integer" || setting.info.type == "number") return "7";
  if (setting.info.type == "key=value") return "key=7";
  for (std::string_view choice : split_choices(setting.info.range)) {
    if (choice != text) return std::string(choice);
  }
  return "word";
}

TEST(ResolveArguments, EverySettingWithoutEffectGetsOneNote) {
  int num_checked = 0;
  for (const Setting& setting : settings()) {
    if (setting.info.status != ArgumentStatus::kNoEffect) continue;
    Arguments arguments;
    set_from_text(arguments, setting, another_value(setting), setting.info.name);
    const std::vector<std::string> notes = resolve_arguments(arguments);
    // The setting had a value other than its default (True for a flag without a default), so there must be one note.
    ASSERT_EQ(notes.size(), 1u) << setting.info.name;
    EXPECT_EQ(notes[0], "--" + std::string(setting.info.name) +
                            " has no effect here: " + std::string(setting.info.note));
    ++num_checked;
  }
  EXPECT_GE(num_checked, 50);
  const ParseResult quiet =
      parse({"--no_torch_compile", "--no_tf32", "--dataloader_pin_memory", "--log_level", "passive"});
  EXPECT_TRUE(quiet.notes.empty());
  EXPECT_EQ(parse({"--report_to", "wandb"}).notes.size(), 1u);
  EXPECT_EQ(parse({"--pad_to_max_length"}).notes.at(0),
            "--pad_to_max_length has no effect here: sequences are concatenated without padding, with the "
            "same result");
}

TEST(ResolveArguments, EveryRefusedSettingSaysWhy) {
  int num_checked = 0;
  for (const Setting& setting : settings()) {
    if (setting.info.status != ArgumentStatus::kRefused) continue;
    Arguments arguments;
    set_from_text(arguments, setting, another_value(setting), setting.info.name);
    const std::string message = usage_error([&] { resolve_arguments(arguments); });
    EXPECT_TRUE(message.starts_with("--" + std::string(setting.info.name) + " ")) << message;
    EXPECT_TRUE(message.ends_with(setting.info.note)) << message;
    ++num_checked;
  }
  EXPECT_GT(num_checked, 10);
  EXPECT_NO_THROW(parse({"--no_push_to_hub", "--no_fp16", "--no_gradient_checkpointing"}));
}

// The compute type of 4-bit weights must be the type of the activations. Each case has the requested compute type, the
// other settings, and the expected message.
TEST(ResolveArguments, TheTypeThatFourBitsAreMultipliedInIsThatOfTheActivations) {
  const auto words = [](const char* wanted, std::vector<std::string> more) {
    more.insert(more.end(), {"--load_in_4bit", "--lora_r", "8", "--bnb_4bit_compute_dtype", wanted});
    return more;
  };
  EXPECT_NO_THROW(parse(words("bfloat16", {"--dtype", "bfloat16"})));
  EXPECT_NO_THROW(parse(words("bfloat16", {"--bf16"})));
  EXPECT_NO_THROW(parse(words("float16", {"--fp16"})));
  EXPECT_NO_THROW(parse(words("float32", {})));
  EXPECT_NO_THROW(parse({"--bnb_4bit_compute_dtype", "float16"}));
  const struct {
    const char* wanted;
    std::vector<std::string> more;
    const char* said;
  } cases[] = {
      {"bfloat16", {}, "float32; give --bf16 for bfloat16"},
      {"float16", {}, "float32; give --fp16 for float16"},
      {"float32", {"--bf16"}, "bfloat16; leave --bf16 out for float32"},
      {"float32", {"--fp16"}, "float16; leave --fp16 out for float32"},
      {"float32", {"--dtype", "bfloat16"}, "bfloat16; leave --dtype bfloat16 out for float32"},
      {"float32",
       {"--bf16", "--dtype", "bfloat16"},
       "bfloat16; leave --bf16 and --dtype bfloat16 out for float32"},
      {"float16", {"--bf16"}, "bfloat16; give --fp16 instead of --bf16 for float16"},
      {"bfloat16", {"--fp16"}, "float16; give --bf16 instead of --fp16 for bfloat16"},
      {"float16", {"--dtype", "bfloat16"}, "give --fp16 instead of --dtype bfloat16 for float16"},
  };
  for (const auto& one : cases) {
    const std::string said = error_of(words(one.wanted, one.more));
    EXPECT_NE(said.find(one.said), std::string::npos) << said;
    EXPECT_TRUE(said.starts_with(std::string("--bnb_4bit_compute_dtype ") + one.wanted + ": ")) << said;
    EXPECT_TRUE(said.ends_with("or leave --bnb_4bit_compute_dtype out")) << said;
  }
}

// Options that select modules for adapters must also enable adapters.
TEST(ResolveArguments, WhatLeavesModulesOutAsksForAdapters) {
  EXPECT_EQ(parse({"--exclude_modules", "query"}).arguments.lora_r, 8);
  EXPECT_EQ(parse({"--layers_to_transform", "0,1"}).arguments.lora_r, 8);
  EXPECT_FALSE(parse({"--llm_int8_skip_modules", "pooler"}).arguments.lora_r);
  for (const char* bad : {"first", "-1", "1.5", "1234567"}) {
    EXPECT_EQ(
        error_of({"--layers_to_transform=0," + std::string(bad)}),
        "--layers_to_transform: expected indices of layers such as 0,1,2, got '" + std::string(bad) + "'");
  }
}

TEST(ResolveArguments, ChecksRangesOfArgumentsFilledByHand) {
  Arguments arguments;
  arguments.per_device_train_batch_size = 0;
  EXPECT_EQ(usage_error([&] { resolve_arguments(arguments); }),
            "--per_device_train_batch_size: 0 is outside [1, 2147483647]");
}

TEST(IntervalSteps, SharesAreRoundedUp) {
  EXPECT_EQ(interval_steps(500.0, 10), 500);
  EXPECT_EQ(interval_steps(0.1, 95), 10);
  EXPECT_EQ(interval_steps(0.001, 10), 1);
  Arguments arguments;
  EXPECT_EQ(num_warmup_steps(arguments, 100), 0);
  arguments.warmup_steps = 0.03;
  EXPECT_EQ(num_warmup_steps(arguments, 101), 4);
  arguments.warmup_steps = 1.0;
  EXPECT_EQ(num_warmup_steps(arguments, 101), 1);
}

}  // namespace
}  // namespace plimsoll
