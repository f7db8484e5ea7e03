#include "arguments/foreign_config.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "arguments/testing/parse_words.h"
#include "arguments/value.h"
#include "base/check.h"

namespace plimsoll {
namespace {

using test::error_of;
using test::parse;
using test::usage_error;
using Names = std::vector<std::string>;

const ForeignKeys* const kTables[] = {&deepspeed_keys(), &fsdp_keys(), &fsdp_options(), &parallelism_keys()};

// A DeepSpeed configuration of ZeRO stage 2 with the value "auto" in most keys, which means the value of Trainer's
// argument.
constexpr const char* kStage2 = R"({
  "bf16": {"enabled": "auto"},
  "fp16": {"enabled": "auto", "loss_scale": 0, "loss_scale_window": 1000, "initial_scale_power": 16,
           "hysteresis": 2, "min_loss_scale": 1},
  "optimizer": {"type": "AdamW",
                "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
  "scheduler": {"type": "WarmupLR",
                "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"}},
  "zero_optimization": {"stage": 2, "allgather_partitions": true, "allgather_bucket_size": 2e8,
                        "overlap_comm": true, "reduce_scatter": true, "reduce_bucket_size": "auto",
                        "contiguous_gradients": true},
  "gradient_accumulation_steps": "auto",
  "gradient_clipping": "auto",
  "steps_per_print": 2000,
  "train_batch_size": "auto",
  "train_micro_batch_size_per_gpu": "auto",
  "wall_clock_breakdown": false
})";

// A DeepSpeed configuration of ZeRO stage 3 with values instead of "auto".
constexpr const char* kStage3 = R"({
  "bf16": {"enabled": true},
  "optimizer": {"type": "Adam", "params": {"lr": 3e-5, "betas": [0.8, 0.99], "eps": 1e-7,
                "weight_decay": 0.01, "torch_adam": true, "adam_w_mode": true}},
  "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": "auto", "warmup_min_lr": 0,
                "warmup_max_lr": 3e-5, "warmup_num_steps": 1e2, "warmup_type": "linear"}},
  "zero_optimization": {"stage": 3,
                        "offload_optimizer": {"device": "none", "pin_memory": true},
                        "offload_param": {"device": "none", "pin_memory": true},
                        "overlap_comm": true, "contiguous_gradients": true, "sub_group_size": 1e9,
                        "reduce_bucket_size": 5e8, "stage3_prefetch_bucket_size": "auto",
                        "stage3_param_persistence_threshold": 1e6,
                        "stage3_max_live_parameters": 1e9, "stage3_max_reuse_distance": 1e9,
                        "stage3_gather_16bit_weights_on_model_save": true,
                        "zero_quantized_weights": false, "zero_hpz_partition_size": 1},
  "activation_checkpointing": {"partition_activations": false, "number_checkpoints": null},
  "data_types": {"grad_accum_dtype": null},
  "gradient_accumulation_steps": 4,
  "gradient_clipping": 0.5,
  "train_micro_batch_size_per_gpu": 2,
  "train_batch_size": 32,
  "wandb": {"enabled": false},
  "tensor_parallel": {"autotp_size": 1}
})";

// Returns the settings that differ from their defaults after this command line was parsed, as "name=value".
Names changed_by(const Names& words) {
  Names names;
  for (const ArgumentDifference& each : diff_arguments(Arguments{}, parse(words).arguments))
    names.push_back(each.name + "=" + each.after);
  return names;
}

std::string deepspeed_error(const std::string& text) {
  return usage_error([&] { read_foreign_config(deepspeed_keys(), text, "ds.json"); });
}

// Returns a configuration as JSON that contains only this key, in its sections, with this value.
std::string config_with(std::string_view path, const nlohmann::ordered_json& value) {
  nlohmann::ordered_json inner = value;
  while (true) {
    const size_t dot = path.rfind('.');
    nlohmann::ordered_json outer = nlohmann::ordered_json::object();
    outer[std::string(path.substr(dot + 1))] = inner;
    inner = std::move(outer);
    if (dot == std::string_view::npos) return inner.dump();
    path = path.substr(0, dot);
  }
}

