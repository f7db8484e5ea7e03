#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "base/check.h"
#include "base/optimizer_table.h"
#include "optim/optimizers.h"

namespace plimsoll {
namespace {

std::string error_of(const std::string& optim, const std::map<std::string, std::string>& args) {
  try {
    static_cast<void>(parse_optimizer(optim, args));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "no error";
}

TEST(OptimizerOptions, EveryNameThatRunsHasAnOptimizer) {
  int checked = 0;
  for (const OptimizerName& row : optimizer_names()) {
    if (!row.is_here()) continue;
    std::map<std::string, std::string> args;
    if (find_optimizer_row(row.runs)->needs_momentum()) args["momentum"] = "0.9";
    EXPECT_EQ(optimizer_row(parse_optimizer(std::string(row.name), args).kind).name, row.runs) << row.name;
    ++checked;
  }
  EXPECT_GE(checked, 8);
}

// Checks each row of the table of optimizers: its fields must agree with one another and with the code of the optimizer.
TEST(Optimizers, EveryRowHasANameForOptimAFamilyWithStatesInFp32AndRulesOfThumb) {
  ASSERT_GE(optimizer_rows().size(), 9u);
  for (const OptimizerRow& row : optimizer_rows()) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(&optimizer_row(row.kind), &row);
    EXPECT_EQ(find_optimizer_row(row.name), &row);
    ASSERT_FALSE(row.names.empty());
    const OptimizerRow& family = optimizer_row(row.family);
    EXPECT_EQ(family.family, family.kind);
    EXPECT_NE(family.frame, UpdateFrame::kEightBit);
    EXPECT_EQ(row.frame == UpdateFrame::kEightBit, row.kind != row.family);
    EXPECT_EQ(row.states, family.states);
    EXPECT_TRUE(row.label.ends_with(family.label));
    EXPECT_EQ(&optimizer_settings(row.kind), &optimizer_settings(row.family));
    EXPECT_GT(row.flops_per_element, 0.0);
    EXPECT_FALSE(row.rules.empty());
    for (const StateRule& rule : row.rules) EXPECT_TRUE(rule.variant.starts_with(row.label)) << rule.variant;
    // A row of the optimizer table lists rules of thumb for the memory of the optimizer's states (StateRule). The first rule must have the
    // number of states that the optimizer has, and their bytes per parameter. Adafactor is not checked, because without beta1 it has one
    // state less.
    if (row.frame != UpdateFrame::kFactored) {
      OptimizerConfig config{.kind = row.kind, .momentum = row.has_optional_momentum ? 0.9 : 0.0};
      EXPECT_EQ(row.rules.front().num_kinds, std::ssize(optimizer_state_names(config)));
      EXPECT_EQ(row.rules.front().bytes, least_state_bytes(config));
    }
  }
  EXPECT_EQ(find_optimizer_row(""), nullptr);
}

TEST(Optimizers, HaveTheNamesAndBytesOfTheirStates) {
  const auto names = [](const OptimizerConfig& config) {
    return fmt::format("{}", fmt::join(optimizer_state_names(config), " "));
  };
  EXPECT_EQ(names({.kind = OptimizerKind::kAdamW}), "adamw.m adamw.v");
  EXPECT_EQ(names({.kind = OptimizerKind::kSgd}), "");
  EXPECT_EQ(names({.kind = OptimizerKind::kSgd, .momentum = 0.9}), "sgd.momentum");
  EXPECT_EQ(names({.kind = OptimizerKind::kAdagrad8Bit}),
            "adagrad_8bit.sum adagrad_8bit.sum.absmax adagrad.sum");
  EXPECT_EQ(names({.kind = OptimizerKind::kAdafactor}), "adafactor.row adafactor.column adafactor.v");
  OptimizerConfig adafactor{.kind = OptimizerKind::kAdafactor};
  adafactor.adafactor.beta1 = 0.9;
  EXPECT_EQ(names(adafactor), "adafactor.row adafactor.column adafactor.v adafactor.m");
  EXPECT_EQ(least_state_bytes({.kind = OptimizerKind::kSgd}), 0);
  EXPECT_EQ(least_state_bytes({.kind = OptimizerKind::kAdafactor}), 0);
  EXPECT_EQ(least_state_bytes({.kind = OptimizerKind::kAdamW8Bit}), 2);
  EXPECT_EQ(least_state_bytes({.momentum_dtype = DType::kBF16, .variance_dtype = DType::kF32}), 6);
}

// docs/OPTIMIZERS.md is written by hand, so this test compares its names with the table.
TEST(Optimizers, ThePageOfOptimizersHasEveryNameOfEveryRow) {
  std::ifstream file(std::string(PLIMSOLL_SOURCE_DIR) + "/docs/OPTIMIZERS.md");
  const std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  for (const OptimizerName& name : optimizer_names()) {
    if (!name.is_here()) continue;
    EXPECT_NE(page.find(fmt::format("`{}`", name.name)), std::string::npos)
        << "docs/OPTIMIZERS.md does not have `" << name.name << "`";
  }
}

TEST(Optimizers, ReportsNameTheMomentumThatARunHas) {
  EXPECT_EQ(describe_optimizer({.kind = OptimizerKind::kAdamW}), "AdamW");
  EXPECT_EQ(describe_optimizer({.kind = OptimizerKind::kSgd}), "SGD");
  EXPECT_EQ(describe_optimizer({.kind = OptimizerKind::kSgd, .momentum = 0.9}), "SGD with momentum 0.9");
  EXPECT_EQ(describe_optimizer({.kind = OptimizerKind::kSgd8Bit, .momentum = 0.5}),
            "8-bit SGD with momentum 0.5");
}

TEST(OptimizerOptions, AdagradAndSgdTakeTheirs) {
  const OptimizerConfig adagrad = parse_optimizer("adagrad", {{"lr_decay", "0.5"}, {"eps", "1e-6"}});
  EXPECT_EQ(adagrad.adagrad.lr_decay, 0.5);
  EXPECT_EQ(adagrad.adagrad.epsilon, 1e-6);
  EXPECT_EQ(error_of("adagrad", {{"momentum", "0.9"}}),
            "--optim_args: 'momentum' is not an argument of adagrad (it has lr_decay, eps; the decay is "
            "--weight_decay)");
  EXPECT_EQ(error_of("adagrad", {{"eps", "-1"}}), "--optim_args: eps is -1, but it must be at least 0");
  const OptimizerConfig sgd = parse_optimizer("sgd", {{"momentum", "0.9"}, {"nesterov", "True"}});
  EXPECT_EQ(sgd.momentum, 0.9);
  EXPECT_TRUE(sgd.nesterov);
  EXPECT_EQ(error_of("sgd", {{"momentum", "1"}}), "--optim_args: momentum is 1, but it must be in [0, 1)");
  EXPECT_EQ(error_of("sgd", {{"nesterov", "True"}}),
            "--optim_args: nesterov needs momentum above 0, but momentum is 0; give momentum=0.9, or leave "
            "nesterov out");
  const OptimizerConfig sgd_8bit = parse_optimizer("sgd_bnb_8bit", {{"momentum", "0.9"}});
  EXPECT_EQ(sgd_8bit.kind, OptimizerKind::kSgd8Bit);
  EXPECT_EQ(sgd_8bit.momentum, 0.9);
  EXPECT_EQ(error_of("sgd_8bit", {}),
            "--optim sgd_8bit: without momentum there is no state to keep in 8 bits; give --optim_args "
            "momentum=0.9, or --optim sgd");
  EXPECT_EQ(parse_optimizer("adagrad_bnb_8bit", {{"eps", "1e-6"}}).adagrad.epsilon, 1e-6);
  EXPECT_EQ(
      error_of("lion_32bit", {{"beta1", "0.9"}}),
      "--optim_args: 'beta1' is not an argument of lion_32bit (the betas are --adam_beta1 and --adam_beta2)");
}

TEST(OptimizerOptions, AdamwTakesTheTypesOfItsMoments) {
  const OptimizerConfig config = parse_optimizer(
      "adamw_anyprecision",
      {{"momentum_dtype", "bfloat16"}, {"variance_dtype", "float32"}, {"use_kahan_summation", "False"}});
  EXPECT_EQ(config.momentum_dtype, DType::kBF16);
  EXPECT_EQ(config.variance_dtype, DType::kF32);
  EXPECT_EQ(error_of("adamw_torch", {{"variance_dtype", "float16"}}),
            "--optim_args: variance_dtype is 'float16', but it must be float32 or bfloat16");
  EXPECT_NE(error_of("adamw_anyprecision", {{"use_kahan_summation", "True"}}).find("master_weights=split"),
            std::string::npos);
}

TEST(OptimizerOptions, AdafactorTakesAllOfHuggingFaces) {
  const AdafactorOptions defaults = parse_optimizer("adafactor", {}).adafactor;
  EXPECT_EQ(defaults, AdafactorOptions());
  EXPECT_FALSE(defaults.scale_parameter);
  EXPECT_FALSE(defaults.relative_step);
  const AdafactorOptions all = parse_optimizer("adafactor", {{"eps", "(1e-20, 1e-2)"},
                                                             {"clip_threshold", "0.5"},
                                                             {"decay_rate", "-0.7"},
                                                             {"beta1", "0.9"},
                                                             {"scale_parameter", "True"},
                                                             {"relative_step", "true"},
                                                             {"warmup_init", "True"}})
                                   .adafactor;
  EXPECT_EQ(all, (AdafactorOptions{.epsilon1 = 1e-20,
                                   .epsilon2 = 1e-2,
                                   .clip_threshold = 0.5,
                                   .decay_rate = -0.7,
                                   .beta1 = 0.9,
                                   .scale_parameter = true,
                                   .relative_step = true,
                                   .warmup_init = true}));
  const AdafactorOptions one_each =
      parse_optimizer("adafactor", {{"eps1", "1e-25"}, {"eps2", "0.5"}}).adafactor;
  EXPECT_EQ(one_each.epsilon1, 1e-25);
  EXPECT_EQ(one_each.epsilon2, 0.5);
  EXPECT_EQ(parse_optimizer("adafactor", {{"beta1", "None"}}).adafactor, AdafactorOptions());
  EXPECT_EQ(error_of("adafactor", {{"eps", "1e-30"}}),
            "--optim_args: 'eps' is '1e-30', but two numbers are expected: eps1=1e-30,eps2=1e-3");
  EXPECT_EQ(error_of("adafactor", {{"decay_rate", "0.8"}}),
            "--optim_args: decay_rate is 0.8, but it must be below 0");
  EXPECT_EQ(error_of("adafactor", {{"relative_step", "Ture"}}),
            "--optim_args: relative_step is 'Ture', but True or False is expected");
  EXPECT_EQ(parse_optimizer("adafactor", {{"relative_step", "False"}}).adafactor, AdafactorOptions());
  EXPECT_EQ(error_of("adafactor", {{"warmup_init", "True"}}),
            "--optim_args: warmup_init needs relative_step=True, but relative_step is False; set "
            "relative_step=True, or leave warmup_init out");
  EXPECT_NE(error_of("adafactor", {{"beta2", "0.9"}}).find("it has eps, eps1, eps2, clip_threshold"),
            std::string::npos);
}

TEST(OptimizerOptions, TheRateOfAStepIsTheSchedulesOrAdafactorsOwn) {
  OptimizerConfig config = parse_optimizer("adafactor", {});
  EXPECT_EQ(learning_rate_of_step(config, 3e-5, 7), 3e-5);
  config.adafactor.relative_step = true;
  EXPECT_EQ(learning_rate_of_step(config, 3e-5, 1), 1e-2);
  EXPECT_EQ(learning_rate_of_step(config, 3e-5, 40000), 1.0 / 200.0);
  config.adafactor.warmup_init = true;
  EXPECT_DOUBLE_EQ(learning_rate_of_step(config, 3e-5, 100), 1e-4);
  config.kind = OptimizerKind::kAdamW;
  EXPECT_EQ(learning_rate_of_step(config, 3e-5, 100), 3e-5);
}

}  // namespace
}  // namespace plimsoll
