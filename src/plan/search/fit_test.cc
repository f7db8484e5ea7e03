#include "plan/search/fit.h"

#include <gtest/gtest.h>

#include <functional>

#include "graph/ir/text.h"
#include "plan/anatomy/plan_case.h"
#include "plan/build/begun_graphs.h"
#include "plan/build/placer.h"
#include "plan/search/change.h"
#include "plan/search/needless.h"
#include "target/gpu_target.h"

namespace plimsoll {
namespace {

// What graphs and placing make of a request is its plan.
TEST(PlacePlan, IsTheRestOfBuildPlan) {
  int checked = 0;
  for (const PlanRequest& request : all_plan_cases()) {
    const Plan whole = build_plan(request);
    const Plan placed = place_plan(request, build_graphs(request));
    EXPECT_EQ(placed.total_bytes(), whole.total_bytes());
    EXPECT_EQ(placed.arena_bytes, whole.arena_bytes);
    EXPECT_EQ(placed.lower_bound_bytes, whole.lower_bound_bytes);
    ++checked;
  }
  EXPECT_GE(checked, 49);
}

// Graphs of one bucket serve others: the bytes are those of an order of ops that may not be the best for the
// other bucket, so they are near those of its own plan.
TEST(PlacePlan, GraphsServeOtherBuckets) {
  const PlanRequest small = preset_request("bert-base-uncased", 2, 128);
  const PlanGraphs graphs = build_graphs(small);
  for (const int64_t sequences : {1, 4, 32}) {
    const PlanRequest request = preset_request("bert-base-uncased", sequences, 128);
    const Plan own = build_plan(request);
    const Plan placed = place_plan(request, graphs);
    EXPECT_NEAR(static_cast<double>(placed.arena_bytes) / static_cast<double>(own.arena_bytes), 1, 0.02)
        << sequences;
    EXPECT_EQ(placed.train->ladder.back().tokens, request.train_bucket.tokens);
  }
}

void expect_same_program(const std::optional<ProgramPlan>& a, const std::optional<ProgramPlan>& b) {
  ASSERT_EQ(a.has_value(), b.has_value());
  if (!a) return;
  EXPECT_EQ(a->offsets, b->offsets);
  EXPECT_EQ(a->transient_bytes, b->transient_bytes);
  EXPECT_EQ(a->lower_bound_bytes, b->lower_bound_bytes);
  EXPECT_EQ(a->library_bytes, b->library_bytes);
  EXPECT_EQ(a->ladder, b->ladder);
  ASSERT_EQ(a->ops.size(), b->ops.size());
  for (size_t i = 0; i < a->ops.size(); ++i) {
    EXPECT_EQ(a->ops[i].kernel, b->ops[i].kernel);
    EXPECT_EQ(a->ops[i].refused.size(), b->ops[i].refused.size());
    EXPECT_EQ(a->ops[i].scratch_offset, b->ops[i].scratch_offset);
    EXPECT_EQ(a->ops[i].scratch_bytes, b->ops[i].scratch_bytes);
    EXPECT_EQ(a->ops[i].copy_end, b->ops[i].copy_end);
  }
}

// What was placed before leaves no trace.
TEST(Placer, PlacesEverySizeAsANewOneDoes) {
  int checked = 0;
  for (const PlanRequest& small : all_plan_cases()) {
    const PlanGraphs graphs = build_graphs(small);
    Placer placer(small, graphs);
    for (const int64_t sequences : {3, 1, 20, 3}) {
      PlanRequest request = small;
      request.train_bucket = {.tokens = sequences * 40, .sequences = sequences, .longest = 40};
      request.evaluate_bucket = {.tokens = sequences * 80, .sequences = sequences * 2, .longest = 40};
      request.host.data_bytes += sequences;
      const Plan fresh = place_plan(request, graphs);
      const Plan& again = placer.place(sizes_of(request));
      expect_same_program(again.train, fresh.train);
      expect_same_program(again.evaluate, fresh.evaluate);
      EXPECT_EQ(again.total_bytes(), fresh.total_bytes());
      EXPECT_EQ(again.arena_bytes, fresh.arena_bytes);
      EXPECT_EQ(again.lower_bound_bytes, fresh.lower_bound_bytes);
      EXPECT_EQ(again.host_bytes(), fresh.host_bytes());
      EXPECT_EQ(ms_per_sample(again), ms_per_sample(fresh));
      ++checked;
    }
  }
  EXPECT_GE(checked, 196);
}

// Graphs that are said to begin alike do, and what does not matter does not keep them apart.
TEST(BeginAlike, IsTrueOfTheSameGraphs) {
  std::vector<PlanRequest> requests;
  for (const auto& change : std::vector<std::function<void(PlanRequest&)>>{
           [](PlanRequest&) {}, [](PlanRequest& r) { r.recompute.policy = RecomputePolicy::kFull; },
           [](PlanRequest& r) { r.train_bucket = {.tokens = 999, .sequences = 9, .longest = 111}; },
           [](PlanRequest& r) { r.offload_activations = true; },
           [](PlanRequest& r) { r.memory_limit_bytes = 1; },
           [](PlanRequest& r) { r.gradient_accumulation_steps = 2; },
           [](PlanRequest& r) { r.optimizer.kind = OptimizerKind::kLion; },
           [](PlanRequest& r) { r.offload_optimizer = true; },
           [](PlanRequest& r) { r.freeze = {"*embeddings*"}; }, [](PlanRequest& r) { r.lora = LoraConfig{}; },
           [](PlanRequest& r) { r.chunked_loss = ChunkedLoss::kAlways; },
           [](PlanRequest& r) { r.passes.disabled = {"fuse"}; }, [](PlanRequest& r) { r.evaluate = false; },
           [](PlanRequest& r) { r.label_smoothing = 0.1; }}) {
    for (const bool is_half : {false, true}) {
      requests.push_back(small_request());
      if (is_half) requests.back().activation_dtype = DType::kBF16;
      if (is_half) requests.back().isa = CpuIsa::kAmx;
      change(requests.back());
    }
  }
  std::vector<std::string> texts;
  for (const PlanRequest& request : requests) {
    const PlanGraphs graphs = begin_graphs(request);
    texts.push_back(print_graph(graphs.train->graph));
    if (graphs.evaluate) texts.back() += print_graph(graphs.evaluate->graph);
  }
  int num_alike = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (!begin_alike(requests[i], requests[k])) continue;
      EXPECT_EQ(texts[i], texts[k]) << i << " and " << k;
      ++num_alike;
    }
  }
  EXPECT_EQ(num_alike, 20) << "five of each type";
}

