// Compares adapters and frozen parameters with PEFT and Trainer. make_adapter_fixtures.py describes how the reference
// was made, and measures.h defines the unit of every limit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "models/lora.h"
#include "plimsoll/merge.h"
#include "plimsoll/trainer.h"
#include "tests/parity/fixtures.h"
#include "tests/parity/measures.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using test::ScratchFolder;
using testing::column;
using testing::fixtures;
using testing::kTimesReference;
using testing::read_json;
using testing::relative_error;

using Tensors = std::map<std::string, std::vector<double>>;

const json& adapter_cases() {
  static const json cases = read_json(fixtures().path("adapters/cases.json"));
  return cases;
}

// Returns the tensors that the reference run of this case has at its end. Their names lack the prefix with the case's
// name. Fails the test if there are none, because comparing with an empty set would always succeed.
Tensors expected_of(const std::string& name) {
  Tensors expected;
  for (const auto& [key, values] : testing::read_tensors(fixtures().path("adapters/expected.safetensors"))) {
    if (key.starts_with(name + "/")) expected[key.substr(name.size() + 1)] = values;
  }
  EXPECT_FALSE(expected.empty()) << "adapters/expected.safetensors has no tensor of " << name;
  return expected;
}

// Returns the Euclidean distance between two sets of tensors, or infinity if a tensor is missing or has another size.
double distance(const Tensors& found, const Tensors& expected) {
  double sum = 0;
  for (const auto& [name, values] : expected) {
    const auto other = found.find(name);
    if (other == found.end() || other->second.size() != values.size()) {
      ADD_FAILURE() << name << " is missing, or has not " << values.size() << " elements";
      return INFINITY;
    }
    for (size_t i = 0; i < values.size(); ++i)
      sum += (other->second[i] - values[i]) * (other->second[i] - values[i]);
  }
  return std::sqrt(sum);
}

void expect_as_reference(const std::string& name, const json& item, const TrainOutput& output,
                         const Tensors& found, const Tensors& expected) {
  const double loss = relative_error(column(output, "loss", "loss"), item.at("loss")) /
                      item.at("fp32_loss_error").get<double>();
  const double norm = relative_error(column(output, "loss", "grad_norm"), item.at("grad_norm")) /
                      item.at("fp32_grad_norm_error").get<double>();
  const double weights = distance(found, expected) / item.at("update_norm").get<double>() /
                         item.at("fp32_weight_error").get<double>();
  std::printf("figure: adapters, %s: loss %.2f norm %.2f weights %.2f of %.0f units\n", name.c_str(), loss,
              norm, weights, kTimesReference);
  EXPECT_LE(loss, kTimesReference);
  EXPECT_LE(norm, kTimesReference);
  EXPECT_LE(weights, kTimesReference);
}

TEST(AdapterParity, TwentyStepsOfPeftsAdapters) {
  const json& cases = adapter_cases().at("lora");
  ASSERT_GE(cases.size(), 5u);
  for (const auto& [name, item] : cases.items()) {
    SCOPED_TRACE(name);
    const ScratchFolder folder;
    Arguments arguments = fixtures().arguments(item.at("arguments"), folder.path() + "/run");
    arguments.adapter_name_or_path = fixtures().path("adapters/" + name);
    Trainer trainer(arguments);
    const TrainOutput output = trainer.train();
    trainer.save_model(folder.path() + "/saved");
    EXPECT_FALSE(std::filesystem::exists(folder.path() + "/saved/model.safetensors"));
    const Tensors found = testing::read_tensors(folder.path() + "/saved/adapter_model.safetensors");
    const Tensors expected = expected_of(name);
    // The saved file has exactly the tensors that PEFT saves.
    ASSERT_EQ(found.size(), expected.size());
    expect_as_reference(name, item, output, found, expected);
    const json saved = read_json(folder.path() + "/saved/adapter_config.json");
    const json start = read_json(fixtures().path("adapters/" + name + "/adapter_config.json"));
    for (const char* key : {"peft_type", "task_type", "r", "lora_alpha", "use_rslora", "bias",
                            "target_modules", "init_lora_weights"}) {
      EXPECT_EQ(saved.at(key), start.at(key)) << key;
    }
  }
}

// Trains adapters on a base model in 4 bits. The stored values and scales may differ from those of
// bitsandbytes, but the decoded weights are equal.
TEST(AdapterParity, TwentyStepsBesideABaseInFourBits) {
  const json& cases = adapter_cases().at("quantized");
  ASSERT_GE(cases.size(), 2u);
  for (const auto& [name, item] : cases.items()) {
    SCOPED_TRACE(name);
    const ScratchFolder folder;
    Arguments arguments = fixtures().arguments(item.at("arguments"), folder.path() + "/run");
    arguments.adapter_name_or_path = fixtures().path("adapters/query_value");
    arguments.load_in_4bit = true;
    arguments.bnb_4bit_quant_type = item.at("kind");
    arguments.bnb_4bit_use_double_quant = item.at("double");
    Trainer trainer(arguments);
    const TrainOutput output = trainer.train();
    trainer.save_model(folder.path() + "/saved");
    const Tensors found = testing::read_tensors(folder.path() + "/saved/adapter_model.safetensors");
    const Tensors expected = expected_of(name);
    ASSERT_EQ(found.size(), expected.size());
    expect_as_reference(name, item, output, found, expected);
  }
}

