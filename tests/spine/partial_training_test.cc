// Tests training only a part of a model, combined with every other method. The results have the same bits whatever
// the arena contained before, frozen weights do not change and have no gradients or states, and a method that promises
// bit-identical results gives the same bits as a run without it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "tests/spine/attention_again.h"
#include "tests/spine/tiny_run.h"

namespace plimsoll {
namespace {

using testing::TinyBatch;
using testing::TinyCase;

constexpr Bucket kBucket{.tokens = 16, .sequences = 4, .longest = 7};
const std::vector<int> kLengths{5, 1, 7, 3};
constexpr int kSteps = 2;

struct Named {
  std::string name;
  std::function<void(TinyCase&)> apply;
};

// Returns the cases: each trains a different part of a model.
std::vector<Named> parts() {
  const auto lora = [](LoraConfig config) {
    return [config = std::move(config)](TinyCase& test) { test.lora = config; };
  };
  LoraConfig everywhere{.r = 3, .alpha = 5.0, .dropout = 0.1};
  everywhere.target_modules = {"all-linear"};
  LoraConfig four_bits = everywhere;
  four_bits.base_weights = BaseWeights::kNf4;
  four_bits.double_quant = true;
  LoraConfig with_pooler{.base_weights = BaseWeights::kInt8};
  with_pooler.modules_to_save = {"pooler"};
  return {{"frozen layers",
           [](TinyCase& test) {
             test.freeze = {"*embeddings*", "*layer.0.*"};
           }},
          {"frozen biases", [](TinyCase& test) { test.freeze = {"*.bias"}; }},
          {"adapters", lora(everywhere)},
          {"adapters, 4 bits", lora(four_bits)},
          {"adapters, 8 bits", lora(with_pooler)}};
}

std::vector<Named> optimizers() {
  std::vector<Named> list;
  for (const OptimizerKind kind :
       {OptimizerKind::kAdamW, OptimizerKind::kSgd, OptimizerKind::kLion, OptimizerKind::kAdagrad,
        OptimizerKind::kAdafactor, OptimizerKind::kAdamW8Bit, OptimizerKind::kLion8Bit,
        OptimizerKind::kSgd8Bit, OptimizerKind::kAdagrad8Bit}) {
    list.push_back({std::string(optimizer_row(kind).name), [kind](TinyCase& test) {
                      test.optimizer = {.kind = kind, .weight_decay = 0.01};
                      if (kind == OptimizerKind::kSgd8Bit) test.optimizer.momentum = 0.9;
                    }});
  }
  return list;
}

std::vector<Named> precisions() {
  return {{"fp32", [](TinyCase&) {}},
          {"bf16", [](TinyCase& test) { test.activations = DType::kBF16; }},
          {"pure bf16", [](TinyCase& test) { test.activations = test.dtype = DType::kBF16; }}};
}

struct Outcome {
  std::vector<double> losses;
  std::map<std::string, std::vector<std::byte>> trained;
  int64_t num_updated = 0;
};

// Returns the bytes of all persistent buffers in which this weight is stored. The 16-bit copies for matrix products on a GPU are
// left out, because they are made in the first step and so differ before and after it even if the weight does not.
std::vector<std::byte> held_bytes(Executor& executor, const std::string& weight) {
  std::vector<std::byte> bytes;
  for (const PersistentBuffer& buffer : executor.plan().persistent) {
    if (buffer.storage != Storage::kWeight || !buffer.name.starts_with(weight)) continue;
    if (buffer.name == weight_copy_name(weight, DType::kBF16)) continue;
    const std::vector<std::byte> own = testing::bytes_of(executor, buffer.name);
    bytes.insert(bytes.end(), own.begin(), own.end());
  }
  return bytes;
}

void expect_nothing_kept_for(const Plan& plan, const WeightSpec& frozen) {
  for (const PersistentBuffer& buffer : plan.persistent) {
    if (buffer.storage != Storage::kOptimizerState && buffer.storage != Storage::kGradient) continue;
    EXPECT_EQ(buffer.name.find(frozen.name), std::string::npos) << buffer.name;
  }
}

Outcome run(const TinyCase& test, uint8_t fill) {
  const Plan plan = build_plan(testing::tiny_request(test, kBucket));
  Executor executor(plan, {.fill = fill});
  testing::fill_weights(executor);
  std::map<std::string, std::vector<std::byte>> before;
  for (const WeightSpec& spec : plan.weights) before[spec.name] = held_bytes(executor, spec.name);
  Outcome outcome;
  int64_t micro = 0;
  for (int step = 1; step <= kSteps; ++step) {
    // The step is set before the backward pass, which may already contain updates.
    executor.set_update(1e-2, step);
    for (int64_t a = 0; a < test.accumulation; ++a) {
      const TinyBatch batch = testing::tiny_batch(test, kLengths, static_cast<uint32_t>(++micro));
      executor.set_accumulate(a > 0);
      outcome.losses.push_back(testing::forward_backward(executor, batch, micro, 4.0));
    }
    executor.run(kTrainProgram, Segment::kOptimizer);
    EXPECT_TRUE(executor.finite());
  }
  for (const WeightSpec& spec : plan.weights) {
    const std::vector<std::byte> after = held_bytes(executor, spec.name);
    if (spec.trainable) {
      outcome.num_updated += after != before[spec.name] ? 1 : 0;
      outcome.trained[spec.name] = testing::bytes_of(executor, spec.name);
    } else {
      EXPECT_TRUE(after == before[spec.name]) << spec.name;
      expect_nothing_kept_for(plan, spec);
    }
  }
  EXPECT_LE(executor.high_water_bytes(), plan.arena_bytes);
  return outcome;
}

void expect_same(const Outcome& a, const Outcome& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_TRUE(a.trained == b.trained);
}

TEST(PartialTraining, WorksWithEveryOptimizerInEveryPrecision) {
  int checked = 0;
  for (const Named& part : parts()) {
    for (const Named& optimizer : optimizers()) {
      for (const Named& precision : precisions()) {
        SCOPED_TRACE(part.name + ", " + optimizer.name + ", " + precision.name);
        TinyCase test{.accumulation = checked % 2 + 1};
        part.apply(test);
        optimizer.apply(test);
        precision.apply(test);
        // The cases with 8-bit optimizers use wider adapters, because only tensors of at least 64 x 64 elements
        // have 8-bit states.
        if (test.lora && optimizer.name.ends_with("8bit")) {
          test.lora->r = test.hidden = 64;
          test.layers = 1;
        }
        const Outcome zero = run(test, 0x00);
        expect_same(zero, run(test, 0xFF));
        EXPECT_GT(zero.num_updated, std::ssize(zero.trained) / 2);
        for (const double loss : zero.losses) EXPECT_TRUE(std::isfinite(loss));
        ++checked;
      }
    }
  }
  EXPECT_EQ(checked, 5 * 9 * 3);
}

// In fp32, recomputation and updates in the backward pass must not change any bit of the results if only a part of the
// model is trained.
TEST(PartialTraining, KeepsTheBitsWhereMethodsPromiseThem) {
  int checked = 0;
  for (const Named& part : parts()) {
    for (const char* model : {"bert", "distilbert"}) {
      TinyCase test{.model_type = model, .optimizer = {.weight_decay = 0.01, .max_grad_norm = 0.0}};
      part.apply(test);
      if (test.lora && std::string_view(model) == "distilbert") {
        test.lora->modules_to_save.clear();
        test.lora->target_modules = {"q_lin", "lin2"};
      }
      SCOPED_TRACE(part.name + ", " + model);
      const Outcome plain = run(test, 0xFF);
      const RecomputeChoice choices[] = {{.policy = RecomputePolicy::kCheap},
                                         {.policy = RecomputePolicy::kFull},
                                         testing::attention_again(testing::tiny_request(test, kBucket))};
      for (const RecomputeChoice& choice : choices) {
        SCOPED_TRACE(choice.kept_of_block.empty() ? recompute_policy_name(choice.policy) : "attention");
        test.recompute = choice;
        test.optimizer_in_backward = false;
        expect_same(plain, run(test, 0xFF));
        test.optimizer_in_backward = true;
        expect_same(plain, run(test, 0x00));
        ++checked;
      }
    }
  }
  EXPECT_EQ(checked, 5 * 2 * 3);
}

}  // namespace
}  // namespace plimsoll
