#include "tests/combinations/method_run.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/philox.h"
#include "plan/compile/plan.h"
#include "run/run_setup.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSteps = 4;
constexpr uint32_t kMostDraws = 20000;

bool accumulates(const MethodSet& set) {
  return std::any_of(set.begin(), set.end(), [](const Method* m) { return m->name == "accumulation"; });
}

// Returns true if a run computes in 16 bits. --fp8 counts, because it implies bf16 for everything but the
// matrix products.
bool is_in_16_bits(const Arguments& arguments) {
  return arguments.bf16 || arguments.fp16 || arguments.fp8 || arguments.dtype != Arguments{}.dtype;
}

// Returns how a method may change the losses of a run, compared to a run with the same other settings. Recomputation
// changes no bit if values are not rounded to 16 bits when they are stored. Updates in the backward pass change no
// bit if gradients are not clipped, except with stochastic rounding, whose random numbers depend on the op that makes
// the update.
MethodEffect effect_of(const Method& method, const Arguments& arguments) {
  if (method.kind == "recompute" && !is_in_16_bits(arguments)) return MethodEffect::kSameBits;
  if (method.name != "optimizer_in_backward") return method.effect;
  const bool has_noise = arguments.dtype != Arguments{}.dtype || !arguments.optim_args.empty();
  return has_noise ? MethodEffect::kRounding : MethodEffect::kSameBits;
}
Arguments with_what_it_asks_for(const Method& method, Arguments without) {
  if (method.name == "optimizer_in_backward") without.max_grad_norm = 0;
  return without;
}

// Returns the largest accepted difference of two losses of about 1, if a method changes one of the following:
// - Order of fp32 sums: several hundred terms have an error of 2^-24 each, and the difference grows over four
//   steps with a learning rate of 1e-3.
// - Precision of activations: bf16 rounds values to 2^-9 at about twenty places in two layers. Independent
//   errors add up to sqrt(20) x 2^-9 = 0.9 % for logits below 1. Three times that is accepted.
// - Order of sums whose results are rounded to 16 bits: two sums differ by about a hundred times 2^-24. With a
//   spacing of 2^-9 this rounds one result in 300 to the other neighbour. The accepted difference is
//   sqrt(1/300) of that for a change of precision.
// - Order of sums whose operands are rounded to the 11 bits of TF32: for a change to this precision, three
//   times sqrt(20) x 2^-11 = 0.66 % would be accepted. The difference of two sums moves one operand in 160 to a
//   neighbour at a spacing of 2^-10, so 0.66 % x sqrt(1/160) = 5e-4 is accepted.
double tolerance_of(MethodEffect effect, const Arguments& arguments) {
  constexpr double kPrecision = 0.03, kOrder = 1e-5, kOrderIn16Bits = 0.002, kOrderInTf32 = 5e-4;
  if (effect == MethodEffect::kRounding) return kPrecision;
  if (is_in_16_bits(arguments)) return kOrderIn16Bits;
  return arguments.tf32.value_or(false) ? kOrderInTf32 : kOrder;
}

// Returns the largest address at which a tensor of the plan ends. An arena that contains all tensors cannot be
// smaller than this.
int64_t tensors_end(const Plan& plan) {
  int64_t end = plan.persistent_bytes;
  for (const ProgramPlan& program : plan.programs) {
    for (const TransientBuffer& buffer : program.buffers) {
      if (buffer.root != kNoValue) end = std::max(end, buffer.offset + buffer.bytes);
    }
  }
  return end;
}

}  // namespace

std::string words_of(const MethodSet& set) {
  std::string text;
  for (const Method* method : set) text += (text.empty() ? "" : " + ") + std::string(method->name);
  return text.empty() ? "nothing" : text;
}

MethodRuns::MethodRuns(const TestFolder& folder) : folder_(folder) {
  without_dropout_ = folder.path("without");
  fs::rename(write_tiny_model(folder, 0.0), without_dropout_);
  with_dropout_ = write_tiny_model(folder, 0.1);
}

