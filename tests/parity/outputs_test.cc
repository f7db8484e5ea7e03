// Compares the files of a run with those of run_glue.py: names, keys, types, and every value that depends neither on
// the clock nor on rounding.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "plimsoll/trainer.h"
#include "tests/parity/fixtures.h"
#include "tests/parity/measures.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using test::ScratchFolder;
using testing::fixtures;
using testing::read_json;

std::set<std::string> keys_of(const json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

// Returns the JSON type of each value by its key. The names of the types are those in reference.py.
std::map<std::string, std::string> types_of(const json& object) {
  std::map<std::string, std::string> types;
  for (const auto& [key, value] : object.items()) {
    types[key] = value.is_boolean()          ? "boolean"
                 : value.is_number_integer() ? "integer"
                 : value.is_number()         ? "real"
                 : value.is_string()         ? "text"
                 : value.is_array()          ? "list"
                 : value.is_object()         ? "object"
                                             : "null";
  }
  return types;
}

using Types = std::map<std::string, std::string>;

// Compares trainer_state.json with the reference: the types of all values, and those values that depend neither on the
// clock nor on rounding, nor on how floating-point operations are counted. log_history is compared elsewhere.
void expect_state(const json& state, const json& reference, const Types& types) {
  Types ours = types_of(state);
  EXPECT_EQ(ours["log_history"], "list");
  ours.erase("log_history");
  EXPECT_EQ(ours, types);
  for (const auto& [key, value] : reference.items()) {
    // These two numbers are not compared, because Trainer also counts padding tokens.
    if (key == "total_flos" || key == "num_input_tokens_seen") continue;
    if (key == "best_metric" && value.is_number()) {
      // The best metric is an evaluation loss, in which both programs have rounding errors.
      const double best = value;
      EXPECT_NEAR(state.at(key), best, testing::eval_loss_limit_of_fp32() * best);
    } else if (key == "best_model_checkpoint" && value.is_string()) {
      EXPECT_EQ(std::filesystem::path(state.at(key)).filename().string(), value.get<std::string>());
    } else {
      EXPECT_EQ(state.at(key), value) << key;
    }
  }
}

void expect_log(const json& history, const json& expected) {
  for (const auto& [kind, mark] :
       {std::pair("step", "loss"), std::pair("evaluation", "eval_loss"), std::pair("end", "train_loss")}) {
    size_t count = 0;
    for (const json& entry : history) {
      if (!entry.contains(mark)) continue;
      ++count;
      const Types types = types_of(entry);
      for (const auto& [key, type] : expected.at("log_types").at(kind).items()) {
        ASSERT_TRUE(types.contains(key)) << kind << " has no " << key;
        EXPECT_EQ(types.at(key), type.get<std::string>()) << kind << ": " << key;
      }
    }
    EXPECT_EQ(count, expected.at("log_counts").at(kind).get<size_t>()) << kind;
  }
}

// Expects that the model card has every key of the front matter and every heading of Trainer's card.
void expect_card(const std::string& path, const json& expected) {
  std::ifstream file(path);
  ASSERT_TRUE(file.good()) << path;
  std::set<std::string> lines;
  std::set<std::string> keys;
  for (std::string line; std::getline(file, line);) {
    keys.insert(line.substr(0, line.find(':')));
    std::erase(line, ' ');
    lines.insert(line);
  }
  for (const json& key : expected.at("keys")) EXPECT_TRUE(keys.contains(key)) << key;
  for (const json& heading : expected.at("headings")) {
    std::string text = heading;
    std::erase(text, ' ');
    EXPECT_TRUE(lines.contains("##" + text) || lines.contains("###" + text)) << heading;
  }
  const std::string columns = expected.at("columns");
  if (columns.empty()) return;
  EXPECT_TRUE(std::ranges::any_of(lines, [&](const std::string& line) {
    return line.starts_with(columns.substr(0, columns.find("|Accuracy"))) &&
           line.find("Accuracy") != std::string::npos;
  })) << columns;
}

// Trains with evaluations and checkpoints, evaluates at the end, and compares the files with those of run_glue.py.
TEST(Parity, ResultFilesAreThoseOfTrainer) {
  ASSERT_GE(fixtures().outputs().size(), 3u);
  for (const json& expected : fixtures().outputs()) {
    SCOPED_TRACE(expected.at("arguments").dump());
    const ScratchFolder folder;
    const std::string run = folder.path() + "/run";
    json settings = expected.at("arguments");
    if (!settings.contains("save_strategy")) settings["save_strategy"] = "steps";
    Trainer trainer(fixtures().arguments(settings, run));
    const TrainOutput output = trainer.train();
    trainer.save_reports(output);
    trainer.save_model(run);
    trainer.save_metrics("train", output.metrics);
    MetricMap evaluation = trainer.evaluate();
    evaluation["epoch"] = output.metrics.at("epoch");
    trainer.save_metrics("eval", evaluation);

    for (const json& name : expected.at("files")) {
      // Plimsoll does not write training_args.bin, which is a Python pickle, and stores the arguments in
      // run_state.json instead. It copies the tokenizer's files from the model's folder, which here has no
      // tokenizer.json.
      if (name == "training_args.bin" || name == "tokenizer.json") continue;
      EXPECT_TRUE(std::filesystem::exists(run + "/" + name.get<std::string>())) << name;
    }
    for (const char* file : {"train_results", "eval_results", "all_results"}) {
      Types types = types_of(read_json(run + "/" + file + ".json"));
      // The reference computes the accuracy only, so Plimsoll's F1 score is not compared.
      types.erase("eval_f1");
      EXPECT_EQ(types, expected.at(file).get<Types>()) << file;
    }
    json config = read_json(run + "/config.json");
    EXPECT_TRUE(config.contains("transformers_version"));
    for (const auto& [key, value] : expected.at("config").items())
      EXPECT_EQ(config.value(key, json()), value) << key;
    const json state = read_json(run + "/trainer_state.json");
    const auto types = expected.at("state_types").get<Types>();
    expect_state(state, expected.at("trainer_state"), types);
    expect_log(state.at("log_history"), expected);
    expect_card(run + "/README.md", expected.at("card"));
    for (const json& name : expected.at("files")) {
      const std::string checkpoint = name;
      if (!checkpoint.starts_with("checkpoint-")) continue;
      const json saved = read_json(run + "/" + checkpoint + "/trainer_state.json");
      EXPECT_EQ(keys_of(saved), keys_of(state)) << checkpoint;
      EXPECT_EQ("checkpoint-" + saved.at("global_step").dump(), checkpoint);
    }
  }
}

}  // namespace
}  // namespace plimsoll