// Returns a value of the key's type that requests something. Values that request nothing (such as false) are accepted even for keys
// that Plimsoll refuses.
nlohmann::ordered_json sample_of(const ForeignKey& key) {
  const bool is_true_inert = key.values == "true";
  switch (key.type) {
    case KeyType::kFlag:
      return !is_true_inert;
    case KeyType::kInteger:
      return 7;
    case KeyType::kNumber:
      return 0.25;
    case KeyType::kText:
      return "sample";
    case KeyType::kNumbers:
      return nlohmann::ordered_json::array({0.5, 0.75});
    case KeyType::kAny:
      return nlohmann::ordered_json::array({"sample"});
    case KeyType::kSection:
      break;
  }
  return nlohmann::ordered_json::object({{"enabled", true}});
}

TEST(ForeignKeys, EveryRowIsWellFormed) {
  const std::string page = foreign_keys_markdown();
  for (const ForeignKeys* table : kTables) {
    ASSERT_GE(table->keys.size(), 7u);
    EXPECT_NE(find_setting(table->argument), nullptr) << table->argument;
    std::set<std::string_view> seen;
    for (const ForeignKey& key : table->keys) {
      EXPECT_TRUE(seen.insert(key.path).second) << key.path << " occurs twice";
      EXPECT_EQ(find_key(*table, key.path), &key);
      EXPECT_FALSE(key.note.ends_with('.')) << key.path;
      EXPECT_NE(page.find("| `" + std::string(key.path) + "` | "), std::string::npos) << key.path;
      const bool has_setting = key.use != KeyUse::kNoEffect && key.use != KeyUse::kRefused;
      EXPECT_EQ(has_setting, !key.setting.empty()) << key.path;
      if (!has_setting) {
        EXPECT_FALSE(key.note.empty()) << key.path;
      }
      for (const std::string_view name : split_choices(key.setting))
        EXPECT_NE(find_setting(name.substr(0, name.find('.'))), nullptr) << key.path;
      if (key.use != KeyUse::kSets) continue;
      for (const std::string_view pair : split_choices(key.values)) {
        const size_t equals = pair.find('=');
        ASSERT_NE(equals, std::string_view::npos) << key.path;
        Arguments arguments;
        if (equals + 1 < pair.size()) {
          EXPECT_NO_THROW(
              set_from_text(arguments, *find_setting(key.setting), pair.substr(equals + 1), key.path));
        }
      }
    }
  }
}

TEST(ForeignKeys, NullAndAutoMeanTheArgument) {
  for (const ForeignKeys* table : kTables) {
    for (const ForeignKey& key : table->keys) {
      const ForeignConfig none = read_foreign_config(*table, config_with(key.path, nullptr), "file");
      EXPECT_TRUE(none.values.empty() && none.unused.empty()) << key.path;
      if (key.type == KeyType::kSection) continue;
      const ForeignConfig automatic = read_foreign_config(*table, config_with(key.path, "auto"), "file");
      EXPECT_TRUE(automatic.values.empty() && automatic.unused.empty()) << key.path;
    }
  }
}

TEST(ForeignKeys, EveryKeyIsNotedOrRefusedByItsFullName) {
  int num_noted = 0, num_refused = 0;
  for (const ForeignKeys* table : kTables) {
    for (const ForeignKey& key : table->keys) {
      const std::string path(key.path);
      const std::string text = config_with(key.path, sample_of(key));
      if (key.use == KeyUse::kNoEffect) {
        EXPECT_EQ(read_foreign_config(*table, text, "file").unused, Names{path});
        ++num_noted;
      } else if (key.use == KeyUse::kRefused) {
        const std::string message = usage_error([&] { read_foreign_config(*table, text, "file"); });
        EXPECT_TRUE(message.starts_with("file: '" + path + "'")) << message;
        EXPECT_NE(message.find(key.note), std::string::npos) << message;
        ++num_refused;
        for (const std::string_view inert : split_choices(key.values)) {
          if (inert == "[]") continue;
          const ForeignConfig config = read_foreign_config(*table, config_with(key.path, inert), "file");
          EXPECT_TRUE(config.values.empty() && config.unused.empty()) << path;
        }
      } else if (key.type == KeyType::kInteger || key.type == KeyType::kNumber) {
        const std::string wrong = config_with(key.path, "word");
        EXPECT_NE(
            usage_error([&] { read_foreign_config(*table, wrong, "file"); }).find("got the text 'word'"),
            std::string::npos);
      }
    }
  }
  EXPECT_GT(num_noted, 60);
  EXPECT_GT(num_refused, 40);
}

