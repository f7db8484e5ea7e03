// Tests learning rates per group of parameters (--learning_rate_factors): a factor must give the same bits as a
// learning rate that is multiplied by it and must not change other parameters, and wrong patterns must be refused
// before the run. Runs on a GPU as well.
#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/trainer.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

Arguments arguments_of(const testing::TestFolder& folder, const std::string& optim) {
  Arguments arguments = testing::tiny_arguments(testing::write_tiny_model(folder, 0.0), folder.path("out"));
  arguments.optim = optim;
  arguments.save_strategy = "no";
  arguments.weight_decay = 0.01;
  arguments.replace_checkpoints = true;
  return arguments;
}

std::map<std::string, std::vector<float>> weights_after(Arguments arguments, int64_t steps) {
  Trainer trainer(std::move(arguments));
  while (trainer.step() < steps) {
    trainer.forward_backward(trainer.next_batch());
    trainer.update(1e-3);
  }
  std::map<std::string, std::vector<float>> weights;
  for (const WeightInfo& weight : trainer.weights()) weights[weight.name] = trainer.read_weight(weight.name);
  return weights;
}

// A factor of 1/2 for all parameters must have the same result as half the learning rate, for every optimizer and in
// train().
TEST(RateFactors, OfAllParametersAreTheLearningRate) {
  for (const char* optim :
       {"adamw_torch", "sgd", "adafactor", "lion_32bit", "adagrad", "adamw_8bit", "lion_8bit"}) {
    SCOPED_TRACE(optim);
    const testing::TestFolder folder("rates_all");
    const auto trained = [&](double rate, KeyValues factors) {
      Arguments arguments = arguments_of(folder, optim);
      arguments.max_steps = 4;
      arguments.learning_rate = rate;
      arguments.learning_rate_factors = std::move(factors);
      Trainer trainer(arguments);
      trainer.train();
      return trainer.read_weight("bert.embeddings.word_embeddings.weight");
    };
    const std::vector<float> expected = trained(1e-3, {});
    EXPECT_EQ(trained(2e-3, {{"*", "0.5"}}), expected);
    EXPECT_EQ(trained(2e-3, {{"bert.*", "0.5"}, {"classifier.*", "0.5"}}), expected);
    EXPECT_NE(trained(2e-3, {}), expected);
  }
}

// After one step of SGD, the change of a parameter is proportional to its factor, and parameters without a factor
// change as usual.
TEST(RateFactors, OfAGroupChangeThatGroupAlone) {
  const testing::TestFolder folder("rates_group");
  const auto plain = arguments_of(folder, "sgd");
  Arguments grouped = plain;
  grouped.learning_rate_factors = {{"classifier.*", "4"},
                                   {"bert.embeddings.*", "0"},
                                   {"*.layer.1.*", "0.5"},
                                   {"bert.encoder.layer.1.output.dense.bias", "2"}};
  const auto start = weights_after(plain, 0);
  const auto expected = weights_after(plain, 1);
  const auto found = weights_after(grouped, 1);
  int changed = 0;
  for (const auto& [name, values] : found) {
    const double factor = name.starts_with("classifier.")                    ? 4
                          : name.starts_with("bert.embeddings.")             ? 0
                          : name == "bert.encoder.layer.1.output.dense.bias" ? 2
                          : name.find(".layer.1.") != std::string::npos      ? 0.5
                                                                             : 1;
    for (size_t i = 0; i < values.size(); ++i) {
      const double before = start.at(name)[i];
      const double change = static_cast<double>(expected.at(name)[i]) - before;
      ASSERT_NEAR(static_cast<double>(values[i]) - before, factor * change, 1e-6 + 1e-3 * std::abs(change))
          << name;
      if (factor == 1) {
        ASSERT_EQ(values[i], expected.at(name)[i]) << name;
      }
      changed += change != 0 && factor != 1 ? 1 : 0;
    }
  }
  EXPECT_GT(changed, 100);
  Trainer trainer(grouped);
  for (const WeightInfo& weight : trainer.weights()) {
    if (weight.name == "classifier.weight" || weight.name == "bert.pooler.dense.weight") {
      EXPECT_EQ(weight.rate_factor, weight.name == "classifier.weight" ? 4 : 1);
    }
  }
}

// Tests factors together with updates in the backward pass, with recomputation, and with an adapter.
TEST(RateFactors, CombineWithMethods) {
  const testing::TestFolder folder("rates_methods");
  Arguments arguments = arguments_of(folder, "adamw_torch");
  arguments.max_grad_norm = 0;
  arguments.gradient_accumulation_steps = 1;
  arguments.learning_rate_factors = {{"classifier.*", "10"}};
  const auto expected = weights_after(arguments, 3);
  arguments.optimizer_in_backward = true;
  EXPECT_EQ(weights_after(arguments, 3), expected);
  arguments.gradient_checkpointing = true;
  EXPECT_EQ(weights_after(arguments, 3), expected);
  Arguments adapted = arguments_of(folder, "adamw_torch");
  adapted.model_name_or_path = testing::write_tiny_base(folder);
  adapted.config_name.clear();
  adapted.lora_r = 2;
  // In LoRA+ (arXiv 2402.12354), the matrix B of an adapter has a larger learning rate than A.
  adapted.learning_rate_factors = {{"*lora_B*", "16"}};
  for (const auto& [name, values] : weights_after(adapted, 2)) {
    for (const float value : values) ASSERT_TRUE(std::isfinite(value)) << name;
  }
}

TEST(RateFactors, WrongPatternsAreRefused) {
  const testing::TestFolder folder("rates_wrong");
  const auto expect = [&](
                          const KeyValues& factors, const char* words,
                          const std::function<void(Arguments&)>& more = [](Arguments&) {}) {
    Arguments arguments = arguments_of(folder, "adamw_torch");
    arguments.learning_rate_factors = factors;
    more(arguments);
    const std::string message = testing::refusal([&] { Trainer trainer(arguments); }, ErrorCode::kUsage);
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  expect({{"clasifier.*", "2"}},
         "no parameter of this model has such a name; the nearest names are classifier");
  expect({{"classifier", "2"}}, "no parameter of this model has such a name");
  expect({{"", "2"}}, "no parameter of this model has such a name");
  expect({{"classifier.*", "-1"}}, "expected a finite number of at least 0");
  expect({{"classifier.*", "fast"}}, "classifier.*=fast: expected a finite number");
  expect({{"classifier.*", "nan"}}, "expected a finite number");
  expect({{"classifier.*", "inf"}}, "expected a finite number");
  expect({{"classifier.*", "2x"}}, "expected a finite number");
  expect({{"*.query.weight", "2"}}, "query, key and value of a layer are one matrix");
  expect({{"classifier.*", "2"}}, "trains none of the parameters that the pattern names",
         [](Arguments& arguments) { arguments.freeze = {"classifier.*"}; });
}

}  // namespace
}  // namespace plimsoll
