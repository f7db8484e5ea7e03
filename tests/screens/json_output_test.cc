// Tests --json for every command that has it: standard output must contain one JSON value and nothing else.
// docs/JSON.md describes the fields.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "plimsoll/commands.h"
#include "tests/bad_input/binary.h"
#include "tests/interop/export_folder.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll::testing {
namespace {

using Value = nlohmann::ordered_json;
using Words = std::vector<std::string>;

// These commands have no --json, because their output is a script, a manual page or a JSON Schema.
const std::set<std::string, std::less<>> kTexts{"completion", "man", "schema"};

std::string parity(const std::string& path) {
  return std::string(PLIMSOLL_SOURCE_DIR) + "/tests/parity/" + path;
}

struct JsonCase {
  Words words;                    // arguments after the name of the command
  std::vector<std::string> keys;  // keys that the JSON value must have, as JSON pointers
};

class JsonOutput : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }

  // Runs the program and returns what it writes to standard output.
  std::string output_of(const Words& words) {
    std::filesystem::remove(path("out"));
    Process process(words, path("log"), {"XDG_CACHE_HOME=" + path("cache")}, path("out"));
    const ProcessResult result = process.wait();
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return test::ScratchFolder::read(path("out"));
  }

  Value value_of(const Words& words) {
    const std::string text = output_of(words);
    Value value = Value::parse(text, nullptr, false);
    EXPECT_FALSE(value.is_discarded()) << words[0] << " prints:\n" << text.substr(0, 400);
    return value;
  }

  void expect_keys(const std::string& command, const JsonCase& one) {
    SCOPED_TRACE(command);
    Words words{command};
    words.insert(words.end(), one.words.begin(), one.words.end());
    const Value value = value_of(words);
    for (const std::string& key : one.keys)
      EXPECT_TRUE(value.contains(Value::json_pointer(key))) << key << " in " << value.dump().substr(0, 400);
  }

  Words training(const Words& more) const {
    Words words{"--model_name_or_path",
                parity("models/bert"),
                "--train_file",
                parity("data/single.tsv"),
                "--use_cpu",
                "--max_steps",
                "2"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  test::ScratchFolder folder_;
};

// Returns the test cases by command. Those of `train` run first, because the other commands read its output.
std::map<std::string, std::vector<JsonCase>> json_cases(
    const std::function<Words(const Words&)>& training,
    const std::function<std::string(const std::string&)>& path, const std::string& exported) {
  const std::string bert = parity("models/bert"), llama = parity("models/llama_lm"),
                    data = parity("data/single.tsv");
  return {
      {"train",
       {{training({"--output_dir", path("run"), "--validation_file", data, "--do_eval", "--json", "-"}),
         {"/total_bytes", "/results/train/train_loss", "/results/eval/eval_loss"}},
        {training({"--output_dir", path("adapter"), "--lora_r", "2", "--json=-"}),
         {"/results/train/train_loss"}}}},
      {"plan", {{{"--config_name", bert, "--use_cpu", "--json", "-"}, {"/total_bytes"}}}},
      {"eval",
       {{{"--model_name_or_path", path("run"), "--validation_file", data, "--use_cpu", "--output_dir",
          path("eval"), "--json", "-"},
         {"/total_bytes", "/results/eval/eval_loss"}}}},
      {"predict",
       {{{"--model_name_or_path", path("run"), "--use_cpu", "--json", "-", "read the file", "write to disk"},
         {"/results/predictions/1/prediction", "/results/predictions/0/texts/0",
          "/results/predictions/0/probabilities/0", "/results/predict/predict_samples"}},
        {{"--model_name_or_path", path("run"), "--test_file", data, "--use_cpu", "--output_dir",
          path("predict"), "--json", "-"},
         {"/results/predict/predict_runtime"}}}},
      {"generate",
       {{{"--model_name_or_path", llama, "--use_cpu", "--max_new_tokens", "3", "--json", "-", "this is"},
         {"/text", "/tokens"}}}},
      {"inspect",
       {{{"--json", path("run"), data, bert + "/model.safetensors", path("run/memory.json")},
         {"/paths/0/model/layers", "/paths/0/tokenizer/tokens", "/paths/0/weight_files/0/tensors/0/shape",
          "/paths/1/labels/0/rows", "/paths/1/columns/0", "/paths/2/tensors/0/name", "/paths/3/text"}}}},
      {"report", {{{path("run"), "--json"}, {"/report", "/size_bytes"}}}},
      {"tokenize",
       {{{"--json", "--train", "bpe", "--output_dir", path("tokenizer"), data},
         {"/tokens", "/merges", "/text_bytes"}}}},
      {"fit",
       {{{"--config_name", "MiniLM-L6-H384-uncased", "--device", "l4", "--memory", "2GiB", "--json"}, {}}}},
      {"bench",
       {{training({"--sweep", "learning_rate=1e-5,1e-4", "--output_dir", path("bench"), "--json"}),
         {"/rows/1"}}}},
      {"merge",
       {{{"--adapter", path("adapter"), "--model_name_or_path", bert, "--output_dir", path("merged"),
          "--json"},
         {"/merged_modules", "/output_dir"}}}},
      {"export",
       {{{"--model_name_or_path", exported, "--gguf", path("model.gguf"), "--json"},
         {"/tensors", "/size_bytes", "/type", "/notes"}}}},
      {"monitor", {{{"--json"}, {"/host/memory_total_mib"}}, {{"--topology", "--json"}, {"/numa_nodes"}}}},
      {"env", {{{"--json"}, {"/plimsoll", "/libraries/0/tried", "/cpu/flags", "/caches/0/path"}}}},
  };
}

TEST_F(JsonOutput, OfEveryCommandIsOneValue) {
  ExportFolder exported = gpt2_folder();
  add_gpt2_tensors(exported);
  auto cases = json_cases([&](const Words& more) { return training(more); },
                          [&](const std::string& name) { return path(name); }, exported.folder());
  for (const JsonCase& one : cases.at("train")) expect_keys("train", one);
  cases.erase("train");
  for (const CommandInfo& command : command_table()) {
    const std::string name(command.name);
    // `download` needs a hub, so downloads_test.py tests its JSON.
    if (name == "train" || name == "download" || kTexts.contains(name)) continue;
    ASSERT_TRUE(cases.contains(name)) << name << " reports something but has no case here";
    for (const JsonCase& one : cases.at(name)) expect_keys(name, one);
  }
}

// With --json=FILE, a run writes the plan to the file before it starts and adds the results at its end. Standard output
// shows the text for people.
TEST_F(JsonOutput, OfARunGoesToAFile) {
  Words words{"train"};
  for (const std::string& word : training({"--output_dir", path("run"), "--json", path("run.json")}))
    words.push_back(word);
  const std::string text = output_of(words);
  EXPECT_NE(text.find("***** train metrics *****"), std::string::npos) << text;
  const Value value = Value::parse(test::ScratchFolder::read(path("run.json")));
  const Value metrics = Value::parse(test::ScratchFolder::read(path("run/train_results.json")));
  EXPECT_EQ(value["results"]["train"]["train_loss"], metrics["train_loss"]);
  Value plan = value;
  plan.erase("results");
  EXPECT_EQ(plan, Value::parse(test::ScratchFolder::read(path("run/plan.json"))));
}

// Some commands have an option --json of their own, which is a flag (see docs/JSON.md). All other commands must
// use the argument `json` of a run, whose value is a file.
TEST(JsonOption, IsAFlagOrTheSettingOfRuns) {
  for (const CommandInfo& command : command_table()) {
    const CommandOption* option = command.find_option("json");
    if (kTexts.contains(command.name)) {
      EXPECT_EQ(option, nullptr) << command.name;
    } else if (option != nullptr) {
      EXPECT_EQ(option->form, OptionForm::kFlag) << command.name;
    } else {
      ASSERT_TRUE(command.settings.has_value()) << command.name << " has no --json";
      EXPECT_TRUE(is_used_by(*command.settings, "json")) << command.name;
    }
  }
}

}  // namespace
}  // namespace plimsoll::testing
