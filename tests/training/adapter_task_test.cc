// Tests that the task of a PEFT adapter follows from its file and not from its base model, which is often a language model: in evaluation,
// prediction, merging and further training, for each architecture that has such models.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "io/ckpt/model_folder.h"
#include "plimsoll/merge.h"
#include "plimsoll/trainer.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

using testing::read_file;
using testing::TestFolder;

std::string parity(const std::string& name) {
  return PLIMSOLL_SOURCE_DIR "/tests/parity/" + name;
}

Arguments arguments_of(const std::string& base, const std::string& output) {
  Arguments arguments;
  arguments.model_name_or_path = base;
  arguments.output_dir = output;
  arguments.max_seq_length = 24;
  arguments.max_steps = 2;
  arguments.per_device_train_batch_size = 4;
  arguments.learning_rate = 1e-2;
  arguments.save_strategy = "no";
  arguments.num_threads = 1;
  return arguments;
}

std::string data_of(const std::string& problem_type) {
  return parity(problem_type == "token_classification" ? "data/tokens.jsonl" : "data/single.tsv");
}

std::vector<float> logits_of(const std::string& model, const std::string& adapter, const std::string& data,
                             const TestFolder& folder) {
  Arguments arguments = arguments_of(model, folder.path("predicted"));
  arguments.adapter_name_or_path = adapter;
  arguments.test_file = data;
  arguments.max_predict_samples = 8;
  std::vector<float> logits;
  for (const Prediction& row : Trainer(arguments, Task::kPredict).predict())
    logits.insert(logits.end(), row.logits.begin(), row.logits.end());
  return logits;
}

void expect_near(const std::vector<float>& some, const std::vector<float>& others, float tolerance) {
  ASSERT_EQ(some.size(), others.size());
  ASSERT_FALSE(some.empty());
  for (size_t i = 0; i < some.size(); ++i) EXPECT_NEAR(some[i], others[i], tolerance) << i;
}

void expect_differ(const std::vector<float>& some, const std::vector<float>& others) {
  ASSERT_EQ(some.size(), others.size());
  float largest = 0;
  for (size_t i = 0; i < some.size(); ++i) largest = std::max(largest, std::fabs(some[i] - others[i]));
  EXPECT_GT(largest, 1e-4F);
}

// Trains an adapter and saves it as PEFT does, without a config.json. Returns its folder, and the logits that it had before config.json was
// removed.
std::pair<std::string, std::vector<float>> peft_adapter(const std::string& base,
                                                        const std::string& problem_type,
                                                        const TestFolder& folder,
                                                        const std::string& targets = "all-linear") {
  Arguments arguments = arguments_of(base, folder.path("run"));
  arguments.train_file = data_of(problem_type);
  arguments.problem_type = problem_type;
  arguments.lora_r = 2;
  arguments.lora_target_modules = {targets};
  Trainer trainer(arguments);
  trainer.train();
  const std::string adapter = folder.path("adapter");
  trainer.save_model(adapter);
  const std::vector<float> logits = logits_of(base, adapter, data_of(problem_type), folder);
  std::filesystem::remove(adapter + "/config.json");
  return {adapter, logits};
}

// Writes a copy of an adapter without a task type and without the tensors and the module of its classifier, as PEFT saves an adapter whose
// base is a trained classifier.
std::string without_classifier(const std::string& adapter, const std::string& copy) {
  FileSystem& files = posix_file_system();
  const ModelFolder folder = ModelFolder::open(files, adapter);
  std::string text = folder.adapter_config_text();
  const auto set_null = [&](const std::string& key, const std::string& end) {
    const size_t at = text.find("\"" + key + "\": ");
    ASSERT_NE(at, std::string::npos) << text;
    const size_t value = at + key.size() + 4;
    text.replace(value, text.find(end, value) + (end == "]" ? 1 : 0) - value, "null");
  };
  set_null("modules_to_save", "]");
  set_null("task_type", ",");
  ModelContents contents;
  contents.config_text = "{}";
  contents.adapter_config_text = text;
  for (const SafetensorsFile& file : folder.weight_files()) {
    for (const StoredTensor& tensor : file.tensors()) {
      if (tensor.name.find("classifier") != std::string::npos) continue;
      TensorSource source{.name = tensor.name, .dtype = DType::kF32, .shape = tensor.shape};
      std::vector<float> values(static_cast<size_t>(tensor.num_elements()));
      file.read(tensor, {values.data(), DType::kF32});
      source.fill = [values](int64_t offset, std::span<std::byte> piece) {
        std::memcpy(piece.data(), reinterpret_cast<const std::byte*>(values.data()) + offset, piece.size());
      };
      contents.tensors.push_back(std::move(source));
    }
  }
  save_model_folder(files, copy, contents);
  std::filesystem::remove(copy + "/config.json");
  return copy;
}