TEST(Deepspeed, AConfigurationOfStage2TakesTheArguments) {
  const ParseResult result = parse({"--deepspeed", kStage2, "--bf16", "--learning_rate", "1e-4",
                                    "--warmup_steps", "10", "--lr_scheduler_type", "constant_with_warmup"});
  Arguments expected = parse({"--bf16", "--learning_rate", "1e-4", "--warmup_steps", "10",
                              "--lr_scheduler_type", "constant_with_warmup"})
                           .arguments;
  expected.zero_stage = 2;
  EXPECT_EQ(result.arguments, expected) << format_arguments(result.arguments, WhichArguments::kNotDefault);
  ASSERT_EQ(result.notes.size(), 3u);
  EXPECT_EQ(result.notes[0], "--deepspeed sets --zero_stage 2");
  EXPECT_EQ(result.notes[1],
            "--deepspeed: these keys have no effect here, for the reasons in docs/ARGUMENTS.md: "
            "fp16.loss_scale_window, fp16.initial_scale_power, fp16.hysteresis, fp16.min_loss_scale, "
            "zero_optimization.allgather_partitions, zero_optimization.allgather_bucket_size, "
            "zero_optimization.overlap_comm, zero_optimization.reduce_scatter, "
            "zero_optimization.contiguous_gradients, steps_per_print, wall_clock_breakdown");
  EXPECT_EQ(result.notes[2],
            "--deepspeed: 'scheduler.type' is \"WarmupLR\": the warm-up is linear here; DeepSpeed's default "
            "without 'warmup_type' is logarithmic");
}

TEST(Deepspeed, AConfigurationOfStage3SetsArguments) {
  EXPECT_EQ(changed_by({"--deepspeed", kStage3}),
            (Names{"per_device_train_batch_size=2", "train_batch_size=32", "learning_rate=3e-05",
                   "warmup_steps=100", "weight_decay=0.01", "adam_beta1=0.8", "adam_beta2=0.99",
                   "adam_epsilon=1e-07", "gradient_accumulation_steps=4", "max_grad_norm=0.5", "bf16=True",
                   "zero_stage=3", "stage3_param_persistence_threshold=1000000"}));
  // Arguments with the same values as the configuration must not be refused. Two names of the same optimizer count as
  // equal.
  const Names equal{"--deepspeed", kStage3,        "--bf16", "--learning_rate", "0.00003", "--optim",
                    "adamw_torch", "--zero_stage", "3",      "--warmup_steps",  "100"};
  EXPECT_EQ(changed_by(equal).size(), 14u);
  EXPECT_EQ(parse(equal).arguments.optim, "adamw_torch");
}