// For a quantized base model, OLoRA in PEFT decodes the weights, subtracts the part that the adapter
// represents, and quantizes the rest (LoraLayer.olora_init). The test makes these three steps one by one and
// compares the result with the base model that a run makes. It must be equal, because Plimsoll uses the codes
// and scales of bitsandbytes.
TEST(AdapterParity, OloraOfAQuantizedBaseIsQuantizedAgain) {
  const std::string layer = "bert.encoder.layer.1.";
  const LoraConfig olora{.r = 3, .alpha = 4, .base_change = BaseChange::kOlora};
  for (const char* kind : {"nf4", "nf4 double", "fp4", "int8"}) {
    SCOPED_TRACE(kind);
    const ScratchFolder folder;
    Arguments arguments =
        fixtures().arguments(adapter_cases().at("lora").at("olora").at("arguments"), folder.path() + "/run");
    arguments.load_in_8bit = kind == std::string("int8");
    arguments.load_in_4bit = !arguments.load_in_8bit;
    if (arguments.load_in_4bit) arguments.bnb_4bit_quant_type = std::string(kind).substr(0, 3);
    arguments.bnb_4bit_use_double_quant = std::string(kind).ends_with("double");
    arguments.adapter_name_or_path = fixtures().path("adapters/olora");
    Trainer changed(arguments);
    changed.start();
    arguments.adapter_name_or_path = fixtures().path("adapters/query_value");
    Trainer plain(arguments);
    plain.start();
    for (const char* module :
         {"attention.self.query.weight", "intermediate.dense.weight", "output.dense.weight"}) {
      const std::string name = layer + module;
      SCOPED_TRACE(name);
      std::vector<float> expected = plain.read_weight(name);
      const bool is_target = name.find("intermediate") == std::string::npos;
      if (is_target) {
        std::vector<double> values(expected.begin(), expected.end());
        constexpr int64_t kHidden = 32;  // each of the two matrices that get adapters has 32 rows
        change_base(values, kHidden, std::ssize(values) / kHidden, olora);
        plain.write_weight(name, std::vector<float>(values.begin(), values.end()));
        EXPECT_NE(plain.read_weight(name), expected) << "OLoRA changed nothing";
        expected = plain.read_weight(name);
      }
      EXPECT_EQ(changed.read_weight(name), expected);
    }
    // Training must also work with the changed base model.
    EXPECT_EQ(changed.train().step, 20);
  }
}

TEST(AdapterParity, TwentyStepsWithFrozenParameters) {
  const json& cases = adapter_cases().at("frozen");
  ASSERT_GE(cases.size(), 2u);
  for (const auto& [name, item] : cases.items()) {
    SCOPED_TRACE(name);
    const ScratchFolder folder;
    Arguments arguments = fixtures().arguments(item.at("arguments"), folder.path() + "/run");
    arguments.freeze = item.at("freeze").get<StringList>();
    Trainer trainer(arguments);
    const TrainOutput output = trainer.train();
    trainer.save_model(folder.path() + "/saved");
    const Tensors found = testing::read_tensors(folder.path() + "/saved/model.safetensors");
    expect_as_reference(name, item, output, found, expected_of(name));
    // Frozen tensors must not change in any bit.
    const Tensors start = testing::read_tensors(fixtures().path("models/bert/model.safetensors"));
    const std::string frozen =
        name == "half" ? "bert.embeddings.word_embeddings.weight" : "classifier.weight";
    EXPECT_EQ(found.at(frozen), start.at(frozen));
    EXPECT_EQ(found.size(), start.size());
  }
}

std::vector<double> logits_of(Arguments arguments) {
  Trainer trainer(std::move(arguments), Task::kPredict);
  std::vector<double> logits;
  for (const Prediction& prediction : trainer.predict()) {
    for (float logit : prediction.logits) logits.push_back(static_cast<double>(logit));
  }
  return logits;
}

double relative_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0;
  double square = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (a.at(i) - b[i]) * (a.at(i) - b[i]);
    square += b[i] * b[i];
  }
  return std::sqrt(difference / square);
}

// An adapter that PEFT trained must give the same logits as in PEFT, both as an adapter and after it was merged
// into the base model.
TEST(AdapterParity, LogitsOfAnAdapterAndOfTheMergedModel) {
  const json& item = adapter_cases().at("trained");
  std::vector<double> expected;
  for (const json& row : item.at("logits")) {
    for (const json& logit : row) expected.push_back(logit);
  }
  const ScratchFolder folder;
  const json settings{{"model_name_or_path", "models/bert"},
                      {"train_file", "data/single.tsv"},
                      {"test_file", "data/single.tsv"},
                      {"problem_type", "single_label_classification"},
                      {"max_seq_length", 48},
                      {"max_predict_samples", 8}};
  Arguments arguments = fixtures().arguments(settings, folder.path() + "/run");
  arguments.adapter_name_or_path = fixtures().path("adapters/trained");
  const double limit = kTimesReference * item.at("fp32_logits_error").get<double>();
  const std::vector<double> adapted = logits_of(arguments);
  ASSERT_EQ(adapted.size(), expected.size());
  EXPECT_LE(relative_distance(adapted, expected), limit);

  const std::string merged = folder.path() + "/merged";
  merge_adapter({.adapter = fixtures().path("adapters/trained"),
                 .base = fixtures().path("models/bert"),
                 .output_dir = merged});
  arguments.adapter_name_or_path.clear();
  // Without the adapter, the base model gives clearly different logits.
  EXPECT_GT(relative_distance(logits_of(arguments), expected), 0.01);
  arguments.model_name_or_path = merged;
  // The limit is twice that of the separate adapter, because merging rounds each weight once more, by half a unit in the last place of
  // fp32.
  EXPECT_LE(relative_distance(logits_of(arguments), expected), 2.0 * limit);
}

}  // namespace
}  // namespace plimsoll