struct TaskCase {
  const char* base;  // a folder of tests/parity/models
  const char* problem_type;
  const char* class_name;  // class of the merged model
};

class AdapterTask : public ::testing::TestWithParam<TaskCase> {};

TEST_P(AdapterTask, DecidesWhateverTheBaseIs) {
  const TaskCase& test = GetParam();
  const TestFolder folder(std::string("adapter_task_") + test.base + "_" + test.problem_type);
  const std::string base = parity("models/") + test.base;
  const std::string data = data_of(test.problem_type);
  const auto [adapter, expected] = peft_adapter(base, test.problem_type, folder);
  expect_near(logits_of(base, adapter, data, folder), expected, 0);
  merge_adapter({.adapter = adapter, .base = base, .output_dir = folder.path("merged")});
  EXPECT_NE(
      read_file(folder.path("merged") + "/config.json").find("\"" + std::string(test.class_name) + "\""),
      std::string::npos);
  expect_near(logits_of(folder.path("merged"), "", data, folder), expected, 1e-4F);
  Arguments further = arguments_of(base, folder.path("further"));
  further.adapter_name_or_path = adapter;
  further.train_file = data;
  Trainer trainer(further);
  trainer.train();
  trainer.save_model(folder.path("again"));
  EXPECT_NE(read_file(folder.path("again") + "/config.json").find(test.class_name), std::string::npos);
  expect_differ(logits_of(base, folder.path("again"), data, folder), expected);
}

constexpr TaskCase kTaskCases[] = {
    {"bert_mlm", "single_label_classification", "BertForSequenceClassification"},
    {"bert_mlm", "token_classification", "BertForTokenClassification"},
    {"distilbert_mlm", "single_label_classification", "DistilBertForSequenceClassification"},
    {"distilbert_mlm", "token_classification", "DistilBertForTokenClassification"},
    {"roberta_mlm", "single_label_classification", "RobertaForSequenceClassification"},
    {"modernbert_mlm", "single_label_classification", "ModernBertForSequenceClassification"},
    {"electra_mlm", "single_label_classification", "ElectraForSequenceClassification"},
    {"gpt2_lm", "single_label_classification", "GPT2ForSequenceClassification"},
    {"llama_lm", "single_label_classification", "LlamaForSequenceClassification"}};

INSTANTIATE_TEST_SUITE_P(Bases, AdapterTask, ::testing::ValuesIn(kTaskCases), [](const auto& of_case) {
  return std::string(of_case.param.base) + "_" + of_case.param.problem_type;
});

// Without a task type, PEFT keeps the classifier of the base model, and does not save it.
TEST(AdapterWithoutTask, UsesTheClassifierOfTheBase) {
  for (const auto& [name, targets] :
       {std::pair("bert", "value"), std::pair("distilbert", "v_lin"), std::pair("roberta", "value")}) {
    SCOPED_TRACE(name);
    const TestFolder folder(std::string("adapter_frozen_head_") + name);
    const std::string base = parity("models/") + name;
    const std::string data = data_of("");
    const auto [trained, unused] = peft_adapter(base, "single_label_classification", folder, targets);
    const std::string adapter = without_classifier(trained, folder.path("frozen"));
    const std::vector<float> logits = logits_of(base, adapter, data, folder);
    expect_differ(logits, logits_of(base, "", data, folder));
    merge_adapter({.adapter = adapter, .base = base, .output_dir = folder.path("merged")});
    expect_near(logits_of(folder.path("merged"), "", data, folder), logits, 1e-4F);
    Arguments further = arguments_of(base, folder.path("further"));
    further.adapter_name_or_path = adapter;
    further.train_file = data;
    Trainer trainer(further);
    trainer.train();
    trainer.save_model(folder.path("again"));
    EXPECT_EQ(read_file(folder.path("again") + "/adapter_model.safetensors").find("classifier"),
              std::string::npos);
    EXPECT_NE(read_file(folder.path("again") + "/adapter_config.json").find("\"task_type\": null"),
              std::string::npos);
    expect_differ(logits_of(base, folder.path("again"), data, folder), logits);
  }
}

}  // namespace
}  // namespace plimsoll
