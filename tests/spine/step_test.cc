// Tests steps of whole models. The results have the same bits whatever the arena contained before, for every padded
// batch size, and without any one of the passes that promise to keep all bits. Gradient accumulation gives the same
// result as one large batch, and the memory that is really used in the arena is what the plan states.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/ir/graph_text.h"
#include "graph/ops/ops.h"
#include "tests/spine/step_cases.h"
#include "tests/spine/tiny_run.h"

namespace plimsoll {
namespace {

using testing::step_cases;
using testing::TinyBatch;
using testing::TinyCase;

const std::vector<int> kLengths{5, 1, 7, 3};
constexpr Bucket kBucket{.tokens = 40, .sequences = 5, .longest = 8};

struct StepResult {
  std::vector<std::vector<std::byte>> weights;
  std::vector<double> losses;
  int64_t high_water = 0;
  int64_t arena = 0;
};

StepResult run_steps(const TinyCase& test, const Bucket& bucket, uint8_t fill, int steps = 3,
                     double learning_rate = 1e-2) {
  const Plan plan = build_plan(testing::tiny_request(test, bucket));
  Executor executor(plan, {.fill = fill});
  testing::fill_weights(executor);
  StepResult result;
  int64_t micro = 0;
  for (int step = 1; step <= steps; ++step) {
    for (int64_t a = 0; a < test.accumulation; ++a) {
      const TinyBatch batch = testing::tiny_batch(test, kLengths, static_cast<uint32_t>(++micro));
      executor.set_accumulate(a > 0);
      result.losses.push_back(
          testing::forward_backward(executor, batch, micro, 4.0 * static_cast<double>(test.accumulation)));
    }
    executor.set_update(learning_rate, step);
    executor.run(kTrainProgram, Segment::kOptimizer);
    EXPECT_TRUE(executor.finite());
  }
  for (const WeightSpec& spec : plan.weights)
    result.weights.push_back(testing::bytes_of(executor, spec.name));
  result.high_water = executor.high_water_bytes();
  result.arena = plan.arena_bytes;
  return result;
}

TEST(Step, SameBitsWhateverTheArenaHeld) {
  for (const TinyCase& test : step_cases()) {
    SCOPED_TRACE(test.model_type);
    const StepResult zero = run_steps(test, kBucket, 0x00);
    const StepResult ones = run_steps(test, kBucket, 0xFF);
    EXPECT_EQ(zero.losses, ones.losses);
    EXPECT_EQ(zero.weights, ones.weights);
  }
}

TEST(Step, PreservingPassesKeepEveryBit) {
  int checked = 0;
  for (const PassInfo& pass : all_passes()) {
    if (pass.numerics != Numerics::kPreserving || !pass.needed_for.empty()) continue;
    for (TinyCase test : step_cases()) {
      // In 16 bits, recomputation changes results: the fused norm computes its output before it rounds the
      // normalised values, while recomputation starts from the rounded values. In fp32 nothing is rounded, and
      // the pass "recompute" changes no bit.
      if (pass.name == "recompute" && test.activations) continue;
      // The pass loss_with_gradients is skipped in 16 bits. Without it, the backward pass of a chunked loss
      // recomputes the output of the last norm, and this differs from the original by rounding.
      if (pass.name == "loss_with_gradients" && test.activations) continue;
      SCOPED_TRACE(std::string(pass.name) + " off, " + test.model_type);
      const StepResult on = run_steps(test, kBucket, 0xFF, 2);
      test.disabled_passes = {std::string(pass.name)};
      const StepResult off = run_steps(test, kBucket, 0xFF, 2);
      EXPECT_EQ(on.losses, off.losses);
      EXPECT_EQ(on.weights, off.weights);
      ++checked;
    }
  }
  EXPECT_GT(checked, 20);
}

// Compares a step without and with a pass that may change results slightly. Dropout is off, because its random
// numbers would change with the rows that a pass removes. In fp32 the loss may change by a few roundings of
// fp32; in bf16 and with 4-bit weights, by a few roundings of those types.
//
// The first update of an adaptive optimizer moves every weight by the learning rate, whatever the size of its
// gradient. If a gradient is smaller than its rounding error, the rounding determines its sign, so that the
// weights of two runs may differ by twice the learning rate. With a learning rate of 0.01, ModernBERT's loss
// grows from 0.33 to 0.98 in the first update, and the losses of two runs differ by up to 1.7 units of 16 bits,
// more than a rounding. kSmallRate keeps the difference below one unit. LargerBucket and finite differences
// test the gradients themselves.
constexpr double kSmallRate = 1e-3;
void expect_alike(const TinyCase& test, const StepResult& before, const StepResult& after) {
  ASSERT_EQ(before.losses.size(), after.losses.size());
  for (size_t i = 0; i < before.losses.size(); ++i) {
    const double unit = test.activations ? 0x1p-8 : 0x1p-18;
    EXPECT_NEAR(before.losses[i], after.losses[i], unit * (1 + before.losses[i]));
  }
}

// To find a faulty pass, a user can stop the compilation after each pass. The model must train after any
// number of passes, and a pass that is declared to preserve results must not change a bit.
TEST(Step, EveryPrefixOfThePassesTrainsAlike) {
  int same_bits = 0;
  int passes_run = 0;
  for (TinyCase test : step_cases()) {
    test.dropout = 0.0;
    if (test.lora) test.lora->dropout = 0.0;
    test.stop_after_pass = kStopAfterNone;
    StepResult before = run_steps(test, kBucket, 0xFF, 2, kSmallRate);
    for (const PassInfo& pass : all_passes()) {
      SCOPED_TRACE(fmt::format("stopped after {}, {}", pass.name, test.model_type));
      test.stop_after_pass = pass.name;
      const StepResult result = run_steps(test, kBucket, 0xFF, 2, kSmallRate);
      const bool preserves = pass.numerics == Numerics::kPreserving && pass.needed_for.empty() &&
                             !(pass.name == "recompute" && test.activations);
      if (preserves) {
        EXPECT_EQ(result.losses, before.losses);
        EXPECT_EQ(result.weights, before.weights);
        ++same_bits;
      } else {
        expect_alike(test, before, result);
      }
      before = result;
      ++passes_run;
    }
    test.stop_after_pass.clear();
    const StepResult whole = run_steps(test, kBucket, 0xFF, 2, kSmallRate);
    EXPECT_EQ(whole.losses, before.losses);
    EXPECT_EQ(whole.weights, before.weights);
  }
  EXPECT_GT(same_bits, 100);
  EXPECT_GT(passes_run, 200);
}

TEST(Step, APassThatARunNeedsIsNeverLeftOut) {
  TinyCase test{.accumulation = 2};
  test.lora = LoraConfig{.base_weights = BaseWeights::kInt8};
  test.stop_after_pass = "fuse";
  const Plan plan = build_plan(testing::tiny_request(test, kBucket));
  std::vector<std::string> ran;
  for (const PassRecord& pass : plan.programs.at(kTrainProgram).passes) {
    if (pass.ran) ran.push_back(pass.name);
    EXPECT_EQ(pass.despite_stop, pass.name == "accumulate" || pass.name == "quantized_weights") << pass.name;
  }
  EXPECT_EQ(ran, (std::vector<std::string>{"unread_rows", "fuse", "quantized_weights", "accumulate"}));
  for (const auto& [pass, reason] : {std::pair{"accumulate", "--gradient_accumulation_steps above 1"},
                                     {"quantized_weights", "--load_in_4bit or --load_in_8bit"}}) {
    test.disabled_passes = {pass};
    try {
      build_plan(testing::tiny_request(test, kBucket));
      ADD_FAILURE() << pass << " was left out";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      EXPECT_EQ(std::string(error.what()), fmt::format("--disable_pass {0}: a run with {1} needs this pass; "
                                                       "remove --disable_pass {0}, or run without {1}",
                                                       pass, reason));
    }
  }
}

// The mean times in a profile must not include the first run of an op with a batch size (bucket), which is slower.
TEST(Step, AProfileKeepsTheFirstRunInABucketApart) {
  const TinyCase test{.accumulation = 2};
  const Plan plan = build_plan(testing::tiny_request(test, {.tokens = 64, .sequences = 4, .longest = 16}));
  Executor executor(plan);
  testing::fill_weights(executor);
  executor.set_profiling(true);
  // The batches of the first and the third step are padded to 16 tokens, that of the second step to 32.
  for (const std::vector<int>& lengths : {kLengths, std::vector<int>{16, 12}, kLengths}) {
    const TinyBatch batch = testing::tiny_batch(test, lengths, 1);
    for (const bool add : {false, true}) {
      executor.set_accumulate(add);
      testing::forward_backward(executor, batch, 1, 4.0);
    }
    executor.set_update(1e-2, 1);
    executor.run(kTrainProgram, Segment::kOptimizer);
  }
  const auto& times = executor.times(kTrainProgram);
  const auto& first = executor.first_times(kTrainProgram);
  ASSERT_EQ(times.size(), plan.programs.at(kTrainProgram).graph.ops().size());
  for (size_t i = 0; i < times.size(); ++i) {
    const bool is_update = plan.programs.at(kTrainProgram).graph.ops()[i].segment == Segment::kOptimizer;
    EXPECT_EQ(first[i].runs, 2) << i;
    EXPECT_EQ(times[i].runs, is_update ? 1 : 4) << i;
  }
}

// During profiling the results of a step are read before the next step begins. The profiler waits for each op. If the ops of the next step
// ran before the results of a step were read, their time would count for the wrong step, and the log would show a last step of a few
// milliseconds.
TEST(Step, NothingRunsAheadDuringProfiling) {
  const Plan plan = build_plan(testing::tiny_request({}, kBucket));
  Executor executor(plan, {.runs_ahead = true});
  EXPECT_TRUE(executor.runs_ahead());
  executor.set_profiling(true);
  EXPECT_FALSE(executor.runs_ahead());
}

// Allocates every buffer separately instead of in the arena. The bits must stay the same, because no op may
// depend on which buffers are adjacent.
TEST(Step, SeparateBuffersKeepEveryBit) {
  for (TinyCase test : step_cases()) {
    SCOPED_TRACE(test.model_type);
    const StepResult shared = run_steps(test, kBucket, 0xFF);
    test.separate_buffers = true;
    const StepResult apart = run_steps(test, kBucket, 0xFF);
    EXPECT_EQ(shared.losses, apart.losses);
    EXPECT_EQ(shared.weights, apart.weights);
    EXPECT_GT(apart.arena, shared.arena);
  }
}

TEST(Step, ArenaIsUsedToTheLastBufferAndNotBeyond) {
  for (const TinyCase& test : step_cases()) {
    const StepResult result = run_steps(test, {.tokens = 16, .sequences = 4, .longest = 7}, 0xFF);
    EXPECT_EQ(result.high_water, result.arena);
  }
}

// The gradient of three micro-batches must equal that of one batch with all their sequences, so one SGD step gives the
// same weights up to rounding. With u = 2^-24, larger_bucket_test.cc measures that the loss of such a model differs
// from exact arithmetic by 1.2 u, and a gradient by 20 u of its norm. Here each of the two runs may differ by 4 u and
// 32 u. The norm of the gradient is at most 1. A weight is below 2 and is rounded once in each run, by at most u.
TEST(Step, AccumulationEqualsTheLargeBatch) {
  TinyCase test{
      .dropout = 0.0, .accumulation = 3, .optimizer = {.kind = OptimizerKind::kSgd, .max_grad_norm = 1.0}};
  const StepResult micro = run_steps(test, kBucket, 0xFF, 1);
  test.accumulation = 1;
  const Plan plan = build_plan(testing::tiny_request(test, {.tokens = 64, .sequences = 12, .longest = 8}));
  Executor executor(plan);
  testing::fill_weights(executor);
  TinyBatch all;
  all.cu_seqlens.push_back(0);
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    const TinyBatch part = testing::tiny_batch(test, kLengths, seed);
    const auto offset = static_cast<int32_t>(all.ids.size());
    all.ids.insert(all.ids.end(), part.ids.begin(), part.ids.end());
    all.token_types.insert(all.token_types.end(), part.token_types.begin(), part.token_types.end());
    all.positions.insert(all.positions.end(), part.positions.begin(), part.positions.end());
    all.class_labels.insert(all.class_labels.end(), part.class_labels.begin(), part.class_labels.end());
    for (size_t i = 1; i < part.cu_seqlens.size(); ++i) all.cu_seqlens.push_back(part.cu_seqlens[i] + offset);
  }
  const double loss = testing::forward_backward(executor, all, 1, 12.0);
  constexpr double u = 0x1p-24, rate = 1e-2;
  EXPECT_NEAR(loss, micro.losses[0] + micro.losses[1] + micro.losses[2], 2 * 4 * u * loss);
  executor.set_update(rate, 1);
  executor.run(kTrainProgram, Segment::kOptimizer);
  size_t index = 0;
  for (const WeightSpec& spec : plan.weights) {
    const std::vector<std::byte>& other = micro.weights[index++];
    const std::vector<double> values = testing::values_of(executor, spec.name);
    for (int64_t i = 0; i < spec.elements(); ++i) {
      float value = 0;
      std::memcpy(&value, other.data() + 4 * i, 4);
      EXPECT_NEAR(values[static_cast<size_t>(i)], static_cast<double>(value), 2 * (u + rate * 32 * u))
          << spec.name;
    }
  }
}

TEST(Step, ThePaddingTokenLearnsNothing) {
  // Batches read the embedding of the padding token, but training must not change it, as with padding_idx in
  // torch.nn.Embedding.
  TinyCase test{.accumulation = 2, .optimizer = {.weight_decay = 0.0}};
  const Plan plan = build_plan(testing::tiny_request(test, {.tokens = 32, .sequences = 4, .longest = 12}));
  Executor executor(plan);
  executor.zero_states();
  testing::fill_weights(executor);
  TinyBatch batch = testing::tiny_batch(test, {5, 7, 3}, 3);
  const auto padding = static_cast<int32_t>(plan.request.model.config.pad_token_id);
  ASSERT_EQ(padding, 0);
  const int32_t other = 5;
  batch.ids[2] = padding;
  batch.ids[3] = other;
  executor.set_accumulate(false);
  testing::forward_backward(executor, batch, 0, 3.0);
  const auto buffer =
      std::find_if(plan.persistent.begin(), plan.persistent.end(), [](const PersistentBuffer& b) {
        return b.storage == Storage::kGradient && b.name.find("word_embeddings") != std::string::npos;
      });
  ASSERT_NE(buffer, plan.persistent.end());
  const std::vector<double> gradient = testing::values_of(executor, buffer->name);
  const int64_t width = plan.request.model.config.hidden_size;
  double of_padding = 0.0, of_other = 0.0;
  for (int64_t c = 0; c < width; ++c) {
    of_padding += std::abs(gradient[static_cast<size_t>(padding * width + c)]);
    of_other += std::abs(gradient[static_cast<size_t>(other * width + c)]);
  }
  EXPECT_EQ(of_padding, 0.0);
  EXPECT_GT(of_other, 0.0);
}

// The executor must refuse ids that are too large for their table, because kernels do not check them and would
// read unrelated memory.
TEST(Step, ABatchWithRowsBeyondTheirTablesIsRefused) {
  const TinyCase test;
  const Bucket bucket{.tokens = 64, .sequences = 4, .longest = 32};
  const Plan plan = build_plan(tiny_request(test, bucket));
  Executor executor(plan);
  const ModelConfig& model = plan.request.model.config;
  const auto staged = [&](auto&& change) {
    testing::TinyBatch batch = testing::tiny_batch(test, {7, 5}, 3);
    change(batch);
    stage(executor, kTrainProgram, batch, 2);
  };
  staged([](testing::TinyBatch&) {});
  staged([&](testing::TinyBatch& batch) { batch.ids[3] = static_cast<int32_t>(model.vocab_size) - 1; });
  EXPECT_THROW(
      staged([&](testing::TinyBatch& batch) { batch.ids[3] = static_cast<int32_t>(model.vocab_size); }),
      Error);
  EXPECT_THROW(staged([](testing::TinyBatch& batch) { batch.ids[3] = -1; }), Error);
  EXPECT_THROW(staged([](testing::TinyBatch& batch) { batch.token_types[0] = 2; }), Error);
  EXPECT_THROW(staged([&](testing::TinyBatch& batch) {
                 batch.positions[0] = static_cast<int32_t>(model.max_position_embeddings);
               }),
               Error);
}

TEST(Step, TextFormRoundTrips) {
  for (const TinyCase& test : step_cases()) {
    const Plan plan = build_plan(testing::tiny_request(test, kBucket));
    for (const ProgramPlan& program : plan.programs) {
      const std::string text = print_graph(program.graph);
      EXPECT_EQ(print_graph(parse_graph(text, find_op)), text);
    }
  }
}

TEST(Step, NotFiniteGradientUpdatesNothingAndIsNamed) {
  const TinyCase test{.dropout = 0.0};
  const Plan plan = build_plan(testing::tiny_request(test, kBucket));
  Executor executor(plan);
  testing::fill_weights(executor);
  testing::set_value(executor, "classifier.bias", 0, INFINITY);
  std::vector<std::vector<std::byte>> before;
  for (const WeightSpec& spec : plan.weights) before.push_back(testing::bytes_of(executor, spec.name));
  testing::forward_backward(executor, testing::tiny_batch(test, kLengths, 1), 1, 4.0);
  executor.set_update(1e-2, 1);
  executor.run(kTrainProgram, Segment::kOptimizer);
  EXPECT_FALSE(executor.finite());
  EXPECT_FALSE(executor.first_bad_gradient().empty());
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(testing::bytes_of(executor, plan.weights[i].name), before[i]);
}

// The test makes two logits so different that the loss overflows to infinity, while the softmax and all
// gradients stay finite. The infinite loss alone must prevent the update.
TEST(Step, ALossThatIsNotFiniteUpdatesNothingByItself) {
  for (const bool in_backward : {false, true}) {
    const TinyCase test{
        .dropout = 0.0, .optimizer = {.max_grad_norm = 0.0}, .optimizer_in_backward = in_backward};
    const Plan plan = build_plan(testing::tiny_request(test, kBucket));
    Executor executor(plan);
    testing::fill_weights(executor);
    testing::set_value(executor, "classifier.bias", 0, 3e38);
    testing::set_value(executor, "classifier.bias", 1, -3e38);
    std::vector<std::vector<std::byte>> before;
    for (const WeightSpec& spec : plan.weights) before.push_back(testing::bytes_of(executor, spec.name));
    executor.set_update(1e-2, 1);  // called before the backward pass, which may already contain updates
    const double loss = testing::forward_backward(executor, testing::tiny_batch(test, kLengths, 1), 1, 4.0);
    executor.set_update(1e-2, 1);
    executor.run(kTrainProgram, Segment::kOptimizer);
    EXPECT_TRUE(std::isinf(loss)) << loss;
    EXPECT_TRUE(std::isfinite(executor.grad_norm()));
    EXPECT_FALSE(executor.finite());
    EXPECT_EQ(executor.first_bad_gradient(), "");
    for (size_t i = 0; i < before.size(); ++i)
      EXPECT_EQ(testing::bytes_of(executor, plan.weights[i].name), before[i]) << plan.weights[i].name;
  }
}

}  // namespace
}  // namespace plimsoll