TEST(Deepspeed, TheSchedulesAndOptimizersOfDeepspeedAreOurs) {
  EXPECT_EQ(changed_by({"--deepspeed", R"({"scheduler": {"type": "WarmupCosineLR"}})"}),
            (Names{"lr_scheduler_type=cosine_with_min_lr", "lr_scheduler_kwargs=min_lr_rate=0.0001"}));
  EXPECT_EQ(changed_by({"--deepspeed", R"({"scheduler": {"type": "WarmupCosineLR", "params": {
                         "cos_min_ratio": 0.1, "warmup_num_steps": 5}}})"}),
            (Names{"lr_scheduler_type=cosine_with_min_lr", "lr_scheduler_kwargs=min_lr_rate=0.1",
                   "warmup_steps=5"}));
  EXPECT_EQ(changed_by({"--deepspeed", R"({"optimizer": {"type": "sgd", "params": {"lr": 1, "momentum": 0.9,
                         "nesterov": true}}})"}),
            (Names{"learning_rate=1", "optim=sgd", "optim_args=momentum=0.9,nesterov=True"}));
  EXPECT_EQ(changed_by({"--deepspeed", R"({"optimizer": {"type": "AdamW"}})"}), Names{});
  EXPECT_EQ(
      deepspeed_error(R"({"optimizer": {"type": "OneBitAdam"}})"),
      "ds.json: 'optimizer.type' is \"OneBitAdam\", which is not one of AdamW, Adam, Lion, Adagrad, SGD: "
      "Plimsoll has no other optimizer of DeepSpeed; give one of these, or remove the section and give "
      "--optim");
  EXPECT_NE(deepspeed_error(R"({"scheduler": {"type": "OneCycle"}})").find("--lr_scheduler_type"),
            std::string::npos);
}

TEST(Deepspeed, AContradictionIsOneErrorThatNamesBoth) {
  EXPECT_EQ(
      error_of({"--deepspeed", R"({"optimizer": {"params": {"lr": 3e-5}}})", "--learning_rate", "5e-5"}),
      "--deepspeed: 'optimizer.params.lr' is 3e-05, but --learning_rate is 5e-05; write \"auto\" for the "
      "key, or leave the argument out");
  EXPECT_EQ(error_of({"--deepspeed", R"({"bf16": {"enabled": false}, "zero_optimization": {"stage": 2}})",
                      "--bf16", "--zero_stage", "1"}),
            "--deepspeed: 'bf16.enabled' is false, but --bf16 is True; --deepspeed: "
            "'zero_optimization.stage' is 2, but --zero_stage is 1; write \"auto\" for the key, or leave the "
            "argument out");
  EXPECT_NE(error_of({"--deepspeed", R"({"optimizer": {"type": "Lion"}})", "--optim", "sgd"})
                .find("'optimizer.type' is \"Lion\", but --optim is sgd"),
            std::string::npos);
  EXPECT_NE(error_of({"--deepspeed", R"({"optimizer": {"type": "SGD", "params": {"momentum": 0.9}}})",
                      "--optim_args", "momentum=0.8"})
                .find("is 0.9, but --optim_args momentum is 0.8"),
            std::string::npos);
  EXPECT_EQ(
      error_of({"--deepspeed", R"({"optimizer": {"params": {"lr": 1e-5}},
                      "scheduler": {"params": {"warmup_max_lr": 2e-5}}})"}),
      "--deepspeed: 'scheduler.params.warmup_max_lr' is 2e-05, but --deepspeed: 'optimizer.params.lr' is "
      "1e-05; both set --learning_rate, give one of them");
  const std::string steps = R"({"scheduler": {"params": {"total_num_steps": 1000}}})";
  EXPECT_EQ(
      error_of({"--deepspeed", steps}),
      "--deepspeed: 'scheduler.params.total_num_steps' is 1000, but --max_steps is -1: the schedule ends "
      "with the run; give --max_steps 1000, or write \"auto\" for the key");
  EXPECT_EQ(changed_by({"--deepspeed", steps, "--max_steps", "1000"}), Names{"max_steps=1000"});
}

// If a program fills in Arguments itself, the settings that differ from their defaults must count as given by the user.
TEST(Deepspeed, AProgramGivesWhatItChanges) {
  Arguments arguments;
  arguments.deepspeed = R"({"zero_optimization": {"stage": 2}, "gradient_clipping": 0.5})";
  const std::vector<std::string> notes = resolve_arguments(arguments);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0], "--deepspeed sets --zero_stage 2, --max_grad_norm 0.5");
  EXPECT_EQ(arguments.deepspeed, "");
  // After parsing, the settings must contain the values of the configuration and must not refer to its file, so that
  // they can be saved.
  Arguments again = arguments_from_json(arguments_json(arguments));
  EXPECT_EQ(again, arguments);
  EXPECT_TRUE(resolve_arguments(again).empty());
  EXPECT_EQ(again, arguments);
  arguments.deepspeed = R"({"gradient_clipping": 1.0})";
  EXPECT_NE(usage_error([&] { resolve_arguments(arguments); }).find("--max_grad_norm is 0.5"),
            std::string::npos);
}