// A layer's product and its norm are one op where that fills the card, which depends on the bucket: what was
// begun for another one is not kept.
TEST(BeginAlike, EvaluationIsOfTheBucketThatIsFinished) {
  PlanRequest small = preset_request("bert-large-uncased", 1, 128);
  small.device = KernelDevice::kCuda;
  small.gpu = *find_gpu_target("h200");
  small.activation_dtype = DType::kBF16;
  small.evaluate = true;
  small.evaluate_bucket = {.tokens = 128, .sequences = 1, .longest = 128};
  PlanRequest large = small;
  large.evaluate_bucket = {.tokens = 64 * 512, .sequences = 64, .longest = 512};
  ASSERT_TRUE(begin_alike(small, large));
  const auto evaluation = [](const PlanGraphs& graphs) { return print_graph(graphs.evaluate->graph); };
  const std::string whole = evaluation(build_graphs(large));
  ASSERT_NE(whole, evaluation(build_graphs(small)));
  EXPECT_EQ(evaluation(finish_graphs(large, begin_graphs(small))), whole);
}

// The documents: 4 x 16 where it fits, not 1 x 64.
TEST(NeedlessAccumulation, IsSaidWhereALargerMicroBatchFitsAndIsFaster) {
  PlanRequest request = preset_request("bert-large-uncased", 1, 512);
  request.device = KernelDevice::kCuda;
  request.gpu = *find_gpu_target("l4");
  request.gradient_accumulation_steps = 64;
  request.memory_limit_bytes = request.gpu.memory_bytes;
  const std::string text = needless_accumulation(build_plan(request));
  EXPECT_NE(text.find("64 micro-batches of 1 are accumulated"), std::string::npos) << text;
  EXPECT_NE(text.find("--per_device_train_batch_size 32 --gradient_accumulation_steps 2"), std::string::npos)
      << text;
  request.memory_limit_bytes = build_plan(request).total_bytes();
  EXPECT_EQ(needless_accumulation(build_plan(request)), "") << "nothing larger fits";
  request.memory_limit_bytes.reset();
  EXPECT_EQ(needless_accumulation(build_plan(request)), "") << "no limit is known";
  EXPECT_NE(needless_accumulation(build_plan(request), request.gpu.memory_bytes), "")
      << "the machine has room";
  request.memory_limit_bytes = request.gpu.memory_bytes;
  request.gradient_accumulation_steps = 1;
  EXPECT_EQ(needless_accumulation(build_plan(request)), "");
}

FitCandidate candidate_of(int64_t limit) {
  FitCandidate candidate{.methods = {}, .request = small_request()};
  candidate.request.evaluate = false;
  candidate.request.memory_limit_bytes = limit;
  return candidate;
}

int64_t bytes_of(const FitCandidate& candidate, int64_t micro, int64_t accumulation, int64_t longest) {
  PlanRequest request = candidate.request;
  request.train_bucket = {.tokens = micro * longest, .sequences = micro, .longest = longest};
  request.gradient_accumulation_steps = accumulation;
  return build_plan(request).total_bytes();
}