Arguments MethodRuns::arguments_of(const MethodSet& set, Dropout dropout, const std::string& output) const {
  std::vector<std::string> words;
  for (const Method* method : set) words.insert(words.end(), method->words.begin(), method->words.end());
  Arguments arguments = parse_arguments(words).arguments;
  const Arguments tiny =
      tiny_arguments(dropout == Dropout::kOn ? with_dropout_ : without_dropout_, folder_.path(output));
  arguments.config_name = tiny.config_name;
  arguments.dataset_name = tiny.dataset_name;
  arguments.dummy_num_samples = 2 * shape_.micro_batch * kSteps;
  arguments.dummy_seq_length = shape_.tokens;
  arguments.output_dir = tiny.output_dir;
  arguments.device = tiny.device;
  arguments.num_threads = shape_.threads;
  arguments.seed = shape_.seed;
  // The batch size is doubled without gradient accumulation, so that a step has the same number of sequences
  // either way.
  arguments.per_device_train_batch_size = (accumulates(set) ? 1 : 2) * shape_.micro_batch;
  arguments.max_steps = kSteps;
  arguments.learning_rate = 1e-3;
  arguments.logging_steps = 1;
  arguments.save_strategy = "no";
  arguments.train_sampling_strategy = "sequential";
  return arguments;
}