// If a configuration sets a setting that a rule between settings refuses, the message must name the key of the
// configuration.
TEST(Deepspeed, LaterRulesNameTheKey) {
  const std::string message = error_of(
      {"--deepspeed", R"({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}})"});
  EXPECT_TRUE(message.starts_with("--deepspeed: 'zero_optimization.stage': --zero_stage 2 keeps")) << message;
  EXPECT_NE(
      message.find("offload_optimizer is set in --deepspeed: 'zero_optimization.offload_optimizer.device'"),
      std::string::npos)
      << message;
  EXPECT_EQ(changed_by({"--deepspeed", R"({"zero_optimization": {"offload_optimizer": {"device": "cpu"}}})"}),
            Names{"offload_optimizer=True"});
  EXPECT_NE(deepspeed_error(R"({"zero_optimization": {"offload_optimizer": {"device": "disk"}}})")
                .find("'zero_optimization.offload_optimizer.device' is \"disk\", which is not one of none, "
                      "cpu, nvme"),
            std::string::npos);
  EXPECT_TRUE(error_of({"--deepspeed", R"({"zero_optimization": {"stage": 4}})"})
                  .starts_with("--deepspeed: 'zero_optimization.stage': 4 is outside [0, 3]"));
}

// In DeepSpeed, the key nvme_path names the folder of the states. It may precede or follow the key device.
TEST(Deepspeed, TheDeviceNvmeIsJoinedWithItsFolder) {
  for (const char* section : {R"({"device": "nvme", "nvme_path": "/nvme/a b"})",
                              R"({"nvme_path": "/nvme/a b", "device": "nvme"})"}) {
    EXPECT_EQ(changed_by({"--deepspeed",
                          fmt::format(R"({{"zero_optimization": {{"offload_optimizer": {}}}}})", section)}),
              Names{"offload_optimizer=nvme:/nvme/a b"});
  }
  EXPECT_EQ(changed_by(
                {"--deepspeed",
                 R"({"zero_optimization": {"offload_optimizer": {"device": "cpu", "nvme_path": "/nvme"}}})"}),
            Names{"offload_optimizer=True"});
  for (const char* section : {R"({"device": "nvme"})", R"({"device": "nvme", "nvme_path": null})",
                              R"({"device": "nvme", "nvme_path": ""})"}) {
    const std::string message =
        deepspeed_error(fmt::format(R"({{"zero_optimization": {{"offload_optimizer": {}}}}})", section));
    EXPECT_NE(
        message.find(
            "'zero_optimization.offload_optimizer.device' is \"nvme\", but the section has no nvme_path"),
        std::string::npos)
        << message;
  }
}

TEST(Deepspeed, AnUnknownKeyNamesTheNearestOne) {
  EXPECT_EQ(deepspeed_error(R"({"zero_optimisation": {}})"),
            "ds.json: 'zero_optimisation': unknown key, did you mean 'zero_optimization'?");
  EXPECT_NE(deepspeed_error(R"({"zero_optimization": {"overlap_com": true}})")
                .find("did you mean 'zero_optimization.overlap_comm'?"),
            std::string::npos);
  EXPECT_NE(deepspeed_error(R"({"stage": 2})").find("did you mean 'zero_optimization.stage'?"),
            std::string::npos);
  EXPECT_NE(deepspeed_error(R"({"gradient_cliping": 1})").find("did you mean 'gradient_clipping'?"),
            std::string::npos);
  EXPECT_NE(deepspeed_error("{\"" + std::string(100000, 'x') + "\": 1}").find("unknown key"),
            std::string::npos);
}

