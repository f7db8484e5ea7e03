#include "plan/search/method_set.h"

#include <gtest/gtest.h>

#include "hardware/gpu_target.h"
#include "plan/search/testing/run_case.h"

namespace plimsoll {
namespace {

MethodSet set_of(const std::vector<std::string>& names) {
  MethodSet set;
  for (const std::string& name : names) set = set.with(*find_method(name));
  return set;
}

PlanRequest on_h200() {
  PlanRequest request = small_request();
  request.device.kind = KernelDevice::kCuda;
  request.device.gpu = *find_gpu_target("h200");
  return request;
}

TEST(MethodSet, HasOneFormForEachSet) {
  EXPECT_EQ(set_of({"paged_adamw_8bit"}), set_of({"offload_optimizer", "adamw_8bit"}));
  EXPECT_EQ(set_of({"offload_optimizer", "bf16", "adamw_8bit"}).text(), "bf16, paged_adamw_8bit");
  EXPECT_EQ(set_of({"adamw_8bit", "bf16"}).text(), "bf16, adamw_8bit") << "in the order of the table";
  EXPECT_EQ(MethodSet().text(), "as it is");
  EXPECT_TRUE(MethodSet().empty());
  EXPECT_EQ(set_of({"paged_adamw_8bit"}).size(), 2);
  EXPECT_EQ(set_of({"bf16", "checkpointing"}).without_kind("recompute"), set_of({"bf16"}));
  EXPECT_EQ(set_of({"bf16", "checkpointing"}).only_kind("recompute"), set_of({"checkpointing"}));
}

TEST(MethodSet, KnowsWhatHasMore) {
  EXPECT_TRUE(MethodSet().is_less_than(set_of({"bf16"})));
  EXPECT_FALSE(set_of({"bf16"}).is_less_than(set_of({"bf16"})));
  EXPECT_TRUE(set_of({"bf16"}).is_less_than(set_of({"bf16_gradients"})));
  EXPECT_TRUE(set_of({"adamw_8bit"}).is_less_than(set_of({"paged_adamw_8bit"})));
  EXPECT_TRUE(set_of({"lora"}).is_less_than(set_of({"qlora", "bf16"})));
  EXPECT_FALSE(set_of({"bf16"}).is_less_than(set_of({"pure_bf16", "checkpointing"})));
}

TEST(Methods, WhatIsRefusedOrChangesNothingIsNotMade) {
  const RunSpec cpu = run_of(small_request());  // a CPU that cannot multiply bf16
  for (const char* name : {"bf16", "fp16", "tf32", "pure_bf16", "bf16_gradients", "offload_optimizer",
                           "offload_activations", "copies_at_use"})
    EXPECT_FALSE(changed_request(cpu, set_of({name})).has_value()) << name;
  EXPECT_EQ(changed_request(cpu, set_of({"paged_adamw_8bit"})), changed_request(cpu, set_of({"adamw_8bit"})));
  const RunSpec gpu = run_of(on_h200());
  for (const std::vector<std::string>& names : std::vector<std::vector<std::string>>{
           {"sgd", "offload_optimizer"},
           {"fp16", "optimizer_in_backward"},
           {"copies_at_use"}})  // a run in fp32 has no 16-bit copies of weights
    EXPECT_FALSE(changed_request(gpu, set_of(names)).has_value()) << set_of(names).text();
  // Weights that are stored as two halves, and weights in bf16, have no 16-bit copies.
  for (const char* precision : {"bf16", "pure_bf16"}) {
    EXPECT_EQ(changed_request(gpu, set_of({precision, "copies_at_use"})),
              changed_request(gpu, set_of({precision})));
  }
  for (const std::vector<std::string>& names :
       std::vector<std::vector<std::string>>{// SGD has no states, but its fp32 master weights are offloaded
                                             {"bf16", "sgd", "offload_optimizer"},
                                             {"fp16", "copies_at_use"},
                                             {"bf16", "adamw_8bit", "copies_at_use"},
                                             {"pure_bf16", "optimizer_in_backward", "offload_activations"}})
    EXPECT_TRUE(changed_request(gpu, set_of(names)).has_value()) << set_of(names).text();
  RunSpec own = gpu;
  own.arguments.bf16 = true;
  EXPECT_FALSE(changed_request(own, set_of({"bf16"})).has_value()) << "it is there already";
  EXPECT_FALSE(changed_request(own, set_of({"fp16"})).has_value());
  EXPECT_TRUE(changed_request(own, set_of({"pure_bf16"})).has_value());
  EXPECT_TRUE(changed_request(own, set_of({"bf16_gradients"})).has_value());
  own.arguments.optim_args["momentum_dtype"] = "bfloat16";
  EXPECT_FALSE(changed_request(own, set_of({"adamw_8bit"})).has_value()) << "it has no such option";
  EXPECT_FALSE(changed_request(own, set_of({"sgd_8bit"})).has_value()) << "it sets --optim_args itself";
}

// A method must not replace a setting that the user gave.
TEST(Methods, SettingsOfTheRunAreKept) {
  RunSpec run = run_of(on_h200());
  run.arguments.matmul_precision = "tf32";
  EXPECT_TRUE(changed_request(run, set_of({"checkpointing"})).has_value());
  EXPECT_FALSE(changed_request(run, set_of({"tf32x3"})).has_value());
  run = run_of(on_h200());
  run.arguments.freeze = {"*LayerNorm*"};
  EXPECT_FALSE(try_methods(run, set_of({"freeze"})).has_value());
  run.arguments.recompute = "none";
  EXPECT_FALSE(try_methods(run, set_of({"checkpointing"})).has_value());
}

TEST(Methods, AnAdapterIsThatOfItsArguments) {
  const RunSpec run = run_of(on_h200());
  const std::optional<PlanRequest> lora = changed_request(run, set_of({"lora"}));
  ASSERT_TRUE(lora && lora->model.lora);
  EXPECT_EQ(lora->model.lora->r, 8);
  const std::optional<PlanRequest> qlora = changed_request(run, set_of({"qlora"}));
  ASSERT_TRUE(qlora && qlora->model.lora);
  EXPECT_EQ(qlora->model.lora->base_weights, BaseWeights::kNf4);
  EXPECT_GT(qlora->host.io_bytes, lora->host.io_bytes) << "the largest matrix while it is quantized";
}

TEST(Methods, AnEffectIsThatOnTheRun) {
  PlanRequest request = on_h200();
  const auto effect = [&](const std::vector<std::string>& names) {
    return effect_of(set_of(names), request);
  };
  EXPECT_EQ(effect({}), Effect::kNone);
  EXPECT_EQ(effect({"checkpointing", "offload_optimizer", "offload_activations"}), Effect::kNone);
  EXPECT_EQ(effect({"adamw_8bit"}), Effect::kRounding);
  EXPECT_EQ(effect({"pure_bf16", "checkpointing"}), Effect::kRounding);
  EXPECT_EQ(effect({"lion_8bit"}), Effect::kOtherModel);
  EXPECT_EQ(effect({"optimizer_in_backward"}), Effect::kOtherModel) << "it does not clip";
  request.update.optimizer.max_grad_norm = 0.0;
  EXPECT_EQ(effect({"optimizer_in_backward"}), Effect::kNone);
  request.update.optimizer.kind = OptimizerKind::kLion;
  EXPECT_EQ(effect({"lion_8bit"}), Effect::kRounding);
  EXPECT_EQ(effect({"adamw_8bit"}), Effect::kOtherModel);
  EXPECT_EQ(effect({"bf16_moments"}), Effect::kOtherModel);
  request.precision.activation_dtype = DType::kF16;
  EXPECT_EQ(effect({"copies_at_use"}), Effect::kNone);
  EXPECT_EQ(effect({"checkpointing"}), Effect::kRounding);
  request.precision.activation_dtype = DType::kBF16;
  EXPECT_EQ(effect({"copies_at_use"}), Effect::kRounding);
}

TEST(Methods, WordsKeepStatesWhereTheyAre) {
  RunSpec run = run_of(on_h200());
  run.arguments.memory_limit = int64_t{3} << 30;
  const auto words = [&](const std::vector<std::string>& names) { return words_of(set_of(names), run); };
  EXPECT_EQ(words({"adamw_8bit", "offload_optimizer"}),
            (std::vector<std::string>{"--optim", "paged_adamw_8bit"}));
  EXPECT_EQ(words({"recompute_budget"}), (std::vector<std::string>{"--recompute_budget", "3072MiB"}));
  EXPECT_EQ(with_methods(run, set_of({"recompute_budget"})).arguments.recompute_budget, int64_t{3} << 30);
  run.arguments.optim = "paged_adamw_8bit";
  EXPECT_EQ(words({"lion"}), (std::vector<std::string>{"--optim", "lion_32bit", "--offload_optimizer"}));
  EXPECT_TRUE(request_of(with_methods(run, set_of({"lion"}))).update.offload_states);
}

}  // namespace
}  // namespace plimsoll
