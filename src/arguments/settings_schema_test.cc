// Compares the JSON Schema of settings files with the parser of settings: both must accept or refuse the same files.
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "arguments/argument_table.h"
#include "plimsoll/arguments.h"
#include "plimsoll/commands.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

struct SettingsFile {
  std::string json;
  bool is_valid = true;
};

std::vector<SettingsFile> settings_files() {
  std::vector<SettingsFile> files;
  for (
      const char* valid : {
          R"({})",
          R"({"$schema": "settings.schema.json", "learning_rate": 5e-5, "fp16": true})",
          R"({"fp16": null, "learning_rate": null, "memory_limit": null, "optim": null})",
          R"({"fp16": true, "bf16": false})",
          R"({"fp16": false, "bf16": true, "fp16_full_eval": false})",
          R"({"memory_limit": "16GiB"})",
          R"({"memory_limit": "1.5 GB", "recompute_budget": "500m"})",
          R"({"memory_limit": 17179869184})",
          R"({"memory_limit": "16777216"})",
          R"({"memory_limit": "16B", "matmul_workspace": 0})",
          R"({"eval_strategy": "no"})",
          R"({"eval_strategy": false})",
          R"({"eval_strategy": "off"})",
          R"({"task_name": "mrpc"})",
          R"({"task_name": "MRPC"})",
          R"({"task_name": ""})",
          R"({"optim": "adamw_torch"})",
          R"({"optim": "adamw_hf"})",
          R"({"optim": "adafactor"})",
          R"({"device": "cuda"})",
          R"({"device": "cuda:3"})",
          R"({"device": "cpu"})",
          R"({"device": "v100-16gb"})",
          R"({"lora_target_modules": ["query", "value"]})",
          R"({"lora_target_modules": "query,value"})",
          R"({"layers_to_transform": [0, 1, "2"]})",
          R"({"layers_to_transform": 3})",
          R"({"layers_to_transform": "0,1, 2"})",
          R"({"config_overrides": {"hidden_dropout_prob": 0, "hidden_act": "relu", "x": null}})",
          R"({"config_overrides": "num_hidden_layers=6,hidden_size=128"})",
          R"({"config_overrides": ""})",
          R"({"optim_args": {"momentum": 0.9, "nesterov": true}})",
          R"({"offload_optimizer": true})",
          R"({"offload_optimizer": "no"})",
          R"({"offload_optimizer": "nvme:/nvme"})",
          R"({"offload_optimizer": false, "zero_stage": 1})",
          R"({"init_lora_weights": true})",
          R"({"init_lora_weights": "True"})",
          R"({"peft_type": "LORA"})",
          R"({"use_dora": false})",
          R"({"use_dora": null})",
          R"({"push_to_hub": false})",
          R"({"deepspeed": null})",
          R"({"deepspeed": {"zero_optimization": {"stage": 2}}})",
          R"({"deepspeed": {}, "fsdp": "full_shard"})",
          R"({"fsdp": "full_shard auto_wrap", "deepspeed": false})",
          R"({"fsdp": true, "fsdp_config": {"reshard_after_forward": false}})",
          R"({"fsdp": ["full_shard"]})",
          R"({"parallelism_config": {"dp_shard_size": 4}})",
          R"({"train_batch_size": 16})",
          R"({"streaming": false})",
          R"({"r": 8, "target_modules": ["query"], "bias": "none"})",
          R"({"no_cuda": true})",
          R"({"evaluation_strategy": "epoch"})",
          R"({"evaluate_during_training": true})",
          R"({"warmup_ratio": 0.1})",
          R"({"logging_dir": "runs/logs"})",
          R"({"use_cpu": true, "device": "cpu"})",
          R"({"use_cpu": false, "device": "cuda:0"})",
          R"({"gradient_checkpointing": true, "recompute": "full"})",
          R"({"gradient_checkpointing": true})",
          R"({"gradient_checkpointing": false, "recompute": "cheap"})",
          R"({"gradient_checkpointing": false})",
          R"({"recompute_budget": "1GiB"})",
          R"({"recompute_budget": "1048576"})",
          R"({"recompute_budget": "1050000."})",
          R"({"recompute_budget": "2000000"})",
          R"({"optimizer_in_backward": true, "max_grad_norm": 0})",
          R"({"optimizer_in_backward": true, "max_grad_norm": 0.0, "gradient_accumulation_steps": 1, "bf16": true})",
          R"({"quiet": true, "log_level": "warning"})",
          R"({"quiet": true})",
          R"({"quiet": false, "log_level": "debug"})",
          R"({"dataset_name": "dummy"})",
          R"({"dataset_name": "glue", "task_name": "mrpc"})",
          R"({"train_file": "a.csv", "validation_file": "b.csv"})",
          R"({"load_in_4bit": true, "load_in_8bit": false})",
          R"({"lr_scheduler_type": "reduce_lr_on_plateau", "eval_strategy": "epoch"})",
          R"({"early_stopping_patience": 2, "eval_strategy": "steps"})",
          R"({"dataloader_num_workers": 1, "dataloader_prefetch_factor": 2})",
          R"({"dataloader_num_workers": 0})",
          R"({"disable_pass": ["recompute"], "recompute": "none"})",
          R"({"disable_pass": "fuse,recompute"})",
          R"({"chunked_loss": "always", "disable_pass": ["fuse"]})",
          R"({"scores": true})",
          R"({"scores": "logits"})",
          R"({"include_num_input_tokens_seen": true})",
      })
    files.push_back({valid, true});
  for (const char* refused : {
           R"([])",
           R"({"learning_rte": 1e-5})",
           R"({"learning_rate": "1e-5"})",
           R"({"learning_rate": -1})",
           R"({"max_seq_length": 0})",
           R"({"max_seq_length": 128.5})",
           R"({"fp16": "yes"})",
           R"({"fp16": 1})",
           R"({"fp16": true, "bf16": true})",
           R"({"fp16_full_eval": true, "bf16_full_eval": true})",
           R"({"memory_limit": "16"})",
           R"({"memory_limit": "16."})",
           R"({"memory_limit": "1000000"})",
           R"({"memory_limit": "1048575"})",
           R"({"memory_limit": "1039999.0"})",
           R"({"memory_limit": "1.5"})",
           R"({"memory_limit": 16})",
           R"({"matmul_workspace": 16})",
           R"({"memory_limit": "16 apples"})",
           R"({"memory_limit": 1.5})",
           R"({"memory_limit": "1.5.2GB"})",
           R"({"memory_limit": -1})",
           R"({"eval_strategy": "never"})",
           R"({"eval_strategy": true})",
           R"({"eval_strategy": 0})",
           R"({"task_name": "imdb"})",
           R"({"optim": "adam"})",
           R"({"optim": "galore_adamw"})",
           R"({"optim": 1})",
           R"({"offload_optimizer": "nvme:"})",
           R"({"offload_optimizer": "tape"})",
           R"({"offload_optimizer": 1})",
           R"({"offload_optimizer": "nvme:/nvme", "zero_stage": 1})",
           R"({"device": ""})",
           R"({"device": "cuda:"})",
           R"({"device": "cuda0"})",
           R"({"device": "cuda:12345"})",
           R"({"device": 0})",
           R"({"lora_target_modules": ["query", 1]})",
           R"({"lora_target_modules": {"a": 1}})",
           R"({"layers_to_transform": ["one"]})",
           R"({"layers_to_transform": [-1]})",
           R"({"layers_to_transform": "0-3"})",
           R"({"config_overrides": {"a": {"b": 1}}})",
           R"({"config_overrides": {"a": [1]}})",
           R"({"config_overrides": "hidden_size"})",
           R"({"config_overrides": "=1"})",
           R"({"config_overrides": 1})",
           R"({"init_lora_weights": "pissa"})",
           R"({"peft_type": "IA3"})",
           R"({"use_dora": true})",
           R"({"push_to_hub": true})",
           R"({"deepspeed": 2})",
           R"({"deepspeed": {"bf16": {"enabled": true}}, "fsdp": "full_shard"})",
           R"({"fsdp": 3})",
           R"({"train_batch_size": 0})",
           R"({"streaming": true})",
           R"({"block_size": 1})",
           R"({"label_names": ["labels"]})",
           R"({"r": "8"})",
           R"({"no_cuda": 3})",
           R"({"evaluation_strategy": "sometimes"})",
           R"({"warmup_ratio": 1})",
           R"({"warmup_ratio": -0.1})",
           R"({"use_cpu": true, "device": "cuda:0"})",
           R"({"gradient_checkpointing": true, "recompute": "cheap"})",
           R"({"activation_checkpointing": true, "recompute": "none"})",
           R"({"gradient_checkpointing": false, "recompute": "full"})",
           R"({"gradient_checkpointing": true, "activation_checkpointing": false})",
           R"({"recompute_budget": "1GiB", "recompute": "cheap"})",
           R"({"recompute_budget": "1GiB", "gradient_checkpointing": true})",
           R"({"recompute_budget": "1GiB", "offload_activations": true})",
           R"({"recompute_budget": "1GiB", "disable_pass": ["recompute"]})",
           R"({"recompute": "full", "disable_pass": "fuse, recompute"})",
           R"({"chunked_loss": "always", "disable_pass": ["chunked_loss"]})",
           R"({"optimizer_in_backward": true})",
           R"({"optimizer_in_backward": true, "max_grad_norm": null})",
           R"({"optimizer_in_backward": true, "max_grad_norm": 0.5})",
           R"({"optimizer_in_backward": true, "max_grad_norm": 0, "gradient_accumulation_steps": 2})",
           R"({"optimizer_in_backward": true, "max_grad_norm": 0, "fp16": true})",
           R"({"quiet": true, "log_level": "debug"})",
           R"({"output_dir": ""})",
           R"({"dataset_name": "dummy", "task_name": "mrpc"})",
           R"({"dataset_name": "dummy", "train_file": "a.csv"})",
           R"({"dataset_name": "dummy", "validation_file": "a.csv"})",
           R"({"dataset_name": "dummy", "test_file": "a.csv"})",
           R"({"dataset_name": "glue", "task_name": "mrpc", "train_file": "a.csv"})",
           R"({"load_in_4bit": true, "load_in_8bit": true})",
           R"({"lr_scheduler_type": "reduce_lr_on_plateau"})",
           R"({"lr_scheduler_type": "greedy", "eval_strategy": false})",
           R"({"save_strategy": "best"})",
           R"({"early_stopping_patience": 2, "eval_strategy": "no"})",
           R"({"dataloader_prefetch_factor": 2, "dataloader_num_workers": 0})",
           R"({"scores": "percent"})",
           R"({"include_num_input_tokens_seen": "some"})",
       })
    files.push_back({refused, false});
  return files;
}

