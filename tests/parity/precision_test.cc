// The cases of parity_test.cc in the precisions that round more than fp32 does.
//
// The unit is the distance of Trainer's own bf16 run from its fp64 run (bf16.json; make_fixtures.py --bf16).
// To first order an error is a sum of roundings, each in proportion to the unit roundoff of the type: 2^-8 in
// bf16, 2^-11 in fp16 and in TF32, whose sums, statistics and weights are fp32 as in bf16. So the limit of
// those is an eighth of bf16's. Within a precision the two engines round at other places (Trainer's autocast
// leaves norms, GELU and softmax in fp32, Plimsoll keeps what it saves in 16 bits), and which of two orders
// comes nearer is luck in a maximum over 20 steps: that is what the factor is for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/parity/fixtures.h"
#include "tests/parity/measures.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using testing::fixtures;
using testing::read_json;
using testing::ScratchFolder;

constexpr double kTimesTrainer = 4.0;

struct Precision {
  const char* name;
  json settings;
  double units;  // roundings of this precision over those of bf16
  bool on_cpu;
};

std::vector<Precision> precisions() {
  return {{"bf16", {{"bf16", true}}, 1.0, true},
          {"fp16", {{"fp16", true}}, 0.125, false},
          {"tf32", {{"tf32", true}}, 0.125, false}};
}

// Every case, or the reason why this device does not run it.
void check(const Precision& precision) {
  const json errors = read_json(fixtures().path("bf16.json")).at("errors");
  ASSERT_EQ(errors.size(), fixtures().cases().size());
  std::printf("%-44s %s: error over that of Trainer in bf16, in roundings\n", "", precision.name);
  double worst = 0;
  for (const json& item : fixtures().cases()) {
    const std::string name = item.at("name");
    SCOPED_TRACE(std::string(precision.name) + ", " + name);
    const json& expected = item.at("expected");
    const json& unit = errors.at(name);
    const ScratchFolder folder(std::string(precision.name) + "-" + name);
    json settings = item.at("arguments");
    settings.update(precision.settings);
    Trainer trainer(fixtures().arguments(settings, folder.path() + "/run"));
    const TrainOutput output = trainer.train();
    trainer.save_model(folder.path() + "/model");
    const auto ratio = [&](double error, const char* key) {
      // fp32's own roundings are in every precision.
      const std::string single = std::string("fp32_") + key + "_error";
      return error / (precision.units * unit.at(key).get<double>() + expected.at(single).get<double>());
    };
    const double ratios[] = {
        ratio(testing::relative_error(testing::column(output, "loss", "loss"), expected.at("loss")), "loss"),
        ratio(testing::relative_error(testing::column(output, "loss", "grad_norm"), expected.at("grad_norm")),
              "grad_norm"),
        ratio(testing::relative_error(testing::column(output, "eval_loss", "eval_loss"),
                                      expected.at("eval_loss")),
              "eval_loss"),
        testing::weight_errors(item, folder.path() + "/model").trained /
            (precision.units * unit.at("weights").get<double>() +
             expected.at("fp32_weight_error").get<double>())};
    std::printf("%-44s loss %5.2f norm %5.2f evaluation %5.2f weights %5.2f\n", name.c_str(), ratios[0],
                ratios[1], ratios[2], ratios[3]);
    for (const double r : ratios) EXPECT_LE(r, kTimesTrainer);
    worst = std::max(worst, *std::max_element(std::begin(ratios), std::end(ratios)));
  }
  std::printf("%s: worst %.2f\n", precision.name, worst);
}

// The first case once, to learn whether this device takes the precision at all.
std::string refusal(const Precision& precision) {
  const ScratchFolder folder("probe");
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
      // A GPU of compute capability 8.0 or later takes them all.
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
