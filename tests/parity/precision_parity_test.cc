// Runs the cases of parity_test.cc in the precisions that round more than fp32.
//
// The allowed error is measured on the reference: by its own bf16 run (bf16.json; make_fixtures.py --bf16) and by its
// fp32 run, each against fp64. To first order an error is proportional to the unit roundoff u of the type: 2^-8 in
// bf16, 2^-11 in fp16 and TF32, 2^-24 in fp32 (sums, statistics and weights are fp32 in all of them). An fp32 product
// that is computed as three TF32 products has an error of kTf32x3SplitError, 2^-21, and adds three times as many
// terms, each with an error of 4 u (kernels/matmul/matmul_cuda.h); the test uses u = 2^-20 for it. Let e_bf16 and
// e_fp32 be the errors of the reference in its two runs. Both measure how sensitive the case is to rounding, so the
// unit of a case is the larger of e_bf16 u / 2^-8 and e_fp32 u / 2^-24, plus e_fp32 itself. Two effects are not
// linear:
//  - AdamW's first updates have the size of the learning rate for any size of the gradient. An element whose
//    gradient is smaller than its rounding moves in the wrong direction by that amount. The number of such elements is
//    in proportion to u, and so is the square of the norm of their effect on the weights: the effect is in proportion
//    to the square root of u.
//  - DistilBERT's head has a ReLU, and feed-forward layers with hidden_act relu have many. If rounding
//    changes the sign of a ReLU's input, the gradient jumps by an amount that does not depend on u, so the norm of the
//    gradient may be off by as much as in bf16. It is chance whether that happens in a run, and the reference is one
//    run: the unit of error is at least the median of the cases with the same texts (other optimizers, other batches).
//    The number of such inputs is in proportion to u, and so is the square of the norm of their effect on the weights
//    and on later losses: the effect is in proportion to the square root of u.
// Within a precision the two engines round at different places (Trainer's autocast leaves norms, GELU and softmax in
// fp32, Plimsoll stores saved activations in 16 bits), and a maximum over 20 steps is one sample of few. The factor
// kTimesTrainer covers both.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "models/config.h"
#include "tests/parity/fixtures.h"
#include "tests/parity/measures.h"
#include "tests/support/keep_worst.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using test::ScratchFolder;
using testing::fixtures;

constexpr double kTimesTrainer = 4.0;

struct Precision {
  const char* name;
  json settings;
  double units;  // unit roundoff of the precision divided by that of bf16
  bool on_cpu;
};

std::vector<Precision> precisions() {
  return {{"bf16", {{"bf16", true}}, 1.0, true},
          {"fp16", {{"fp16", true}}, 0.125, false},
          {"tf32", {{"tf32", true}}, 0.125, false},
          {"tf32x3", {{"matmul_precision", "tf32x3"}}, 0x1p-12, false}};
}

// Returns true if the model has a ReLU: in DistilBERT's head, or in feed-forward layers if the configuration
// says so.
bool has_relu(const std::string& model) {
  const ModelConfig config =
      parse_model_config(ScratchFolder::read(fixtures().path("models/" + model + "/config.json")), model);
  return config.model_type == "distilbert" || config.hidden_act == "relu";
}

// Returns the median of the errors that the reference's bf16 runs have in the norm of the gradient, over all cases
// with the same model and texts. The names of such cases begin alike, for example with "distilbert-pairs".
double median_norm_error(const json& errors, const std::string& name) {
  const std::string texts = name.substr(0, name.find('-', name.find('-') + 1));
  std::vector<double> same;
  for (const auto& [other, error] : errors.items()) {
    if (other.starts_with(texts)) same.push_back(error.at("grad_norm"));
  }
  const auto middle = same.begin() + std::ssize(same) / 2;
  std::nth_element(same.begin(), middle, same.end());
  return *middle;
}

