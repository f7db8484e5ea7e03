// Tests that a program can read and write weights by name, in every storage format, and that wrong names, sizes and
// values end in one clear exception and change nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "plimsoll/trainer.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

Arguments arguments_of(const testing::TestFolder& folder) {
  Arguments arguments = testing::tiny_arguments(testing::write_tiny_model(folder, 0.0), folder.path("out"));
  arguments.save_strategy = "no";
  return arguments;
}

std::vector<float> counted_values(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(static_cast<int>(i % 64) - 32) / 64.0f;
  return values;
}

int64_t elements_of(const WeightInfo& weight) {
  int64_t count = 1;
  for (const int64_t size : weight.shape) count *= size;
  return count;
}

// A named set of arguments that selects the format in which weights are stored.
struct Storage {
  const char* name;
  std::function<void(Arguments&)> set;
  const char* stored_as;
};
const Storage kStorages[] = {
    {"fp32", [](Arguments&) {}, "fp32"},
    {"mixed", [](Arguments& a) { a.bf16 = true; }, "fp32"},
    {"pure", [](Arguments& a) { a.dtype = "bfloat16"; }, "bf16"},
    {"in backward",
     [](Arguments& a) {
       a.optimizer_in_backward = true;
       a.max_grad_norm = 0;
       a.gradient_accumulation_steps = 1;
     },
     "fp32"},
};

TEST(Weights, AreReadAndWrittenInEveryFormat) {
  for (const Storage& storage : kStorages) {
    SCOPED_TRACE(storage.name);
    const testing::TestFolder folder("weights");
    Arguments arguments = arguments_of(folder);
    storage.set(arguments);
    std::optional<Trainer> made;
    try {
      made.emplace(arguments);
    } catch (const Error& error) {
      // On a CPU without bf16 matrix products the program refuses the formats that need bf16, so these are skipped.
      ASSERT_EQ(error.code(), ErrorCode::kUsage) << error.what();
      continue;
    }
    Trainer& trainer = *made;
    std::vector<WeightInfo> weights = trainer.weights();
    ASSERT_GT(weights.size(), 30U);
    int64_t parameters = 0;
    for (const WeightInfo& weight : weights) {
      EXPECT_EQ(weight.stored_as, storage.stored_as) << weight.name;
      EXPECT_TRUE(weight.is_trained) << weight.name;
      parameters += elements_of(weight);
      const auto count = static_cast<size_t>(elements_of(weight));
      EXPECT_EQ(trainer.read_weight(weight.name).size(), count);
      // The written values are exact in bf16, so that weights stored in bf16 return them unchanged.
      const std::vector<float> values = counted_values(count);
      trainer.write_weight(weight.name, values);
      EXPECT_EQ(trainer.read_weight(weight.name), values) << weight.name;
    }
    EXPECT_EQ(parameters, trainer.num_parameters());
    // The query, key and value weights are one fused matrix in memory. Writing the key weights must not change the other two parts.
    const std::string layer = "bert.encoder.layer.0.attention.self.";
    const std::vector<float> query = trainer.read_weight(layer + "query.weight");
    const std::vector<float> value = trainer.read_weight(layer + "value.weight");
    trainer.write_weight(layer + "key.weight", std::vector<float>(query.size(), 0.25f));
    EXPECT_EQ(trainer.read_weight(layer + "query.weight"), query);
    EXPECT_EQ(trainer.read_weight(layer + "value.weight"), value);
    // The next step and a saved model use the weights that were written.
    for (const WeightInfo& weight : weights) {
      if (weight.name == "classifier.weight" || weight.name == "classifier.bias")
        trainer.write_weight(weight.name, std::vector<float>(static_cast<size_t>(elements_of(weight)), 0.0f));
    }
    EXPECT_NEAR(trainer.forward_backward(trainer.next_batch()), std::log(2.0), 1e-3)
        << "a classifier of zeros is indifferent";
    trainer.update(1e-2);
    EXPECT_NE(trainer.read_weight("classifier.bias")[0], 0.0f);
    trainer.save_model(folder.path("saved"));
    Arguments loaded = arguments_of(folder);
    loaded.config_name.clear();
    loaded.model_name_or_path = folder.path("saved");
    Trainer other(loaded);
    for (const WeightInfo& weight : weights)
      EXPECT_EQ(other.read_weight(weight.name), trainer.read_weight(weight.name)) << weight.name;
  }
}