std::string MethodRuns::refusal(const MethodSet& set) const {
  try {
    const RunSetup setup =
        prepare_run(arguments_of(set, Dropout::kOn, "refusal"), RunPurpose::kTrain, {}, posix_file_system());
    build_plan(setup.request);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

MethodSet MethodRuns::available(std::vector<std::string>* refused) {
  const bool on_gpu = arguments_of({}, Dropout::kOn, "none").device.starts_with("cuda");
  MethodSet all;
  for (const Method& method : method_table()) {
    std::string why = !on_gpu ? std::string(method.not_on_cpu) : std::string();
    if (why.empty()) why = refusal({&method});
    if (why.empty()) {
      all.push_back(&method);
    } else if (refused != nullptr) {
      refused->push_back(std::string(method.name) + ": " + why);
    }
  }
  return all;
}

std::vector<double> MethodRuns::losses_of(const Arguments& arguments) const {
  fs::remove_all(arguments.output_dir);
  const TrainOutput output = Trainer(arguments).train();
  std::vector<double> losses;
  for (const LogRecord& record : output.log_history) {
    const auto it = record.values.find("loss");
    if (it != record.values.end()) losses.push_back(it->second);
  }
  return losses;
}

void MethodRuns::check_memory(const MethodSet& set) {
  const Arguments arguments = arguments_of(set, Dropout::kOn, "memory");
  fs::remove_all(arguments.output_dir);
  const Plan plan = build_plan(prepare_run(arguments, RunPurpose::kTrain, {}, posix_file_system()).request);
  Trainer trainer(arguments);
  trainer.train();
  const MemoryFigures memory = trainer.memory();
  EXPECT_EQ(memory.arena_bytes, plan.arena_bytes);
  EXPECT_EQ(memory.arena_bytes, trainer.plan().arena_bytes);
  EXPECT_EQ(memory.arena_high_water_bytes, memory.arena_bytes);
  EXPECT_GE(memory.arena_written_bytes, tensors_end(plan));
}

void MethodRuns::check_losses(const MethodSet& set) {
  for (const Method* method : set) {
    SCOPED_TRACE("without " + std::string(method->name));
    MethodSet rest = set;
    rest.erase(std::find(rest.begin(), rest.end(), method));
    // The method is skipped if the set without it is invalid, for example because another method of the set requires it.
    if (!refusal(rest).empty()) continue;
    // Gradient accumulation is compared without dropout, because several micro-batches draw other dropout masks than one large
    // batch. No other method changes the masks.
    const Dropout dropout = method->name == "accumulation" ? Dropout::kOff : Dropout::kOn;
    const Arguments arguments = arguments_of(set, dropout, "with");
    const std::vector<double> with = losses_of(arguments);
    const std::vector<double> without =
        losses_of(with_what_it_asks_for(*method, arguments_of(rest, dropout, "rest")));
    ASSERT_EQ(with.size(), without.size());
    ASSERT_FALSE(with.empty());
    const MethodEffect effect = effect_of(*method, arguments);
    const double tolerance = tolerance_of(effect, arguments);
    for (size_t i = 0; i < with.size(); ++i) {
      EXPECT_TRUE(std::isfinite(with[i])) << "step " << i + 1;
      if (effect == MethodEffect::kOtherPath) {
        // The first loss is compared more strictly, because both runs still have the same weights.
        if (i == 0) {
          EXPECT_NEAR(with[i], without[i], tolerance_of(MethodEffect::kRounding, arguments)) << "step 1";
        }
      } else if (effect == MethodEffect::kSameBits) {
        EXPECT_EQ(with[i], without[i]) << "step " << i + 1;
      } else {
        EXPECT_NEAR(with[i], without[i], tolerance) << "step " << i + 1;
      }
    }
  }
}

// Compares the losses of a run with all methods of the set with those of the reference kernels (plain loops). They may differ
// only by the error of another order of sums. The reference kernels run on CPUs only.
void MethodRuns::check_references(const MethodSet& set) {
  const Arguments arguments = arguments_of(set, Dropout::kOn, "fast");
  if (arguments.device.starts_with("cuda")) return;
  Arguments plain = arguments;
  plain.kernels = {"ref"};
  plain.output_dir = folder_.path("plain");
  const std::vector<double> fast = losses_of(arguments);
  const std::vector<double> reference = losses_of(plain);
  ASSERT_EQ(fast.size(), reference.size());
  ASSERT_FALSE(fast.empty());
  const double tolerance = tolerance_of(MethodEffect::kSameSums, arguments);
  for (size_t i = 0; i < fast.size(); ++i) EXPECT_NEAR(fast[i], reference[i], tolerance) << "step " << i + 1;
}

void MethodRuns::check_resume(const MethodSet& set) {
  constexpr int64_t kHalf = kSteps / 2;
  Arguments whole = arguments_of(set, Dropout::kOn, "whole");
  whole.save_strategy = "steps";
  whole.save_steps = static_cast<double>(kHalf);
  fs::remove_all(whole.output_dir);
  Trainer(whole).train();
  Arguments rest = whole;
  rest.output_dir = folder_.path("resumed");
  fs::remove_all(rest.output_dir);
  rest.resume_from_checkpoint = whole.output_dir + "/checkpoint-" + std::to_string(kHalf);
  Trainer(rest).train();
  const std::string last = "/checkpoint-" + std::to_string(kSteps) + "/";
  for (const fs::directory_entry& entry : fs::directory_iterator(whole.output_dir + last)) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::string wanted = read_file(entry.path().string());
    ASSERT_FALSE(wanted.empty());
    EXPECT_TRUE(read_file(rest.output_dir + last + entry.path().filename().string()) == wanted)
        << entry.path().filename() << " after a resume";
  }
}

void MethodRuns::check(const MethodSet& set) {
  SCOPED_TRACE(words_of(set));
  check_memory(set);
  check_losses(set);
  check_references(set);
  check_resume(set);
}

int MethodRuns::check_random_sets(int count, int first) {
  const MethodSet methods = available();
  std::set<std::string> seen;
  int found = 0, checked = 0;
  for (uint32_t draw = 0; draw < kMostDraws && checked < count; ++draw) {
    MethodSet set;
    for (uint32_t i = 0; i < methods.size(); ++i) {
      // Each method is drawn with a probability of one third. Sets with two alternatives, such as two
      // optimizers, are rejected below.
      if (philox4x32_10({draw, i, 0, 0}, {17, 5})[0] % 3 == 0) set.push_back(methods[i]);
    }
    if (set.size() < 2 || !set_different_arguments(set)) continue;
    const auto random = philox4x32_10({draw, 0, 1, 0}, {17, 5});
    shape_ = {.micro_batch = 1 + random[0] % 4,
              .tokens = 5 + random[1] % 12,
              .threads = random[2] % 16 == 0 ? 2 : 1,
              .seed = 1 + random[3] % 1000};
    const std::string text = fmt::format("{}; {} x {}, {} threads", words_of(set), shape_.micro_batch,
                                         shape_.tokens, shape_.threads);
    if (!seen.insert(text).second) continue;
    SCOPED_TRACE(fmt::format("{}, seed {}", text, shape_.seed));
    const std::string why = refusal(set);
    if (!why.empty()) {
      EXPECT_NE(why.find("--"), std::string::npos) << why;
      continue;
    }
    if (found++ < first) continue;
    check(set);
    ++checked;
  }
  shape_ = {};
  return checked;
}

}  // namespace plimsoll::testing