TEST(SearchFit, AnswersAreTheLargestThatFit) {
  const FitQuestion question{.effective_batch = 12, .longest = 32, .most_tokens = 512, .largest_batch = 500};
  const int64_t low = bytes_of(candidate_of(0), 1, 1, 32);
  const int64_t high = bytes_of(candidate_of(0), 100, 1, 32);
  int fitting = 0;
  for (int step = 0; step <= 6; ++step) {
    const int64_t limit = low + (high - low) * step / 6;
    const FitCandidate candidate = candidate_of(limit);
    const FitSearch search = search_fit({candidate}, question);
    ASSERT_EQ(search.answers.size(), 1u);
    EXPECT_GT(search.num_plans, 10);
    const FitAnswer& answer = search.answers[0];
    ASSERT_GE(answer.largest_batch, 1);
    EXPECT_LE(bytes_of(candidate, answer.largest_batch, 1, 32), limit);
    EXPECT_GT(bytes_of(candidate, answer.largest_batch + 2, 1, 32), limit);
    if (answer.micro_batch == 0) {
      EXPECT_GT(answer.smallest_bytes, limit);
      continue;
    }
    ++fitting;
    EXPECT_EQ(answer.micro_batch * answer.accumulation, 12);
    EXPECT_EQ(answer.total_bytes, bytes_of(candidate, answer.micro_batch, answer.accumulation, 32));
    EXPECT_LE(answer.total_bytes, limit);
    EXPECT_LE(bytes_of(candidate, answer.micro_batch, answer.accumulation, answer.longest_sequence), limit);
    if (answer.longest_sequence < question.most_tokens) {
      EXPECT_GT(bytes_of(candidate, answer.micro_batch, answer.accumulation, answer.longest_sequence + 4),
                limit);
    }
  }
  EXPECT_GE(fitting, 4);
}

TEST(SearchFit, RanksTheFastestFirstAndWhatDoesNotFitLast) {
  FitCandidate plain = candidate_of(int64_t{1} << 40);
  FitCandidate half = plain;
  half.request.isa = CpuIsa::kAmx;
  half.request.activation_dtype = DType::kBF16;
  FitCandidate none = candidate_of(1000);
  const FitSearch search = search_fit(
      {none, plain, half}, {.effective_batch = 64, .longest = 128, .most_tokens = 256, .largest_batch = 64});
  ASSERT_EQ(search.answers.size(), 3u);
  EXPECT_EQ(search.answers[0].candidate, 2u);
  EXPECT_EQ(search.answers[1].candidate, 1u);
  EXPECT_EQ(search.answers[2].candidate, 0u);
  EXPECT_EQ(search.answers[2].micro_batch, 0);
  EXPECT_GT(search.answers[2].smallest_bytes, 1000);
  EXPECT_EQ(search.answers[1].largest_batch, 64);
  EXPECT_EQ(search.answers[1].longest_sequence, 256);
}

TEST(SearchFit, AnswersAreTheSameWithAnyNumberOfThreads) {
  std::vector<FitCandidate> candidates;
  for (int i = 1; i <= 9; ++i) candidates.push_back(candidate_of(i * bytes_of(candidate_of(0), 1, 1, 32)));
  FitQuestion question{.effective_batch = 12, .longest = 32, .most_tokens = 128, .largest_batch = 100};
  const FitSearch one = search_fit(candidates, question);
  question.num_threads = 4;
  const FitSearch four = search_fit(candidates, question);
  EXPECT_EQ(four.num_plans, one.num_plans);
  ASSERT_EQ(four.answers.size(), one.answers.size());
  for (size_t i = 0; i < one.answers.size(); ++i) {
    const FitAnswer& a = one.answers[i];
    const FitAnswer& b = four.answers[i];
    EXPECT_EQ(b.candidate, a.candidate);
    EXPECT_EQ(b.micro_batch, a.micro_batch);
    EXPECT_EQ(b.total_bytes, a.total_bytes);
    EXPECT_EQ(b.largest_batch, a.largest_batch);
    EXPECT_EQ(b.longest_sequence, a.longest_sequence);
  }
}

// On whichever thread it is found, and whatever the others find.
TEST(SearchFit, ARefusedCandidateIsNamedWithItsReason) {
  std::vector<FitCandidate> candidates(6, candidate_of(int64_t{1} << 40));
  candidates[4].request.optimizer_in_backward = true;  // which no split with accumulation can
  for (const int num_threads : {1, 3}) {
    const FitQuestion question{.effective_batch = 4, .longest = 16, .num_threads = num_threads};
    const FitSearch search = search_fit(candidates, question);
    ASSERT_EQ(search.refused.size(), 1u);
    EXPECT_EQ(search.refused[0].candidate, 4u);
    EXPECT_NE(search.refused[0].reason.find("accumul"), std::string::npos) << search.refused[0].reason;
    ASSERT_EQ(search.answers.size(), 5u);
    for (const FitAnswer& answer : search.answers) EXPECT_NE(answer.candidate, 4u);
  }
}

}  // namespace
}  // namespace plimsoll