// Runs every case in one precision.
void check(const Precision& precision) {
  const json& errors = fixtures().bf16_errors();
  const auto without_bf16 = std::count_if(fixtures().cases().begin(), fixtures().cases().end(),
                                          [](const json& item) { return item.contains("without_bf16"); });
  ASSERT_EQ(std::ssize(errors) + without_bf16, std::ssize(fixtures().cases()));
  std::printf("%-44s %s: error over its unit\n", "", precision.name);
  double worst = 0;
  size_t compared = 0;
  for (const json& item : fixtures().cases()) {
    if (item.contains("without_bf16")) continue;  // the value of this key states why the case has no bf16 run
    const std::string name = item.at("name");
    SCOPED_TRACE(std::string(precision.name) + ", " + name);
    const json& expected = item.at("expected");
    json unit = errors.at(name);
    const ScratchFolder folder;
    json settings = item.at("arguments");
    settings.update(precision.settings);
    Trainer trainer(fixtures().arguments(settings, folder.path() + "/run"));
    const TrainOutput output = trainer.train();
    trainer.save_model(folder.path() + "/model");
    // If a gradient overflows with fp16's loss scale, the step is skipped and the rest of the run differs from the
    // reference's. Such a case is not compared. The norm of its gradient must be at least 1, because only a gradient of this
    // size overflows at the first scale, 2^16.
    const std::vector<double> skipped = testing::column(output, "skipped_steps", "skipped_steps");
    if (!skipped.empty() && skipped.back() > 0) {
      const json& norms = expected.at("grad_norm");
      EXPECT_GE(std::max_element(norms.begin(), norms.end())->get<double>(), 1.0);
      std::printf("%-44s skipped %.0f steps: not compared\n", name.c_str(), skipped.back());
      continue;
    }
    ++compared;
    const double r = precision.units;
    const bool adam = settings.value("optim", "adamw_torch") != "sgd";
    const bool relu = has_relu(item.at("model"));
    const double r_of_updates = relu ? std::sqrt(r) : r;
    if (relu)
      unit["grad_norm"] = std::max(unit.at("grad_norm").get<double>(), median_norm_error(errors, name));
    const auto ratio = [&](double error, const char* key, const char* single, double units) {
      const double fp32 = expected.at(single);
      return error / (std::max(units * unit.at(key).get<double>(), units * 0x1p16 * fp32) + fp32);
    };
    const auto error = [&](const char* has, const char* key) {
      return testing::relative_error(testing::column(output, has, key), expected.at(key));
    };
    const double ratios[] = {
        ratio(error("loss", "loss"), "loss", "fp32_loss_error", r_of_updates),
        ratio(error("loss", "grad_norm"), "grad_norm", "fp32_grad_norm_error", relu ? 1.0 : r),
        ratio(error("eval_loss", "eval_loss"), "eval_loss", "fp32_eval_loss_error", r_of_updates),
        ratio(testing::weight_errors(item, folder.path() + "/model").trained, "weights", "fp32_weight_error",
              adam ? std::sqrt(r) : r_of_updates)};
    std::printf("%-44s loss %5.2f norm %5.2f evaluation %5.2f weights %5.2f\n", name.c_str(), ratios[0],
                ratios[1], ratios[2], ratios[3]);
    for (const double one : ratios) {
      EXPECT_LE(one, kTimesTrainer);
      test::keep_worst(worst, one);
    }
  }
  std::printf("figure: parity in %s: worst %.2f of %.0f units, %zu cases\n", precision.name, worst,
              kTimesTrainer, compared);
  // In fp16 35 of 127 cases overflow at the first scale, 65536, and are not compared. At least two thirds of
  // the cases must be compared.
  EXPECT_GE(3 * compared, 2 * errors.size());
}

// Returns the error message with which the first case is refused if this device does not support the precision, otherwise "".
std::string refusal(const Precision& precision) {
  const ScratchFolder folder;
  json settings = fixtures().cases().at(0).at("arguments");
  settings.update(precision.settings);
  try {
    const Trainer trainer(fixtures().arguments(settings, folder.path()));
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(PrecisionParity, EveryCaseInEveryPrecisionOfTheDevice) {
  const bool on_gpu = std::getenv("PLIMSOLL_TEST_DEVICE") != nullptr;
  int ran = 0;
  std::string reasons;
  for (const Precision& precision : precisions()) {
    if (!on_gpu && !precision.on_cpu) continue;
    const std::string reason = refusal(precision);
    if (!reason.empty()) {
      // A GPU of compute capability 8.0 or later supports all of these precisions.
      EXPECT_FALSE(on_gpu) << reason;
      reasons += reason + "\n";
      continue;
    }
    check(precision);
    ++ran;
  }
  if (ran == 0) GTEST_SKIP() << reasons;
}

}  // namespace
}  // namespace plimsoll
