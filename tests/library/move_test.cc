// Tests that a Trainer can be moved at any time, and that a program which is given no environment finds models where
// Hugging Face's tools keep them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <type_traits>
#include <vector>

#include "plimsoll/inspect.h"
#include "plimsoll/trainer.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

static_assert(std::is_nothrow_move_constructible_v<Trainer> && std::is_nothrow_move_assignable_v<Trainer>);
static_assert(!std::is_copy_constructible_v<Trainer>);

Arguments arguments_of(const testing::TestFolder& folder, const std::string& output) {
  Arguments arguments = testing::tiny_arguments(testing::write_tiny_model(folder), folder.path(output));
  arguments.save_strategy = "no";
  arguments.use_cpu = true;
  return arguments;
}

std::string weights_after(Trainer& trainer, const testing::TestFolder& folder) {
  trainer.save_model(folder.path("saved"));
  std::string weights = testing::read_file(folder.path("saved") + "/model.safetensors");
  std::filesystem::remove_all(folder.path("saved"));
  return weights;
}

// Moves the Trainer before the first step, between two steps, between forward_backward() and update(), and into a
// container. The batch was made before the move.
TEST(MovedTrainer, ContinuesItsLoop) {
  const testing::TestFolder folder("moved_trainer");
  const auto run = [&](bool moves) {
    Trainer trainer(arguments_of(folder, moves ? "moved" : "still"));
    Batch early = trainer.next_batch();
    Trainer second = moves ? Trainer(std::move(trainer)) : Trainer(arguments_of(folder, "unused"));
    Trainer& now = moves ? second : trainer;
    now.forward_backward(early);
    std::vector<Trainer> list;
    if (moves) list.push_back(std::move(second));
    Trainer& last = moves ? list.front() : trainer;
    last.update(1e-3);
    last.forward_backward(last.next_batch());
    last.forward_backward(last.next_batch());
    last.update(1e-3);
    EXPECT_EQ(last.step(), 2);
    return weights_after(last, folder);
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(MovedTrainer, TrainsAfterAssignment) {
  const testing::TestFolder folder("assigned_trainer");
  Trainer first(arguments_of(folder, "first"));
  const int64_t steps = first.train().step;
  first = Trainer(arguments_of(folder, "second"));
  EXPECT_EQ(first.step(), 0);
  EXPECT_EQ(first.train().step, steps);
  EXPECT_TRUE(std::filesystem::exists(folder.path("second") + "/plan.json"));
}

// Every function of a Trainer that was moved from must fail with the same clear error.
TEST(MovedTrainer, LeavesNothingBehind) {
  const testing::TestFolder folder("left_trainer");
  Trainer trainer(arguments_of(folder, "out"));
  Batch batch = trainer.next_batch();
  const Trainer owner = std::move(trainer);
  const std::vector<std::function<void()>> calls{
      [&] { trainer.plan(); },        [&] { trainer.train(); },
      [&] { trainer.start(); },       [&] { trainer.evaluate(); },
      [&] { trainer.predict(); },     [&] { trainer.next_batch(); },
      [&] { trainer.update(1e-3); },  [&] { trainer.forward_backward(batch); },
      [&] { trainer.step(); },        [&] { trainer.save_model(folder.path("none")); },
      [&] { trainer.memory(); },      [&] { trainer.add_callback(nullptr); },
      [&] { trainer.device_line(); }, [&] { trainer.label_names(); },
      [&] { trainer.max_steps(); },   [&] { trainer.profile_table(); },
      [&] { trainer.description(); }};
  for (const auto& call : calls) {
    EXPECT_NE(testing::refusal(call, ErrorCode::kUsage).find("was moved from"), std::string::npos);
  }
  trainer.request_stop();
  EXPECT_GT(owner.num_parameters(), 0);
}

// Sets an environment variable in its constructor and restores the former value in its destructor.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST(ProcessEnvironment, FindsModelsWhereTheCommandLineDoes) {
  const testing::TestFolder folder("environment");
  const std::string base = testing::write_tiny_base(folder);
  testing::write_uneven_rows(folder, 4);
  std::filesystem::copy(folder.path("model") + "/vocab.txt", base + "/vocab.txt");
  const std::string repository = folder.path("hf") + "/hub/models--acme--minilm";
  std::filesystem::create_directories(repository + "/refs");
  std::ofstream(repository + "/refs/main") << "abc123";
  std::filesystem::create_directories(repository + "/snapshots");
  std::filesystem::copy(base, repository + "/snapshots/abc123", std::filesystem::copy_options::recursive);
  const Variable home("HF_HOME", folder.path("hf"));
  EXPECT_EQ(process_environment().at("HF_HOME"), folder.path("hf"));
  Arguments arguments = arguments_of(folder, "out");
  arguments.config_name.clear();
  arguments.model_name_or_path = "acme/minilm";
  EXPECT_GT(Trainer(arguments).num_parameters(), 0);
  EXPECT_GT(plan_run(arguments).total_bytes, 0);
  EXPECT_FALSE(LineTokenizer("acme/minilm").encode_json("a b").empty());
  // With an empty environment there are no caches, and no message may contain a path that was not expanded, such as
  // "~/...".
  const std::string message =
      testing::refusal([&] { Trainer trainer(arguments, Task::kTrain, {}); }, ErrorCode::kBadData);
  EXPECT_NE(message.find("neither HOME nor"), std::string::npos) << message;
  EXPECT_EQ(message.find('~'), std::string::npos) << message;
  EXPECT_EQ(
      testing::refusal([&] { LineTokenizer tokenizer("acme/minilm", {}); }, ErrorCode::kBadData).find('~'),
      std::string::npos);
  EXPECT_EQ(testing::refusal([&] { plan_run(arguments, {}); }, ErrorCode::kBadData).find('~'),
            std::string::npos);
}

}  // namespace
}  // namespace plimsoll
