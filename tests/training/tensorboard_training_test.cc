// Tests runs with --report_to tensorboard: every value of log.jsonl must be an event with the tag that Hugging
// Face's TensorBoardCallback uses, a resumed run must write an event file of its own, and checkpoints must not
// depend on the setting. tests/python/test_tensorboard.py reads such a file with the package tensorboard.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/events/event_file.h"
#include "plimsoll/trainer.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using testing::read_file;
using testing::TestFolder;

uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return value;
}

uint32_t masked(std::string_view bytes) {
  return std::rotr(crc32c(std::as_bytes(std::span(bytes))), 15) + 0xa282ead8u;
}

// Returns the data of all records of an event file, after checking their checksums.
std::vector<std::string> records_of(const std::string& path) {
  const std::string file = read_file(path);
  const std::string_view bytes = file;
  std::vector<std::string> records;
  size_t at = 0;
  while (at + 12 <= bytes.size()) {
    const std::string_view length = bytes.substr(at, 8);
    const auto size = static_cast<size_t>(little_endian(length));
    EXPECT_EQ(little_endian(bytes.substr(at + 8, 4)), masked(length));
    const std::string_view data = bytes.substr(at + 12, size);
    EXPECT_EQ(little_endian(bytes.substr(at + 12 + size, 4)), masked(data));
    records.emplace_back(data);
    at += 16 + size;
  }
  EXPECT_EQ(at, bytes.size());
  return records;
}

// Returns the path of the only event file in a folder and the folders below it.
std::string event_file_in(const std::string& folder) {
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("events.out.tfevents."))
      found.push_back(entry.path().string());
  }
  EXPECT_EQ(found.size(), 1u) << folder;
  return found.empty() ? "" : found.front();
}

// Returns true if a record ends with this scalar in its protobuf encoding: the tag, the field key of
// simple_value, and an fp32 number.
bool has_scalar(const std::vector<std::string>& records, const std::string& tag, double value) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  std::string end;
  end.push_back(static_cast<char>(tag.size()));
  end += tag + "\x15";
  for (int i = 0; i < 4; ++i) end.push_back(static_cast<char>((bits >> (8 * i)) & 0xff));
  return std::ranges::any_of(records, [&](const std::string& record) { return record.ends_with(end); });
}

Arguments tiny_run(const TestFolder& folder, const std::string& model, const std::string& name) {
  Arguments arguments = testing::tiny_arguments(model, folder.path(name));
  arguments.eval_strategy = "steps";
  arguments.eval_steps = 2;
  arguments.logging_steps = 1;
  arguments.save_steps = 2;
  arguments.max_steps = 4;
  return arguments;
}

TEST(TensorBoard, HasEveryValueOfTheLog) {
  const TestFolder folder("tensorboard");
  const std::string model = testing::write_tiny_model(folder);
  Arguments arguments = tiny_run(folder, model, "run");
  arguments.report_to = {"tensorboard"};
  const TrainOutput output = Trainer(arguments).train();
  const std::vector<std::string> records = records_of(event_file_in(folder.path("run/runs")));
  bool has_evaluation = false;
  // Three records without scalars: the version of the format, the arguments, and the model's configuration.
  size_t expected = 3;
  for (const LogRecord& record : output.log_history) {
    for (const auto& [name, value] : record.values) {
      const std::string tag = name.starts_with("eval_") ? "eval/" + name.substr(5) : "train/" + name;
      EXPECT_TRUE(has_scalar(records, tag, value)) << tag << " " << value;
    }
    has_evaluation = has_evaluation || record.values.contains("eval_loss");
    expected += record.values.size() + (record.values.contains("epoch") ? 0 : 1);
  }
  EXPECT_TRUE(has_evaluation);
  EXPECT_EQ(records.size(), expected);
  EXPECT_TRUE(has_scalar(records, "train/epoch", output.log_history[0].epoch));
  EXPECT_FALSE(has_scalar(records, "train/loss", 12345.0)) << "the search finds what is not there";
  EXPECT_NE(records[1].find("\"learning_rate\""), std::string::npos);
  EXPECT_NE(records[2].find("\"model_type\""), std::string::npos);
}

TEST(TensorBoard, AResumedRunWritesAnotherFileAndTheSameWeights) {
  const TestFolder folder("tensorboard_resumed");
  const std::string model = testing::write_tiny_model(folder);
  Arguments arguments = tiny_run(folder, model, "plain");
  Trainer(arguments).train();
  EXPECT_FALSE(fs::exists(folder.path("plain/runs")));
  Arguments reported = tiny_run(folder, model, "reported");
  reported.report_to = {"all"};
  reported.logging_dir = folder.path("events/first");
  reported.resume_from_checkpoint = folder.path("plain/checkpoint-2");
  Trainer(reported).train();
  EXPECT_FALSE(fs::exists(folder.path("reported/runs")));
  EXPECT_GT(records_of(event_file_in(folder.path("events/first"))).size(), 3u);
  EXPECT_EQ(read_file(folder.path("reported/checkpoint-4/model.safetensors")),
            read_file(folder.path("plain/checkpoint-4/model.safetensors")));
}

}  // namespace
}  // namespace plimsoll