TEST(Weights, OfAdaptersAndQuantizedBases) {
  const testing::TestFolder folder("weights_lora");
  const std::string base = testing::write_tiny_base(folder);
  for (const char* format : {"", "nf4", "fp4", "int8"}) {
    SCOPED_TRACE(format);
    Arguments arguments = arguments_of(folder);
    arguments.config_name.clear();
    arguments.model_name_or_path = base;
    arguments.lora_r = 2;
    if (std::string_view(format) == "int8") arguments.load_in_8bit = true;
    if (std::string_view(format).ends_with('4')) {
      arguments.load_in_4bit = true;
      arguments.bnb_4bit_quant_type = format;
    }
    Trainer trainer(arguments);
    int num_adapter = 0;
    int num_quantized = 0;
    for (const WeightInfo& weight : trainer.weights()) {
      const std::vector<float> before = trainer.read_weight(weight.name);
      ASSERT_EQ(std::ssize(before), elements_of(weight));
      const bool is_adapter = weight.name.find("lora_") != std::string::npos;
      num_adapter += is_adapter ? 1 : 0;
      if (is_adapter) {
        EXPECT_TRUE(weight.is_trained && weight.name.starts_with("base_model.model.")) << weight.name;
      }
      if (weight.stored_as == format) {
        ++num_quantized;
        EXPECT_FALSE(weight.is_trained);
        // Values that were read from a quantized weight are representable in its format, so writing them back
        // must not change them.
        trainer.write_weight(weight.name, before);
        const std::vector<float> again = trainer.read_weight(weight.name);
        for (size_t i = 0; i < before.size(); ++i) ASSERT_NEAR(again[i], before[i], 1e-6f) << weight.name;
      }
    }
    EXPECT_GT(num_adapter, 3);
    EXPECT_EQ(num_quantized > 0, *format != '\0');
  }
}

TEST(Weights, WrongNamesSizesAndValuesChangeNothing) {
  const testing::TestFolder folder("weights_wrong");
  Trainer trainer(arguments_of(folder));
  const std::vector<float> bias = trainer.read_weight("classifier.bias");
  ASSERT_EQ(bias.size(), 2U);
  const auto expect = [&](const std::function<void()>& call, const char* words) {
    const std::string message = testing::refusal(call, ErrorCode::kUsage);
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const char* name : {"classifer.bias", "classifier", "", "classifier.bias ", "bert.classifier.bias"})
    expect([&] { trainer.read_weight(name); }, "the nearest names are classifier.");
  expect([&] { trainer.read_weight("bert.encoder.layer.0.attention.self.query_key_value.weight"); },
         "no weight 'bert.encoder.layer.0.attention.self.query_key_value.weight'");
  expect([&] { trainer.write_weight("classifier.biases", bias); }, "the nearest names are classifier.bias");
  const std::vector<float> none;
  const std::vector<float> one(1);
  const std::vector<float> three(3);
  expect([&] { trainer.write_weight("classifier.bias", none); }, "0 values given, but its shape [2] has 2");
  expect([&] { trainer.write_weight("classifier.bias", one); }, "1 value given, but its shape [2] has 2");
  expect([&] { trainer.write_weight("classifier.bias", three); }, "3 values given, but its shape [2] has 2");
  expect([&] { trainer.write_weight("classifier.weight", three); }, "its shape [2, 16] has 32");
  const std::vector<float> not_finite[] = {{0.0f, nan}, {infinity, 0.0f}, {0.0f, -infinity}};
  for (const std::vector<float>& values : not_finite)
    expect([&] { trainer.write_weight("classifier.bias", values); },
           "is not finite as fp32; nothing was written");
  EXPECT_EQ(trainer.read_weight("classifier.bias"), bias);
}

}  // namespace
}  // namespace plimsoll
