// Tests train() on a Trainer that has trained before. The new run must start from the beginning, also if the
// previous run ended with an error during a step. If train() is refused, the Trainer must stay unchanged.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <stdexcept>

#include "plimsoll/trainer.h"
#include "tests/training/stable_log.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

using testing::refusal;
using testing::stable_log;
using testing::TestFolder;

// The exception type of a user's callback, which is not an error of the library.
struct Fault : std::runtime_error {
  Fault() : std::runtime_error("a callback's own error") {}
};

// A callback that throws after step `step` as long as is_armed is true.
class Faulty : public Callback {
 public:
  explicit Faulty(int64_t step) : step_(step) {}
  void on_step_end(const StepInfo& info, TrainControl&) override {
    if (is_armed && info.step == step_) throw Fault();
  }
  bool is_armed = true;

 private:
  int64_t step_;
};

Arguments arguments_of(const TestFolder& folder) {
  Arguments arguments = testing::tiny_arguments(testing::write_tiny_model(folder), folder.path("run"));
  arguments.save_strategy = "no";
  arguments.max_steps = 6;
  return arguments;
}

std::string weights_of(Trainer& trainer, const TestFolder& folder) {
  trainer.save_model(folder.path("saved"));
  std::string text = testing::read_file(folder.path("saved") + "/model.safetensors");
  std::filesystem::remove_all(folder.path("saved"));
  EXPECT_FALSE(text.empty());
  return text;
}

// Trains again with this Trainer and expects the same losses, weights and states as from a new Trainer that
// starts from the same weights, which are saved in FOLDER/between. Dropout is on, so that the random numbers
// must be equal too.
void expect_next_begins_anew(Trainer& trainer, Arguments arguments, const TestFolder& folder) {
  trainer.save_model(folder.path("between"));
  const TrainOutput again = trainer.train();
  EXPECT_EQ(again.step, arguments.max_steps);
  EXPECT_EQ(trainer.step(), arguments.max_steps);
  const std::string weights = weights_of(trainer, folder);
  arguments.config_name.clear();
  arguments.model_name_or_path = folder.path("between");
  Trainer fresh(arguments);
  EXPECT_EQ(stable_log(fresh.train().log_history), stable_log(again.log_history));
  EXPECT_TRUE(weights_of(fresh, folder) == weights);
}

TEST(Again, ARunBehindOneThatThrewBeginsAnew) {
  for (const bool in_backward : {false, true}) {
    SCOPED_TRACE(in_backward);
    const TestFolder folder("again_threw");
    Arguments arguments = arguments_of(folder);
    if (in_backward) {
      arguments.optimizer_in_backward = true;
      arguments.max_grad_norm = 0;
      arguments.gradient_accumulation_steps = 1;
    }
    Trainer trainer(arguments);
    const auto faulty = std::make_shared<Faulty>(4);
    trainer.add_callback(faulty);
    EXPECT_THROW(trainer.train(), Fault);
    EXPECT_EQ(trainer.step(), 4);
    faulty->is_armed = false;
    expect_next_begins_anew(trainer, arguments, folder);
  }
}

// Before the run, a custom loop computes gradients, for which it draws random numbers, and then its update fails. This incomplete step must
// affect neither the random numbers nor any other result of the run.
TEST(Again, ARunBehindAStepThatWasDroppedBeginsAnew) {
  if (std::getenv("PLIMSOLL_TEST_DEVICE") != nullptr) {
    GTEST_SKIP() << "a rule of the host's own, which drops the step here, cannot reach weights on a GPU";
  }
  const TestFolder folder("again_dropped");
  const Arguments arguments = arguments_of(folder);
  Trainer trainer(arguments);
  trainer.forward_backward(trainer.next_batch());
  EXPECT_THROW(trainer.update_by([](const OwnParameter&) { throw Fault(); }), Fault);
  EXPECT_EQ(trainer.step(), 0);
  expect_next_begins_anew(trainer, arguments, folder);
}

// After train() ended with an exception, a custom loop must continue after the updates that train() made, and
// must still get all batches.
TEST(Again, ALoopOfOnesOwnGoesOnBehindOneThatThrew) {
  const TestFolder folder("again_own");
  Arguments arguments = arguments_of(folder);
  Trainer trainer(arguments);
  const Batch first = trainer.next_batch();
  trainer.add_callback(std::make_shared<Faulty>(3));
  EXPECT_THROW(trainer.train(), Fault);
  EXPECT_EQ(trainer.step(), 3);
  // After the batches for which the run was planned, next_batch() must continue with further epochs.
  for (int i = 0; i < 3 * 22; ++i) EXPECT_GT(trainer.next_batch().num_sequences(), 0);
  trainer.forward_backward(first);
  trainer.update(1e-3);
  EXPECT_EQ(trainer.step(), 4);
}