TEST(Deepspeed, BrokenTextIsOneError) {
  EXPECT_TRUE(deepspeed_error("{\n // comment\n \"bf16\": {}}").starts_with("ds.json:2:"));
  EXPECT_TRUE(deepspeed_error("").starts_with("ds.json:1:1: not valid JSON"));
  EXPECT_EQ(deepspeed_error("[1]"), "ds.json:1: expected one object of settings, got a JSON array");
  EXPECT_EQ(deepspeed_error(R"({"fp16": true})"), "ds.json: 'fp16': expected an object, got the flag true");
  EXPECT_EQ(deepspeed_error(R"({"fp16": {"enabled": "maybe"}})"),
            "ds.json: 'fp16.enabled': expected true or false, got the text 'maybe'");
  EXPECT_EQ(deepspeed_error(R"({"gradient_accumulation_steps": 1.5})"),
            "ds.json: 'gradient_accumulation_steps': expected an integer, got the number 1.5");
  EXPECT_EQ(deepspeed_error(R"({"gradient_accumulation_steps": true})"),
            "ds.json: 'gradient_accumulation_steps': expected an integer, got the flag true");
  EXPECT_EQ(deepspeed_error(R"({"optimizer": {"params": {"betas": [0.9]}}})"),
            "ds.json: 'optimizer.params.betas': expected a list of two numbers, got a list");
  for (const char* broken : {"{",
                             "null",
                             "1",
                             "\"text\"",
                             "{\"bf16\": {\"enabled\": 1e999}}",
                             "{\"bf16\": {\"enabled\": []}}",
                             "{\"bf16\": {\"enabled\": {}}}",
                             "{\"optimizer\": []}",
                             "{\"optimizer\": {\"type\": 3}}",
                             "{\"optimizer\": {\"params\": {\"betas\": {\"a\": 1}}}}",
                             "{\"gradient_clipping\": {}}",
                             "{\"train_batch_size\": 1e300}",
                             "{\"train_batch_size\": -1e18}",
                             "{\"\": 1}",
                             "{\".\": 1}",
                             "{\"compile.*\": {}, \"compile\": 3}",
                             "{\"zero_optimization\": 2}",
                             "{\"amp\": 3}",
                             "{\"amp\": {\"opt_level\": \"O2\"}}",
                             "{\"a\\u0000b\": 1}",
                             "{\"bf16\": {}, \"bf16\": {}}",
                             "\xef\xbb\xbf{\"x\": 1}",
                             "{\"x\": \"\xff\"}"})
    EXPECT_FALSE(error_of({"--deepspeed", broken}).empty()) << broken;
}

TEST(Deepspeed, AFileIsNamedInEveryMessage) {
  const std::string path = std::string(PLIMSOLL_BINARY_DIR) + "/foreign_config_test.json";
  std::ofstream(path) << R"({"amp": {"enabled": true}})";
  EXPECT_EQ(error_of({"--deepspeed", path}),
            "--deepspeed " + path +
                ": 'amp': Apex is not supported; 'bf16.enabled' and 'fp16.enabled' train in mixed precision; "
                "remove the section");
  std::ofstream(path) << "{]";
  EXPECT_TRUE(error_of({"--deepspeed", path}).starts_with("--deepspeed " + path + ":1:2: not valid JSON"));
  std::filesystem::remove(path);
  EXPECT_EQ(error_of({"--deepspeed", path}),
            "--deepspeed " + path + ": cannot read settings: the file does not exist");
}

// YAML values have no fixed types, so words must be converted to the type of the key. If a settings file contradicts
// itself, the message must name the lines of both settings.
TEST(Deepspeed, ASettingsFileMayContainTheConfiguration) {
  const std::string path = std::string(PLIMSOLL_BINARY_DIR) + "/foreign_config_test.yaml";
  std::ofstream(path) << "deepspeed:\n  zero_optimization:\n    stage: 2\n    reduce_bucket_size: 5e8\n"
                         "    overlap_comm: true\n  gradient_clipping: 0.5\n";
  EXPECT_EQ(changed_by({path}), (Names{"max_grad_norm=0.5", "zero_stage=2"}));
  std::ofstream(path, std::ios::app) << "max_grad_norm: 2.0\n";
  const std::string message = error_of({path});
  EXPECT_TRUE(message.starts_with(path + ":1: --deepspeed: 'gradient_clipping' is \"0.5\", but "
                                         "--max_grad_norm is 2; "))
      << message;
  EXPECT_TRUE(message.ends_with("max_grad_norm is set in " + path + ":7")) << message;
  std::filesystem::remove(path);
}

