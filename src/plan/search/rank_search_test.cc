#include "plan/search/rank_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "plan/search/testing/run_case.h"

namespace plimsoll {
namespace {

// A run on H100s. The model has 4 heads, so that 2 or 4 ranks can divide its layers by tensor parallelism if the device permits that.
PlanRequest gpu_request() {
  PlanRequest request = small_request();
  request.model.config.num_attention_heads = 4;
  request.device.kind = KernelDevice::kCuda;
  request.device.gpu = *find_gpu_target("h100");
  request.evaluate = false;
  return request;
}

RunSpec run_with(const PlanRequest& request, const RankQuestion& question) {
  return with_ranks(run_of(request), question);
}

// Builds the plan of the run with the arguments of an answer.
Plan plan_of(const RunSpec& run, const RankAnswer& answer) {
  RunSpec asked = with_train_batch(run, answer.micro_batch, answer.accumulation);
  for (size_t i = 0; i + 1 < answer.arguments.size(); i += 2) {
    const std::string& name = answer.arguments[i];
    const std::string& value = answer.arguments[i + 1];
    if (name == "--tp_size") asked.arguments.tp_size = std::stoll(value);
    if (name == "--sequence_parallel") asked.arguments.sequence_parallel = value == "True";
    if (name == "--cp_size") asked.arguments.cp_size = std::stoll(value);
    if (name == "--pp_size") asked.arguments.pp_size = std::stoll(value);
    if (name == "--zero_stage") asked.arguments.zero_stage = std::stoll(value);
    if (name == "--recompute") asked.arguments.recompute = value;
  }
  return build_plan(request_of(asked));
}

TEST(RankSearch, EveryAnswerIsThePlanOfItsArguments) {
  const RankQuestion question{.ranks = 16, .ranks_per_machine = 8, .effective_batch = 64};
  RunSpec run = run_with(gpu_request(), question);
  run.facts.ranks.links = {.inside = "nvlink4", .between = "ib400"};
  const RankSearch search = search_ranks(run, question);
  ASSERT_GE(search.answers.size(), 4u);
  for (const RankAnswer& answer : search.answers) {
    const Plan plan = plan_of(run, answer);
    int64_t bytes = plan.total_bytes();
    for (const StagePlan& stage : plan.stages) bytes = std::max(bytes, stage.total_bytes);
    EXPECT_EQ(answer.total_bytes, bytes) << answer.division.text();
    EXPECT_EQ(plan.request.ranks.count, 16);
    EXPECT_EQ(answer.data_size * answer.division.group_size(), 16);
    EXPECT_EQ(answer.micro_batch * answer.accumulation * answer.data_size, 64)
        << "every row takes the same steps";
    EXPECT_TRUE(plan.fits());
    EXPECT_GE(answer.exposed_ms, 0);
    EXPECT_LT(answer.exposed_ms, answer.step_ms);
  }
  for (size_t i = 1; i < search.answers.size(); ++i)
    EXPECT_LE(search.answers[i].samples_per_s, search.answers[i - 1].samples_per_s);
}

TEST(RankSearch, ThreadsChangeNothing) {
  const RankQuestion question{.ranks = 4, .ranks_per_machine = 4, .effective_batch = 16};
  const RunSpec run = run_with(gpu_request(), question);
  const RankSearch one = search_ranks(run, question);
  RankQuestion parallel = question;
  parallel.num_threads = 3;
  const RankSearch three = search_ranks(run, parallel);
  ASSERT_EQ(one.answers.size(), three.answers.size());
  for (size_t i = 0; i < one.answers.size(); ++i) {
    EXPECT_EQ(one.answers[i].arguments, three.answers[i].arguments);
    EXPECT_EQ(one.answers[i].total_bytes, three.answers[i].total_bytes);
    EXPECT_EQ(one.answers[i].samples_per_s, three.answers[i].samples_per_s);
  }
  EXPECT_EQ(one.num_choices, three.num_choices);
  EXPECT_EQ(one.num_pruned, three.num_pruned);
}

// On CPUs the search must find divisions with tensor and pipeline parallelism, also together with the division of states.
TEST(RankSearch, DividesLayersAndStates) {
  PlanRequest request = small_request();
  request.model.config.num_attention_heads = 4;
  request.evaluate = false;
  RankQuestion question{.ranks = 4, .ranks_per_machine = 4, .effective_batch = 16, .num_answers = 100};
  const RankSearch search = search_ranks(run_with(request, question), question);
  std::set<std::string> found;
  for (const RankAnswer& answer : search.answers) found.insert(answer.division.text());
  EXPECT_TRUE(found.contains("--zero_stage 0") && found.contains("--zero_stage 3"));
  EXPECT_TRUE(found.contains("--tp_size 2") && found.contains("--tp_size 4"));
  EXPECT_FALSE(found.contains("--tp_size 2 --sequence_parallel True")) << "everything fits without it";
  EXPECT_TRUE(found.contains("--pp_size 2 --zero_stage 1") && found.contains("--tp_size 2 --pp_size 2"));
  EXPECT_TRUE(found.contains("--tp_size 2 --zero_stage 1") && found.contains("--tp_size 2 --zero_stage 3"));
  EXPECT_TRUE(search.refused.empty());
}

// If a split of the batch does not fit with tensor parallelism, the search must also try sequence parallelism.
TEST(RankSearch, DividesRowsIfActivationsExceedTheMemory) {
  PlanRequest request = preset_request("bert-large-uncased", 1, 512);
  request.device = gpu_request().device;
  request.evaluate = false;
  const RankQuestion question{.ranks = 2, .ranks_per_machine = 2, .effective_batch = 32, .num_answers = 100};
  RunSpec run = run_with(request, question);
  run.arguments.memory_limit = int64_t{7} << 30;
  const RankSearch search = search_ranks(run, question);
  const auto is_divided = [](const RankAnswer& answer) { return answer.division.sequence_parallel; };
  const auto found = std::ranges::find_if(search.answers, is_divided);
  ASSERT_NE(found, search.answers.end());
  EXPECT_EQ(found->division.text(), "--tp_size 2 --sequence_parallel True");
  EXPECT_EQ(plan_of(run, *found).total_bytes(), found->total_bytes);
}

// Two ranks cannot have one sequence each if a step has one, but they can have the halves of its tokens.
TEST(RankSearch, DividesTokensIfThereAreFewerSequencesThanRanks) {
  PlanRequest request = preset_request("bert-large-uncased", 1, 512);
  request.device = gpu_request().device;
  request.evaluate = false;
  const RankQuestion question{.ranks = 2, .ranks_per_machine = 2, .effective_batch = 1, .num_answers = 100};
  const RunSpec run = run_with(request, question);
  const RankSearch search = search_ranks(run, question);
  const auto has_contexts = [](const RankAnswer& answer) { return answer.division.context_size > 1; };
  const auto found = std::ranges::find_if(search.answers, has_contexts);
  ASSERT_NE(found, search.answers.end());
  EXPECT_EQ(found->division.text(), "--cp_size 2");
  const Plan plan = plan_of(run, *found);
  EXPECT_TRUE(plan.request.ranks.divides_context());
  EXPECT_EQ(plan.total_bytes(), found->total_bytes);
}

TEST(RankSearch, ABatchThatGroupsCannotShareIsRefused) {
  const RankQuestion question{.ranks = 4, .ranks_per_machine = 2, .effective_batch = 6};
  const RankSearch search = search_ranks(run_with(gpu_request(), question), question);
  ASSERT_FALSE(search.refused.empty());
  EXPECT_EQ(search.refused.front().reason,
            "4 groups of processes cannot divide a step of 6 sequences (--effective_batch_size) evenly");
}

// No plan may need less than the lower bound, however the ranks divide the model.
TEST(RankSearch, TheBoundIsBelowEveryPlan) {
  for (PlanRequest request : {gpu_request(), preset_request("bert-base-uncased", 2, 64)}) {
    request.ranks.count = 4;
    for (const int64_t accumulation : {1, 2}) {
      for (const ZeroStage stage :
           {ZeroStage::kNone, ZeroStage::kStates, ZeroStage::kGradients, ZeroStage::kWeights}) {
        request.ranks.zero_stage = stage;
        request.batches.accumulation_steps = accumulation;
        const Plan plan = build_plan(request);
        EXPECT_LE(least_rank_bytes(request, plan.num_trainable_parameters(), 0), plan.total_bytes())
            << static_cast<int>(stage);
      }
    }
  }
}

// Tests that bounds exclude divisions without planning them. The weights, gradients and states of BERT-large in fp32 take 16 bytes per
// parameter, 5.0 GiB, so that ranks which divide nothing cannot fit into 4 GiB. 64 ranks that divide everything need little.
TEST(RankSearch, DivisionsThatCannotFitAreNotPlanned) {
  PlanRequest request = preset_request("bert-large-uncased", 1, 32);
  request.device = gpu_request().device;
  request.evaluate = false;
  const RankQuestion question{.ranks = 64, .ranks_per_machine = 8, .effective_batch = 64};
  RunSpec run = run_with(request, question);
  run.arguments.memory_limit = int64_t{4} << 30;
  const RankSearch search = search_ranks(run, question);
  ASSERT_FALSE(search.answers.empty());
  for (const RankAnswer& answer : search.answers) {
    const bool divides_layers = answer.division.tensor_size * answer.division.pipeline_size > 1;
    EXPECT_TRUE(answer.division.zero_stage != ZeroStage::kNone || divides_layers);
    EXPECT_LE(answer.total_bytes, int64_t{4} << 30);
  }
  EXPECT_GT(search.num_pruned, 0);
}

}  // namespace
}  // namespace plimsoll