TEST(Again, AFolderIsFreeWhenItsRunHasThrown) {
  const TestFolder folder("again_lock");
  Arguments arguments = arguments_of(folder);
  // There is no checkpoint, so the run starts from the beginning and reports this.
  arguments.resume_from_checkpoint = "True";
  Trainer first(arguments);
  first.add_callback(std::make_shared<Faulty>(2));
  EXPECT_THROW(first.train(), Fault);
  Trainer second(arguments);
  EXPECT_THROW(second.train([](const std::string&) { throw Fault(); }), Fault);
  Trainer third(arguments);
  EXPECT_EQ(third.train().step, arguments.max_steps);
}

// A second train() of the same Trainer counts as another run, so it must not overwrite the checkpoints of the
// first run unless --replace_checkpoints permits this.
TEST(Again, CheckpointsOfTheRunBeforeAreThoseOfAnother) {
  const TestFolder folder("again_saved");
  Arguments arguments = arguments_of(folder);
  arguments.save_strategy = "steps";
  for (const bool replaces : {false, true}) {
    SCOPED_TRACE(replaces);
    arguments.output_dir = folder.path(replaces ? "replaced" : "kept");
    arguments.replace_checkpoints = replaces;
    Trainer trainer(arguments);
    const auto faulty = std::make_shared<Faulty>(4);
    trainer.add_callback(faulty);
    EXPECT_THROW(trainer.train(), Fault);
    faulty->is_armed = false;
    if (replaces) {
      EXPECT_EQ(trainer.train().step, arguments.max_steps);
      continue;
    }
    const std::string message = refusal([&] { trainer.train(); }, ErrorCode::kUsage);
    EXPECT_NE(message.find("checkpoints of another run"), std::string::npos) << message;
    // A new Trainer must be able to resume from these checkpoints.
    arguments.resume_from_checkpoint = "True";
    EXPECT_EQ(Trainer(arguments).train().step, arguments.max_steps);
    arguments.resume_from_checkpoint.clear();
  }
}

// Makes two steps of a custom loop, then optionally calls train(), which is refused, and makes a third step.
// Returns the weights.
std::string three_own_steps(const Arguments& arguments, const TestFolder& folder, bool tries_to_train) {
  Trainer trainer(arguments);
  for (int step = 0; step < 3; ++step) {
    if (step == 2 && tries_to_train) refusal([&] { trainer.train(); }, ErrorCode::kUsage);
    for (int i = 0; i < 2; ++i) trainer.forward_backward(trainer.next_batch());
    trainer.update(1e-3);
  }
  EXPECT_EQ(trainer.step(), 3);
  return weights_of(trainer, folder);
}

TEST(Again, ARunThatIsRefusedChangesNothing) {
  const TestFolder folder("again_refused");
  Arguments arguments = arguments_of(folder);
  arguments.save_strategy = "steps";
  Trainer(arguments).train();
  EXPECT_TRUE(three_own_steps(arguments, folder, true) == three_own_steps(arguments, folder, false));
}

// The checkpoint belongs to a model with more labels. Most of its tensors fit and are read before the first one
// that does not fit. The weights must nevertheless be those from before the call.
TEST(Again, ACheckpointThatDoesNotFitLeavesWeightsAsAtTheStart) {
  const TestFolder folder("again_misfit");
  Arguments arguments = arguments_of(folder);
  arguments.save_strategy = "steps";
  arguments.num_labels = 3;
  arguments.output_dir = folder.path("other");
  Trainer(arguments).train();
  arguments.num_labels.reset();
  arguments.output_dir = folder.path("run");
  Trainer untrained(arguments);
  const std::string expected = weights_of(untrained, folder);
  arguments.resume_from_checkpoint = folder.path("other") + "/checkpoint-6";
  Trainer trainer(arguments);
  const Batch batch = trainer.next_batch();
  refusal([&] { trainer.train(); }, ErrorCode::kBadData);
  EXPECT_TRUE(weights_of(trainer, folder) == expected);
  refusal([&] { trainer.train(); }, ErrorCode::kBadData);
  // A batch that was made before the failed call must still be usable.
  EXPECT_GT(trainer.forward_backward(batch), 0.0);
}

}  // namespace
}  // namespace plimsoll