TEST(Fsdp, OptionsStateWhatTheRanksDivide) {
  EXPECT_EQ(changed_by({"--fsdp", "full_shard auto_wrap"}), Names{"zero_stage=3"});
  EXPECT_EQ(changed_by({"--fsdp", "shard_grad_op,auto_wrap"}), Names{"zero_stage=2"});
  EXPECT_EQ(changed_by({"--fsdp", "no_shard"}), Names{"zero_stage=0"});
  EXPECT_EQ(changed_by({"--fsdp", "True"}), Names{"zero_stage=3"});
  EXPECT_EQ(changed_by({"--fsdp", "auto_wrap"}), Names{"zero_stage=3"});
  EXPECT_EQ(changed_by({"--fsdp", "False"}), Names{});
  EXPECT_EQ(changed_by({"--fsdp", R"(["full_shard", "auto_wrap"])"}), Names{"zero_stage=3"});
  const std::vector<std::string> notes = parse({"--fsdp", "full_shard auto_wrap"}).notes;
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_EQ(notes[0], "--fsdp sets --zero_stage 3");
  EXPECT_EQ(notes[1], "--fsdp: one key has no effect here, for the reasons in docs/ARGUMENTS.md: auto_wrap");
  EXPECT_EQ(error_of({"--fsdp", "hybrid_shard"}),
            "--fsdp: 'hybrid_shard': shards within a machine and replicas among machines are not in this "
            "version; give full_shard");
  EXPECT_EQ(
      error_of({"--fsdp", "full_shard offload"}),
      "--fsdp: 'offload': weights and states are stored on the device in this version; leave offload out");
  EXPECT_EQ(
      error_of({"--fsdp", "full_shard shard_grad_op"}),
      "--fsdp: 'shard_grad_op' is true, but --fsdp: 'full_shard' is true; both set --zero_stage, give one "
      "of them");
  EXPECT_EQ(
      error_of({"--fsdp", "full_shards"}),
      "--fsdp: 'full_shards' is not one of full_shard, shard_grad_op, no_shard, auto_wrap, hybrid_shard, "
      "hybrid_shard_zero2, offload, did you mean 'full_shard'?");
  EXPECT_EQ(error_of({"--fsdp", "full_shard", "--zero_stage", "1"}),
            "--fsdp: 'full_shard' is true, but --zero_stage is 1; give one of them");
  EXPECT_EQ(error_of({"--fsdp", "full_shard", "--deepspeed", "{}"}),
            "--deepspeed and --fsdp exclude each other: both state what the ranks divide; give one of them");
}

TEST(Fsdp, TheConfigurationIsReadWithTheOptions) {
  EXPECT_EQ(changed_by({"--fsdp", "full_shard auto_wrap", "--fsdp_config",
                        R"({"version": 2, "reshard_after_forward": true, "activation_checkpointing": true,
                            "transformer_layer_cls_to_wrap": ["BertLayer"], "fsdp_backward_prefetch":
                            "backward_pre", "fsdp_offload_params": false, "xla": false, "min_num_params": 0})"}),
            (Names{"gradient_checkpointing=True", "recompute=full", "zero_stage=3"}));
  EXPECT_EQ(changed_by({"--fsdp", "True", "--fsdp_config", R"({"reshard_after_forward": false})"}),
            Names{"zero_stage=2"});
  EXPECT_EQ(changed_by({"--fsdp", "True", "--fsdp_config", R"({"fsdp_sharding_strategy": 2})"}),
            Names{"zero_stage=2"});
  // FSDP's activation_checkpointing: false must not contradict Trainer's gradient_checkpointing, which is another
  // setting.
  EXPECT_EQ(changed_by({"--fsdp", "full_shard", "--fsdp_config", R"({"activation_checkpointing": false})",
                        "--gradient_checkpointing"}),
            (Names{"gradient_checkpointing=True", "recompute=full", "zero_stage=3"}));
  EXPECT_EQ(parse({"--fsdp_config", R"({"min_num_params": 0})"}).notes,
            Names{"--fsdp_config has no effect without --fsdp"});
  EXPECT_NE(error_of({"--fsdp", "full_shard", "--fsdp_config", R"({"reshard_after_forward": false})"})
                .find("both set --zero_stage"),
            std::string::npos);
  EXPECT_EQ(error_of({"--fsdp", "full_shard", "--fsdp_config", R"({"xla": true})"}),
            "--fsdp_config: 'xla' is true: TPUs are not supported; remove the key");
  EXPECT_NE(error_of({"--fsdp", "full_shard", "--fsdp_config", R"({"sharding_strategy": "HYBRID_SHARD"})"})
                .find("'sharding_strategy' is \"HYBRID_SHARD\", which is not one of FULL_SHARD"),
            std::string::npos);
}

