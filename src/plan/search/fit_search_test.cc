#include "plan/search/fit_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <span>

#include "graph/ir/graph_text.h"
#include "hardware/gpu_target.h"
#include "plan/compile/graphs.h"
#include "plan/compile/placer.h"
#include "plan/search/budget.h"
#include "plan/search/change.h"
#include "plan/search/suggest.h"
#include "plan/search/testing/run_case.h"
#include "tests/support/sanitized.h"

namespace plimsoll {
namespace {

// Checks that build_graphs() followed by place_plan() results in the same plan as build_plan().
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

// A plan can be made from graphs that were built for another batch size. Their order of ops may not be the best for the new size, so the
// test allows the bytes to differ a little from those of a plan with graphs of its own.
TEST(PlacePlan, GraphsServeOtherBuckets) {
  const PlanRequest small = preset_request("bert-base-uncased", 2, 128);
  const PlanGraphs graphs = build_graphs(small);
  for (const int64_t sequences : {1, 4, 32}) {
    const PlanRequest request = preset_request("bert-base-uncased", sequences, 128);
    const Plan own = build_plan(request);
    const Plan placed = place_plan(request, graphs);
    EXPECT_NEAR(static_cast<double>(placed.arena_bytes) / static_cast<double>(own.arena_bytes), 1, 0.02)
        << sequences;
    EXPECT_EQ(placed.programs.at(kTrainProgram).ladder.back().tokens, request.batches.train.tokens);
  }
}

void expect_same_program(const ProgramPlan* a, const ProgramPlan* b) {
  ASSERT_EQ(a == nullptr, b == nullptr);
  if (a == nullptr) return;
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
    EXPECT_EQ(a->ops[i].queue_end, b->ops[i].queue_end);
  }
}

// The plan that a Placer makes for a batch size must not depend on the batch sizes of earlier calls.
TEST(Placer, PlacesEverySizeAsANewOneDoes) {
  int checked = 0;
  for (const PlanRequest& small : all_plan_cases()) {
    const PlanGraphs graphs = build_graphs(small);
    Placer placer(small, graphs);
    for (const int64_t sequences : {3, 1, 20, 3}) {
      PlanRequest request = small;
      request.batches.train = {.tokens = sequences * 40, .sequences = sequences, .longest = 40};
      request.batches.evaluate = {.tokens = sequences * 80, .sequences = sequences * 2, .longest = 40};
      request.host.data_bytes += sequences;
      const Plan fresh = place_plan(request, graphs);
      const Plan& again = placer.place(sizes_of(request));
      for (const std::string_view name : {kTrainProgram, kEvaluateProgram})
        expect_same_program(again.programs.find(name), fresh.programs.find(name));
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

// Returns plan requests in fp32 and in bf16, each of which differs in one field from the first one of its precision.
std::vector<PlanRequest> different_requests() {
  std::vector<PlanRequest> requests;
  for (const auto& change : std::vector<std::function<void(PlanRequest&)>>{
           [](PlanRequest&) {}, [](PlanRequest& r) { r.recompute.policy = RecomputePolicy::kFull; },
           [](PlanRequest& r) { r.batches.train = {.tokens = 999, .sequences = 9, .longest = 111}; },
           [](PlanRequest& r) { r.offload.activations = true; },
           [](PlanRequest& r) { r.memory_limit_bytes = 1; },
           [](PlanRequest& r) { r.batches.accumulation_steps = 2; },
           [](PlanRequest& r) { r.update.optimizer.kind = OptimizerKind::kLion; },
           [](PlanRequest& r) { r.update.offload_states = true; },
           [](PlanRequest& r) { r.model.freeze = {"*embeddings*"}; },
           [](PlanRequest& r) { r.model.lora = LoraConfig{}; },
           [](PlanRequest& r) { r.chunked_loss = ChunkedLoss::kAlways; },
           [](PlanRequest& r) { r.passes.disabled = {"fuse"}; }, [](PlanRequest& r) { r.evaluate = false; },
           [](PlanRequest& r) { r.model.label_smoothing = 0.1; }}) {
    for (const bool is_half : {false, true}) {
      requests.push_back(small_request());
      if (is_half) requests.back().precision.activation_dtype = DType::kBF16;
      if (is_half) requests.back().device.isa = CpuIsa::kAmx;
      change(requests.back());
    }
  }
  return requests;
}

// Expects that any two requests for which `share` returns true have graphs with equal texts. Returns the number of such pairs.
int expect_alike(const std::vector<PlanRequest>& requests,
                 bool (*share)(const PlanRequest&, const PlanRequest&),
                 const std::vector<std::string>& texts) {
  int num_alike = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (!share(requests[i], requests[k])) continue;
      EXPECT_EQ(texts[i], texts[k]) << i << " and " << k;
      ++num_alike;
    }
  }
  return num_alike;
}

// Requests for which a function such as share_begun_graphs() returns true must really have equal graphs. Requests that differ only in
// fields without effect on graphs should share them.
TEST(ShareBegunGraphs, IsTrueOfTheSameGraphs) {
  const std::vector<PlanRequest> requests = different_requests();
  std::vector<std::string> texts, gradients, evaluations;
  for (const PlanRequest& request : requests) {
    const PlanGraphs graphs = begin_graphs(request);
    texts.push_back(print_graph(graphs.programs.at(kTrainProgram).graph));
    gradients.push_back(print_graph(begin_gradients(request).graph));
    evaluations.emplace_back();
    if (!graphs.programs.contains(kEvaluateProgram)) continue;
    evaluations.back() = print_graph(graphs.programs.at(kEvaluateProgram).graph);
    texts.back() += evaluations.back();
  }
  EXPECT_EQ(expect_alike(requests, share_begun_graphs, texts), 20) << "five of each type";
  EXPECT_EQ(expect_alike(requests, share_gradients, gradients), 36 + 21)
      << "in fp32 also another optimizer, offloaded states, accumulation, and no evaluation; in bf16 neither "
         "accumulation nor Lion, "
         "which does not split weights";
  EXPECT_EQ(expect_alike(requests, share_evaluation, evaluations), 28 + 15)
      << "the same without the request that does not evaluate";
}

// A plan from shared graphs must equal the plan that is built for the request alone, whether SharedGraphs::announce() was called for the
// request or not.
TEST(SharedGraphs, ChangeNoPlan) {
  const std::vector<PlanRequest> requests = different_requests();
  for (const bool is_announced : {false, true}) {
    SharedGraphs shared(is_announced ? ChunkedGraphs::kShared : ChunkedGraphs::kBegunEachTime);
    if (is_announced) {
      for (const PlanRequest& request : requests) shared.announce(request);
    }
    for (const PlanRequest& request : requests) {
      const Plan alone = build_plan(request);
      const Plan together = build_plan(request, shared);
      EXPECT_EQ(together.total_bytes(), alone.total_bytes());
      ASSERT_EQ(together.programs.size(), alone.programs.size());
      for (const ProgramPlan& program : alone.programs)
        EXPECT_EQ(print_graph(together.programs.at(program.name).graph), print_graph(program.graph));
    }
  }
}

// The matrix product and the norm of a layer are fused only if the fused kernel occupies the whole GPU, which depends on the batch size.
// Therefore graphs that were begun for another batch size must not be reused.
TEST(ShareBegunGraphs, EvaluationIsOfTheBucketThatIsFinished) {
  PlanRequest small = preset_request("bert-large-uncased", 1, 128);
  small.device.kind = KernelDevice::kCuda;
  small.device.gpu = *find_gpu_target("h200");
  small.precision.activation_dtype = DType::kBF16;
  small.evaluate = true;
  small.batches.evaluate = {.tokens = 128, .sequences = 1, .longest = 128};
  PlanRequest large = small;
  large.batches.evaluate = {.tokens = 64 * 512, .sequences = 64, .longest = 512};
  ASSERT_TRUE(share_begun_graphs(small, large));
  const auto evaluation = [](const PlanGraphs& graphs) {
    return print_graph(graphs.programs.at(kEvaluateProgram).graph);
  };
  const std::string whole = evaluation(build_graphs(large));
  ASSERT_NE(whole, evaluation(build_graphs(small)));
  EXPECT_EQ(evaluation(finish_graphs(large, begin_graphs(small))), whole);
}

// Tests an example of Hugging Face's documentation: if 4 micro-batches of 16 sequences fit, they should be preferred to 64 micro-batches
// of 1.
TEST(RedundantAccumulation, IsSaidWhereALargerMicroBatchFitsAndIsFaster) {
  PlanRequest request = preset_request("bert-large-uncased", 1, 512);
  request.device.kind = KernelDevice::kCuda;
  request.device.gpu = *find_gpu_target("l4");
  request.batches.accumulation_steps = 64;
  request.memory_limit_bytes = request.device.gpu.memory_bytes;
  const std::string text = redundant_accumulation(build_plan(request), run_of(request));
  EXPECT_NE(text.find("64 micro-batches of batch size 1 are accumulated"), std::string::npos) << text;
  EXPECT_NE(text.find("--per_device_train_batch_size 32 --gradient_accumulation_steps 2"), std::string::npos)
      << text;
  request.memory_limit_bytes = build_plan(request).total_bytes();
  EXPECT_EQ(redundant_accumulation(build_plan(request), run_of(request)), "") << "nothing larger fits";
  request.memory_limit_bytes.reset();
  EXPECT_EQ(redundant_accumulation(build_plan(request), run_of(request)), "") << "no limit is known";
  EXPECT_NE(redundant_accumulation(build_plan(request), run_of(request), request.device.gpu.memory_bytes), "")
      << "the machine has room";
  request.memory_limit_bytes = request.device.gpu.memory_bytes;
  request.batches.accumulation_steps = 1;
  EXPECT_EQ(redundant_accumulation(build_plan(request), run_of(request)), "");
}

// Returns the method space (the sets to search) of a small model with these methods.
MethodSpace space_of(PlanRequest request, int64_t limit, const std::vector<std::string>& names = {},
                     Effect most = Effect::kOtherModel, int64_t effective_batch = 12) {
  request.evaluate = false;
  request.memory_limit_bytes = limit;
  MethodScope scope{.most = most};
  for (const std::string& name : names) scope.methods.push_back(find_method(name));
  RunSpec run = run_of(request);
  run.facts.lengths = SequenceLengths::kAllLongest;
  return {std::move(run), scope, effective_batch, effective_batch};
}

int64_t bytes_of(PlanRequest request, int64_t micro, int64_t accumulation, int64_t longest) {
  request.evaluate = false;
  request.batches.train = {.tokens = micro * longest, .sequences = micro, .longest = longest};
  request.batches.accumulation_steps = accumulation;
  return build_plan(request).total_bytes();
}

// Returns a request for a GPU whose CUDA context needs little memory compared with a small model.
PlanRequest small_request_on_gpu() {
  PlanRequest request = small_request();
  request.model.config.num_hidden_layers = 2;
  request.device.kind = KernelDevice::kCuda;
  request.device.gpu = *find_gpu_target("h200");
  request.device.gpu.constant_bytes = 0;
  request.captured_buckets = {1, 1, 1};
  request.offload.least_bytes = 1024;
  request.update.elements_at_once = 1 << 14;
  return request;
}

const std::vector<std::string> kAllNames = [] {
  std::vector<std::string> names;
  for (const Method& method : method_table()) {
    if (method.not_in_fit.empty() && method.kind != "trained part") names.emplace_back(method.name);
  }
  return names;
}();

TEST(SearchFit, AnswersAreTheLargestThatFit) {
  const FitQuestion question{.effective_batch = 12, .longest = 32, .most_tokens = 512, .largest_batch = 500};
  const int64_t low = bytes_of(small_request(), 1, 1, 32);
  const int64_t high = bytes_of(small_request(), 100, 1, 32);
  int fitting = 0;
  for (int step = 0; step <= 6; ++step) {
    const int64_t limit = low + (high - low) * step / 6;
    const FitSearch search = search_fit(space_of(small_request(), limit), question);
    EXPECT_GE(search.num_plans, 6);
    if (search.answers.empty()) {
      EXPECT_GT(search.own_bytes, limit);
      continue;
    }
    ++fitting;
    ASSERT_EQ(search.answers.size(), 1u);
    const FitAnswer& answer = search.answers[0];
    EXPECT_TRUE(answer.set.empty());
    EXPECT_EQ(answer.micro_batch * answer.accumulation, 12);
    EXPECT_EQ(answer.total_bytes, bytes_of(small_request(), answer.micro_batch, answer.accumulation, 32));
    EXPECT_LE(answer.total_bytes, limit);
    ASSERT_GE(answer.largest_batch, 1);
    EXPECT_LE(bytes_of(small_request(), answer.largest_batch, 1, 32), limit);
    EXPECT_GT(bytes_of(small_request(), answer.largest_batch + 2, 1, 32), limit);
    const auto of_length = [&](int64_t longest) {
      return bytes_of(small_request(), answer.micro_batch, answer.accumulation, longest);
    };
    EXPECT_LE(of_length(answer.longest_sequence), limit);
    if (answer.longest_sequence < question.most_tokens) {
      EXPECT_GT(of_length(answer.longest_sequence + 4), limit);
    }
  }
  EXPECT_GE(fitting, 4);
}

TEST(SearchFit, AMethodThatSavesMemoryIsThereWhereItIsNeeded) {
  PlanRequest request = small_request();
  request.device.isa = CpuIsa::kAmx;
  const FitQuestion question{
      .effective_batch = 64, .longest = 128, .most_tokens = 256, .largest_batch = 64, .num_detailed = 3};
  const std::vector<std::string> names{"bf16", "checkpointing"};
  const auto answers_of = [&](int64_t limit) {
    return search_fit(space_of(request, limit, names, Effect::kOtherModel, 64), question).answers;
  };
  const std::vector<FitAnswer> roomy = answers_of(int64_t{1} << 40);
  ASSERT_EQ(roomy.size(), 2u) << "nothing is computed again where there is room";
  EXPECT_EQ(roomy[0].set.text(), "bf16");
  EXPECT_EQ(roomy[0].extent.effect, Effect::kRounding);
  EXPECT_TRUE(roomy[1].set.empty());
  EXPECT_LT(roomy[0].ms_per_sample, roomy[1].ms_per_sample);
  EXPECT_EQ(roomy[1].largest_batch, 64);
  EXPECT_EQ(roomy[1].longest_sequence, 256);
  // Tests a limit that is too small for any batch in fp32, but sufficient for the smallest batch if layers are recomputed.
  PlanRequest full = request;
  full.recompute.policy = RecomputePolicy::kFull;
  const int64_t least = bytes_of(full, 1, 64, 128);
  ASSERT_LT(least, std::min(bytes_of(request, 1, 64, 128), bytes_of(request, 64, 1, 128)));
  bool is_there = false;
  for (const FitAnswer& answer : answers_of(least))
    is_there = is_there || answer.set.text() == "checkpointing";
  EXPECT_TRUE(is_there);
}

struct PlannedSet {
  MethodSet set = {};
  FitShape shape = {};
  int64_t bytes = 0;  // bytes if states and activations are copied as late as possible
  double ms = 0;      // estimated time per sample if unused memory is used for early copies
};

// Searches exhaustively: plans every set of methods with every split of the batch, and skips none because of a bound.
std::vector<PlannedSet> all_planned(const MethodSpace& space, const FitQuestion& question) {
  std::vector<PlannedSet> planned;
  SharedGraphs shared;
  for (const MethodSet& set : space.all_fixed()) {
    for (const FitShape& shape : splits_of(question)) {
      FitPlanner planner(space, set, shared);
      if (!planner.takes(shape)) continue;
      const FitNeeds late = planner.placed(shape);
      EXPECT_LE(space.least_bytes(set, shape.accumulation), late.bytes) << set.text();
      const std::optional<FitNeeds> built = planner.built(shape);
      EXPECT_TRUE(built.has_value()) << set.text();
      if (!built) continue;
      EXPECT_LE(late.least_ms, built->ms_per_sample * 1.0001) << set.text();
      planned.push_back({.set = set, .shape = shape, .bytes = late.bytes, .ms = built->ms_per_sample});
    }
  }
  return planned;
}

void expect_found(const MethodSpace& space, const FitQuestion& question, const std::vector<PlannedSet>& all) {
  const int64_t limit = *space.own_request().memory_limit_bytes;
  const FitSearch search = search_fit(space, question);
  ASSERT_FALSE(search.answers.empty()) << "the smallest run fits into " << limit;
  // The search ignores memory-saving methods that could make a step shorter by less than a percent. If methods copy values between the host
  // and the device, it compares the splits of the batch by plans in which these copies run as late as possible. Therefore the fastest
  // answer may be up to 2 % slower than the fastest run, and runs whose plan with late copies does not fit are not compared.
  const FitAnswer& fastest = *std::ranges::min_element(search.answers, {}, &FitAnswer::ms_per_sample);
  const double fast_enough = 0.98 * fastest.ms_per_sample;
  SharedGraphs shared;
  for (const PlannedSet& each : all) {
    if (each.bytes > limit || !is_tie(fastest.ms_per_sample, each.ms)) continue;
    const std::optional<FitNeeds> built = FitPlanner(space, each.set, shared).built(each.shape);
    EXPECT_FALSE(built && built->bytes <= limit && built->ms_per_sample < fast_enough)
        << each.set.text() << " takes " << built->ms_per_sample << " ms, the fastest that was found "
        << fastest.ms_per_sample << ": " << fastest.set.text();
    // A set whose time is within the error of estimates of the fastest time (a tie) must not change the run less than the first answer
    // does.
    if (!built || built->bytes > limit || !is_tie(fastest.ms_per_sample, built->ms_per_sample)) continue;
    EXPECT_LE(search.answers[0].extent, space.extent(each.set))
        << search.answers[0].set.text() << " precedes " << each.set.text();
  }
  EXPECT_TRUE(is_tie(fastest.ms_per_sample, search.answers[0].ms_per_sample)) << search.answers[0].set.text();
  for (const FitAnswer& answer : search.answers) {
    EXPECT_LE(answer.total_bytes, limit) << answer.set.text();
    for (const FitAnswer& other : search.answers) {
      EXPECT_FALSE(other.set.is_less_than(answer.set) && other.ms_per_sample * 1.005 < answer.ms_per_sample)
          << answer.set.text() << " needs fewer methods: " << other.set.text();
    }
  }
}

struct TieRow {
  std::string name = {};
  double ms = 0;
  ExtentOfChange extent = {};
  int tie = 0;
};

// Returns the names of the rows as order_ties() sorts them, each followed by the number of its tie: "as is 1, bf16 1, lora 2".
std::string ordered(std::vector<TieRow> rows) {
  order_ties(std::span(rows), &TieRow::ms, &TieRow::extent);
  std::string text;
  for (const TieRow& row : rows) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", row.name, row.tie);
  return text;
}

TEST(OrderTies, PutsTheRowOfATieFirstThatChangesTheRunLeast) {
  const ExtentOfChange none{};
  const ExtentOfChange exact{.effect = Effect::kNone, .num_arguments = 3};
  const ExtentOfChange bf16{.effect = Effect::kRounding, .num_arguments = 1};
  const ExtentOfChange bf16_adam{.effect = Effect::kRounding, .num_arguments = 2};
  const ExtentOfChange pure{.effect = Effect::kRounding, .drops_master_weights = true, .num_arguments = 1};
  const ExtentOfChange sgd{.effect = Effect::kOtherModel, .num_arguments = 1};
  EXPECT_EQ(ordered({}), "");
  EXPECT_EQ(ordered({{"bf16", 20, bf16}}), "bf16 1");
  // The times 20.3 and 20.7 are within 15 % of the fastest time, 20, so their rows are in its tie. 23.9 is within 15 % of neither 20 nor
  // 20.7.
  EXPECT_EQ(
      ordered(
          {{"pure", 20, pure}, {"bf16", 20.7, bf16}, {"bf16, adam", 20.3, bf16_adam}, {"as is", 23.9, none}}),
      "bf16 1, bf16, adam 1, pure 1, as is 2");
  // The row with the time 23.1 changes the run less than the row with 20.7, which would be the first of the tie, and is within 15 % of
  // it. Therefore it belongs to the tie and becomes its first row.
  EXPECT_EQ(ordered({{"pure", 20, pure},
                     {"bf16", 20.7, bf16},
                     {"bf16, adam", 23.05, bf16_adam},
                     {"as is", 23.1, none}}),
            "as is 1, bf16 1, bf16, adam 1, pure 1");
  const ExtentOfChange fp8{.effect = Effect::kRounding, .multiplies_in_8_bits = true, .num_arguments = 1};
  EXPECT_EQ(ordered({{"fp8", 20, fp8}, {"bf16, adam", 20.7, bf16_adam}}), "bf16, adam 1, fp8 1");
  EXPECT_EQ(ordered({{"pure", 1, pure}, {"bf16, adam", 1.1, bf16_adam}, {"bf16", 1.2, bf16}}),
            "bf16 1, bf16, adam 1, pure 1");
  EXPECT_EQ(ordered({{"pure", 20, pure}, {"as is", 22.9, none}}), "as is 1, pure 1");
  // A row that adds three arguments without changing any number changes the run less than a row with one argument that changes rounding.
  // The latter in turn changes it less than a row with another update rule.
  EXPECT_EQ(ordered({{"sgd", 1, sgd}, {"bf16", 1.1, bf16}, {"exact", 1.14, exact}}),
            "exact 1, bf16 1, sgd 1");
  // If two rows change the run equally, the faster one comes first.
  EXPECT_EQ(ordered({{"fp16", 1.01, bf16}, {"bf16", 1, bf16}}), "bf16 1, fp16 1");
  // Ties are not transitive: the times 1.1 and 1.2 differ by less than 15 %, but the row with 1.2 does not belong to the tie that begins
  // with the row with 1.
  EXPECT_EQ(ordered({{"a", 1, sgd}, {"b", 1.1, sgd}, {"c", 1.2, none}, {"d", 1.3, bf16}}),
            "a 1, b 1, c 2, d 2");
}

// Any answer of a tie may become the first one, because order_ties() sorts a tie by how much the answers change the run. Which answer is
// first must not depend on the number of answers that are requested.
TEST(SearchFit, TheFirstAnswerIsTheSameForAnyNumberOfThem) {
  FitQuestion question{.effective_batch = 4, .longest = 32, .most_tokens = 64, .largest_batch = 8};
  const int64_t own = bytes_of(small_request_on_gpu(), 4, 1, 32);
  for (const int64_t limit : {int64_t{1} << 40, own}) {
    const MethodSpace space = space_of(small_request_on_gpu(), limit, kAllNames, Effect::kRounding, 4);
    question.num_answers = 30;
    question.of_each_effect = true;
    const FitSearch many = search_fit(space, question);
    question.num_answers = 1;
    question.of_each_effect = false;
    const FitSearch one = search_fit(space, question);
    ASSERT_EQ(one.answers.size(), 1u);
    EXPECT_EQ(one.answers[0].set.text(), many.answers[0].set.text()) << limit;
    EXPECT_EQ(one.answers[0].ms_per_sample, many.answers[0].ms_per_sample) << limit;
  }
}

// Branch and bound must find the same answers as an exhaustive search, and every bound must hold.
TEST(SearchFit, MissesNothingThatFits) {
  if (test::kIsSanitized)
    GTEST_SKIP() << "some thousand plans: minutes of what the tests below do on fewer sets";
  const FitQuestion question{.effective_batch = 2, .longest = 32, .num_detailed = 0};
  struct Case {
    PlanRequest request = {};
    std::vector<std::string> names = {};
    Effect most = Effect::kRounding;
  };
  std::vector<Case> cases(3, {.request = small_request_on_gpu(), .names = kAllNames});
  cases[1].request.update.optimizer.max_grad_norm = 0.0;
  cases[1].names = {
      "bf16",       "pure_bf16",         "copies_at_use",       "checkpointing", "optimizer_in_backward",
      "adamw_8bit", "offload_optimizer", "offload_activations", "chunked_loss"};
  // With this number of labels the logits have 1 MiB, so that the search tries chunked logits.
  cases[1].request.model.config.num_labels = 132000;
  cases[1].request.update.elements_at_once = 1 << 20;
  cases[2].request.precision.activation_dtype = DType::kBF16;
  cases[2].names = {"bf16_gradients", "copies_at_use", "checkpointing",     "optimizer_in_backward",
                    "adafactor",      "sgd",           "offload_optimizer", "offload_activations"};
  cases[2].most = Effect::kOtherModel;
  for (const Case& each : cases) {
    const auto space = [&](int64_t limit) { return space_of(each.request, limit, each.names, each.most, 2); };
    const MethodSpace roomy = space(int64_t{1} << 40);
    const std::vector<PlannedSet> all = all_planned(roomy, question);
    ASSERT_GE(all.size(), 50u);
    const int64_t least = std::ranges::min_element(all, {}, &PlannedSet::bytes)->bytes;
    const int64_t own = std::ranges::find(all, MethodSet(), &PlannedSet::set)->bytes;
    const std::optional<MinimumMemoryRun> smallest = minimum_memory_run(roomy, question);
    ASSERT_TRUE(smallest.has_value());
    EXPECT_EQ(smallest->total_bytes, least) << smallest->set.text();
    EXPECT_LT(smallest->num_plans, std::ssize(all));
    for (int step = 0; step <= 4; ++step)
      expect_found(space(least + (own - least) * step / 4), question, all);
    EXPECT_TRUE(search_fit(space(least - 1), question).answers.empty());
  }
}

TEST(SearchFit, AnswersAreTheSameWithAnyNumberOfThreads) {
  const int64_t own = bytes_of(small_request_on_gpu(), 4, 1, 32);
  FitQuestion question{.effective_batch = 4, .longest = 32, .most_tokens = 128, .largest_batch = 100};
  for (const int64_t limit : {own, own * 2 / 3}) {
    const MethodSpace space = space_of(small_request_on_gpu(), limit, kAllNames, Effect::kRounding, 4);
    question.num_threads = 1;
    const FitSearch one = search_fit(space, question);
    const auto smallest = minimum_memory_run(space, question);
    question.num_threads = 4;
    const FitSearch four = search_fit(space, question);
    EXPECT_EQ(four.num_plans, one.num_plans);
    EXPECT_EQ(four.num_sets, one.num_sets);
    ASSERT_EQ(four.answers.size(), one.answers.size());
    for (size_t i = 0; i < one.answers.size(); ++i) {
      const FitAnswer& a = one.answers[i];
      const FitAnswer& b = four.answers[i];
      EXPECT_EQ(b.set, a.set);
      EXPECT_EQ(b.micro_batch, a.micro_batch);
      EXPECT_EQ(b.total_bytes, a.total_bytes);
      EXPECT_EQ(b.largest_batch, a.largest_batch);
      EXPECT_EQ(b.longest_sequence, a.longest_sequence);
    }
    const auto again = minimum_memory_run(space, question);
    ASSERT_TRUE(again && smallest);
    EXPECT_EQ(again->set, smallest->set);
    EXPECT_EQ(again->total_bytes, smallest->total_bytes);
    EXPECT_EQ(again->num_plans, smallest->num_plans);
  }
}

// A set that cannot be planned must be reported with the reason, for any number of threads.
TEST(SearchFit, ASetThatCannotBePlannedIsNamedWithItsReason) {
  PlanRequest request = small_request_on_gpu();
  request.model.freeze = {"*"};
  for (const int num_threads : {1, 3}) {
    const FitQuestion question{.effective_batch = 4, .longest = 16, .num_threads = num_threads};
    const FitSearch search = search_fit(space_of(request, int64_t{1} << 40, {"adamw_8bit"}), question);
    ASSERT_EQ(search.refused.size(), 2u);
    EXPECT_NE(search.refused[0].reason.find("--freeze"), std::string::npos) << search.refused[0].reason;
    EXPECT_TRUE(search.answers.empty());
  }
}

// A plan with a budget recomputes only as much as the limit requires, so the search should return it instead of a plan that recomputes
// whole layers.
TEST(SearchFit, ABudgetReplacesCheckpointing) {
  PlanRequest request = small_request();
  request.model.config.num_hidden_layers = 12;
  PlanRequest full = request;
  full.recompute.policy = RecomputePolicy::kFull;
  const int64_t limit = (bytes_of(request, 1, 1, 512) + bytes_of(full, 1, 1, 512)) / 2;
  const MethodSpace space = space_of(request, limit, {"checkpointing", "recompute_budget"}, Effect::kNone, 1);
  const FitSearch search =
      search_fit(space, {.effective_batch = 1, .longest = 512, .most_tokens = 600, .largest_batch = 8});
  ASSERT_EQ(search.answers.size(), 1u);
  const FitAnswer& answer = search.answers[0];
  EXPECT_EQ(answer.set.text(), "recompute_budget");
  EXPECT_LE(answer.total_bytes, limit);
  EXPECT_GE(answer.largest_batch, 1);
  EXPECT_GE(answer.longest_sequence, 512);
  EXPECT_EQ(words_of(answer.set, space.run()),
            (std::vector<std::string>{"--recompute_budget", fmt::format("{}MiB", limit >> 20)}));
}

// If the arguments request that the recomputed values are chosen (--recompute selective), the search must choose them for each batch size
// that it plans. If the arguments state a budget of bytes, no plan may exceed it.
TEST(SearchFit, AChoiceThatWasAskedForIsMadeForEachBatch) {
  PlanRequest request = small_request();
  request.evaluate = false;
  request.model.config.num_hidden_layers = 8;
  const FitQuestion question{
      .effective_batch = 4, .longest = 128, .most_tokens = 256, .largest_batch = 16, .num_detailed = 1};
  const int64_t limit = bytes_of(request, 4, 1, 128);
  RunSpec run = run_of(request);
  run.arguments.memory_limit = limit;
  run.arguments.recompute = "selective";
  const FitSearch selective = search_fit({run, {}, 4, 4}, question);
  ASSERT_EQ(selective.answers.size(), 1u);
  PlanRequest chosen = request;
  const FitAnswer& answer = selective.answers[0];
  chosen.batches.train = {
      .tokens = answer.micro_batch * 128, .sequences = answer.micro_batch, .longest = 128};
  chosen.batches.accumulation_steps = answer.accumulation;
  chosen.recompute = choose_selective(chosen).best.choice;
  EXPECT_EQ(answer.total_bytes, build_plan(chosen).total_bytes());

  run.arguments.recompute = "auto";
  run.arguments.recompute_budget = limit - 200000;
  const FitSearch by_budget = search_fit({run, {}, 4, 4}, question);
  ASSERT_EQ(by_budget.answers.size(), 1u);
  EXPECT_LE(by_budget.answers[0].total_bytes, *run.arguments.recompute_budget);
  run.arguments.recompute_budget = 1000;
  EXPECT_TRUE(search_fit({run, {}, 4, 4}, question).answers.empty());
}

}  // namespace
}  // namespace plimsoll