bool reader_accepts(const std::string& json) {
  try {
    Arguments arguments = arguments_from_json(json, "settings.json");
    resolve_arguments(arguments);
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage) << json;
    return false;
  }
}

TEST(SettingsSchema, TheReaderDecidesAsTheCasesState) {
  int num_valid = 0;
  int num_refused = 0;
  for (const SettingsFile& file : settings_files()) {
    EXPECT_EQ(reader_accepts(file.json), file.is_valid) << file.json;
    ++(file.is_valid ? num_valid : num_refused);
  }
  EXPECT_GE(num_valid, 60);
  EXPECT_GE(num_refused, 70);
}

TEST(SettingsSchema, PythonsJsonschemaDecidesAsTheReader) {
  const std::filesystem::path folder = std::filesystem::path(PLIMSOLL_BINARY_DIR) / "settings_schema_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "schema.json") << settings_schema();
  Json cases = Json::array();
  for (const SettingsFile& file : settings_files())
    cases.push_back(Json::array({Json::parse(file.json), file.is_valid}));
  std::ofstream(folder / "cases.json") << cases.dump(1);
  const std::string command = "python3 '" PLIMSOLL_SOURCE_DIR "/src/arguments/testing/check_schema.py' '" +
                              (folder / "schema.json").string() + "' '" + (folder / "cases.json").string() +
                              "'";
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  constexpr int kNotInstalled = 77;
  constexpr int kNoSuchProgram = 127;
  if (WEXITSTATUS(status) == kNotInstalled || WEXITSTATUS(status) == kNoSuchProgram)
    GTEST_SKIP() << "Python's jsonschema is not installed";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// Tests the content of the schema directly, because the program that validates files with it may not be installed: it
// must contain the choices, ranges and exclusions of all settings.
TEST(SettingsSchema, StatesChoicesRangesAndExclusions) {
  const Json schema = Json::parse(settings_schema());
  const Json& properties = schema.at("properties");
  for (const Setting& setting : settings()) EXPECT_TRUE(properties.contains(std::string(setting.info.name)));
  for (const OldName& old : old_names()) EXPECT_TRUE(properties.contains(std::string(old.name)));
  EXPECT_EQ(schema.at("additionalProperties"), false);
  EXPECT_EQ(schema.at("allOf").size(), exclusions().size());
  EXPECT_EQ(properties.at("recompute").at("enum"),
            Json::parse(R"(["auto", "none", "cheap", "selective", "full", null])"));
  EXPECT_EQ(properties.at("max_seq_length").at("minimum"), 1);
  EXPECT_EQ(properties.at("use_dora").at("enum"), Json::parse("[null, false]"));
  EXPECT_EQ(properties.at("r").at("type"), Json::parse(R"(["integer", "null"])"));
  EXPECT_EQ(schema.at("allOf").front().dump(),
            R"({"not":{"allOf":[{"properties":{"fp16":{"const":true}},"required":["fp16"]},)"
            R"({"properties":{"bf16":{"const":true}},"required":["bf16"]}]}})");
}

// Each exclusion must name existing settings. The default values of two settings must never exclude each other, because
// a run without settings would be refused.
TEST(SettingsSchema, EveryExclusionIsOfSettingsAndAllowsTheDefaults) {
  for (const Exclusion& row : exclusions()) {
    for (const SettingState& state : {row.first, row.second})
      EXPECT_NE(find_setting(state.setting), nullptr) << state.setting;
    EXPECT_FALSE(holds(Arguments{}, row.first) && holds(Arguments{}, row.second)) << row.first.setting;
  }
}

}  // namespace
}  // namespace plimsoll