TEST(ParallelismConfig, SizesAreTheNumberOfRanks) {
  EXPECT_EQ(changed_by({"--parallelism_config", R"({"dp_shard_size": 4})"}),
            (Names{"nproc_per_node=4", "zero_stage=3"}));
  EXPECT_EQ(
      changed_by({"--parallelism_config", R"({"parallelism_config_dp_replicate_size": 4, "tp_size": 1})"}),
      (Names{"nproc_per_node=4", "zero_stage=0"}));
  EXPECT_EQ(changed_by({"--parallelism_config", R"({"dp_replicate_size": 1, "dp_shard_size": 1})"}), Names{});
  EXPECT_EQ(changed_by({"--parallelism_config", R"({"dp_shard_size": 4})", "--nnodes", "2"}),
            (Names{"nproc_per_node=2", "nnodes=2", "zero_stage=3"}));
  EXPECT_EQ(changed_by({"--parallelism_config", R"({"dp_shard_size": 4})", "--zero_stage", "1"}),
            (Names{"nproc_per_node=4", "zero_stage=1"}));
  EXPECT_EQ(changed_by({"--parallelism_config", R"({"dp_shard_size": 4})", "--fsdp", "shard_grad_op"}),
            (Names{"nproc_per_node=4", "zero_stage=2"}));
  EXPECT_EQ(
      error_of({"--parallelism_config", R"({"dp_shard_size": 4})", "--nproc_per_node", "2"}),
      "--parallelism_config: 'dp_shard_size' is 4, but --nproc_per_node 2 and --nnodes 1 start 2; change "
      "one of them");
  EXPECT_EQ(error_of({"--parallelism_config", R"({"dp_replicate_size": 4})", "--zero_stage", "3"}),
            "--parallelism_config: 'dp_replicate_size' is 4, which divides nothing, but --zero_stage is 3; "
            "change one of them");
  EXPECT_EQ(changed_by({"--parallelism_config", R"({"tp_size": 2})"}),
            (Names{"nproc_per_node=2", "tp_size=2"}));
  EXPECT_EQ(changed_by({"--parallelism_config", R"({"tp_size": 2})", "--nproc_per_node", "6"}),
            (Names{"nproc_per_node=6", "tp_size=2"}));
  EXPECT_EQ(changed_by({"--parallelism_config", R"({"tp_size": 2, "dp_replicate_size": 3})"}),
            (Names{"nproc_per_node=6", "tp_size=2", "zero_stage=0"}));
  EXPECT_EQ(changed_by({"--parallelism_config", R"({"tp_size": 2, "dp_shard_size": 3})"}),
            (Names{"nproc_per_node=6", "tp_size=2", "zero_stage=3"}));
  EXPECT_NE(error_of({"--parallelism_config", R"({"dp_replicate_size": 2, "dp_shard_size": 4})"})
                .find("give 'dp_shard_size' alone"),
            std::string::npos);
  EXPECT_NE(error_of({"--parallelism_config", R"({"dp_shard_size": 0})"}).find("expected a number of ranks"),
            std::string::npos);
}

}  // namespace
}  // namespace plimsoll
