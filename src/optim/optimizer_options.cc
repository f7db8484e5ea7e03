// Reads --optim and --optim_args, with the names and keys of Trainer, and lists the settings of each optimizer.
#include <algorithm>
#include <charconv>
#include <span>

#include "base/optimizer_table.h"
#include "optim/optimizers.h"

namespace plimsoll {
namespace {

double number_of(const std::string& key, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw_error(ErrorCode::kUsage, "--optim_args: '{}' is '{}', but a number is expected", key, text);
  }
  return value;
}
double number_above(const std::string& key, const std::string& text, double least) {
  const double value = number_of(key, text);
  if (!(value >= least)) {
    throw_error(ErrorCode::kUsage, "--optim_args: {} is {}, but it must be at least {}", key, text, least);
  }
  return value;
}
double share_of(const std::string& key, const std::string& text) {
  const double value = number_of(key, text);
  if (!(value >= 0.0 && value < 1.0)) {
    throw_error(ErrorCode::kUsage, "--optim_args: {} is {}, but it must be in [0, 1)", key, text);
  }
  return value;
}
bool truth_of(const std::string& key, const std::string& text) {
  for (const char* yes : {"True", "true", "1", "yes"}) {
    if (text == yes) return true;
  }
  for (const char* no : {"False", "false", "0", "no", "None"}) {
    if (text == no) return false;
  }
  throw_error(ErrorCode::kUsage, "--optim_args: {} is '{}', but True or False is expected", key, text);
}

DType moment_dtype(const std::string& key, const std::string& text) {
  if (text == "float32" || text == "fp32") return DType::kF32;
  if (text == "bfloat16" || text == "bf16") return DType::kBF16;
  throw_error(ErrorCode::kUsage, "--optim_args: {} is '{}', but it must be float32 or bfloat16", key, text);
}

constexpr OptimizerOption kAdamwOptions[] = {
    {.key = "momentum_dtype",
     .set = [](OptimizerConfig& c, const std::string& key,
               const std::string& text) { c.momentum_dtype = moment_dtype(key, text); },
     .is_of_storage = true},
    {.key = "variance_dtype",
     .set = [](OptimizerConfig& c, const std::string& key,
               const std::string& text) { c.variance_dtype = moment_dtype(key, text); },
     .is_of_storage = true},
    {.key = "use_kahan_summation",
     .set =
         [](OptimizerConfig&, const std::string& key, const std::string& text) {
           if (!truth_of(key, text)) return;
           throw_error(ErrorCode::kUsage,
                       "--optim_args: {} is {}, but Plimsoll has no Kahan summation. With --bf16 it stores "
                       "weights in two halves that together are exact (master_weights=split), in the same 4 "
                       "bytes",
                       key, text);
         },
     .is_of_storage = true},
    {.key = "master_weights",
     .set =
         [](OptimizerConfig& c, const std::string&, const std::string& text) {
           if (text != "whole" && text != "split") {
             throw_error(ErrorCode::kUsage,
                         "--optim_args: master_weights is '{}', but it must be whole or split", text);
           }
           c.master_weights = text == "whole" ? MasterWeights::kWhole : MasterWeights::kSplit;
         },
     .is_of_storage = true}};
constexpr OptimizerOption kSgdOptions[] = {
    {"momentum", [](OptimizerConfig& c, const std::string& key,
                    const std::string& text) { c.momentum = share_of(key, text); }},
    {"nesterov", [](OptimizerConfig& c, const std::string& key, const std::string& text) {
       c.nesterov = truth_of(key, text);
     }}};
constexpr OptimizerOption kAdagradOptions[] = {
    {"lr_decay", [](OptimizerConfig& c, const std::string& key,
                    const std::string& text) { c.adagrad.lr_decay = number_above(key, text, 0.0); }},
    {"eps", [](OptimizerConfig& c, const std::string& key, const std::string& text) {
       c.adagrad.epsilon = number_above(key, text, 0.0);
     }}};

double number_below(const std::string& key, const std::string& text, double limit) {
  const double value = number_of(key, text);
  if (!(value < limit)) {
    throw_error(ErrorCode::kUsage, "--optim_args: {} is {}, but it must be below {}", key, text, limit);
  }
  return value;
}

// Reads a pair of numbers such as "1e-30,1e-3" or "(1e-30 1e-3)": brackets are ignored, and a comma or a space separates the numbers.
void set_epsilons(OptimizerConfig& c, const std::string& key, const std::string& text) {
  std::string words = text;
  for (char& letter : words) {
    if (std::string_view("()[],;").find(letter) != std::string_view::npos) letter = ' ';
  }
  const size_t first = words.find_first_not_of(' ');
  const size_t gap = first == std::string::npos ? first : words.find(' ', first);
  const size_t second = gap == std::string::npos ? gap : words.find_first_not_of(' ', gap);
  if (second == std::string::npos) {
    throw_error(ErrorCode::kUsage,
                "--optim_args: '{}' is '{}', but two numbers are expected: eps1=1e-30,eps2=1e-3", key, text);
  }
  words.erase(words.find_last_not_of(' ') + 1);
  c.adafactor.epsilon1 = number_above(key, words.substr(first, gap - first), 0.0);
  c.adafactor.epsilon2 = number_above(key, words.substr(second), 0.0);
}

constexpr OptimizerOption kAdafactorOptions[] = {
    {"eps", set_epsilons},
    {"eps1", [](OptimizerConfig& c, const std::string& key,
                const std::string& text) { c.adafactor.epsilon1 = number_above(key, text, 0.0); }},
    {"eps2", [](OptimizerConfig& c, const std::string& key,
                const std::string& text) { c.adafactor.epsilon2 = number_above(key, text, 0.0); }},
    {"clip_threshold",
     [](OptimizerConfig& c, const std::string& key, const std::string& text) {
       c.adafactor.clip_threshold = number_above(key, text, 1e-300);
     }},
    {"decay_rate", [](OptimizerConfig& c, const std::string& key,
                      const std::string& text) { c.adafactor.decay_rate = number_below(key, text, 0.0); }},
    {"beta1",
     [](OptimizerConfig& c, const std::string& key, const std::string& text) {
       if (text != "None") c.adafactor.beta1 = share_of(key, text);
     }},
    {"scale_parameter", [](OptimizerConfig& c, const std::string& key,
                           const std::string& text) { c.adafactor.scale_parameter = truth_of(key, text); }},
    {"relative_step", [](OptimizerConfig& c, const std::string& key,
                         const std::string& text) { c.adafactor.relative_step = truth_of(key, text); }},
    {"warmup_init", [](OptimizerConfig& c, const std::string& key, const std::string& text) {
       c.adafactor.warmup_init = truth_of(key, text);
     }}};

constexpr OptimizerSettings adamw_settings{
    .options = kAdamwOptions, .constants = [](const OptimizerConfig& c) -> Attributes {
      return {{"beta1", c.beta1}, {"beta2", c.beta2}, {"epsilon", c.epsilon}};
    }};
constexpr OptimizerSettings lion_settings{.constants = [](const OptimizerConfig& c) -> Attributes {
  return {{"beta1", c.beta1}, {"beta2", c.beta2}};
}};
constexpr OptimizerSettings sgd_settings{
    .options = kSgdOptions, .constants = [](const OptimizerConfig& c) -> Attributes {
      return {{"momentum", c.momentum}, {"nesterov", int64_t{c.nesterov}}};
    }};
constexpr OptimizerSettings adagrad_settings{
    .options = kAdagradOptions, .constants = [](const OptimizerConfig& c) -> Attributes {
      return {{"lr_decay", c.adagrad.lr_decay}, {"epsilon", c.adagrad.epsilon}};
    }};
constexpr OptimizerSettings adafactor_settings{
    .options = kAdafactorOptions, .constants = [](const OptimizerConfig& c) -> Attributes {
      return {{"epsilon1", c.adafactor.epsilon1},
              {"epsilon2", c.adafactor.epsilon2},
              {"clip_threshold", c.adafactor.clip_threshold},
              {"decay_rate", c.adafactor.decay_rate},
              {"beta1", c.adafactor.beta1.value_or(-1.0)},
              {"scale_parameter", int64_t{c.adafactor.scale_parameter}}};
    }};

// Returns the keys of --optim_args of an optimizer.
std::vector<OptimizerOption> options_of(const OptimizerRow& row) {
  std::vector<OptimizerOption> options;
  for (const OptimizerOption& option : optimizer_settings(row.kind).options) {
    if (row.frame != UpdateFrame::kEightBit || !option.is_of_storage) options.push_back(option);
  }
  return options;
}

[[noreturn]] void refuse_key(const std::string& key, const std::string& optim, const OptimizerRow& row) {
  std::string known;
  for (const OptimizerOption& option : options_of(row)) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", option.key);
  }
  throw_error(ErrorCode::kUsage, "--optim_args: '{}' is not an argument of {} ({}{})", key, optim,
              known.empty() ? "" : fmt::format("it has {}; ", known), row.other_arguments);
}

}  // namespace

#define PLIMSOLL_OPTIMIZER(kind, name, frame, settings, ...) &settings,
const OptimizerSettings& optimizer_settings(OptimizerKind kind) {
  static constexpr const OptimizerSettings* kSettings[] = {
#include "base/optimizer_table.inc"
  };
  return *kSettings[static_cast<size_t>(kind)];
}
#undef PLIMSOLL_OPTIMIZER

OptimizerConfig parse_optimizer(const std::string& optim,
                                const std::map<std::string, std::string>& optim_args) {
  const OptimizerName* name = find_optimizer_name(optim);
  const OptimizerRow* optimizer = name == nullptr ? nullptr : find_optimizer_row(name->runs);
  if (optimizer == nullptr)
    throw_error(ErrorCode::kUsage,
                "--optim {}: there is no such optimizer; plimsoll train --help optim lists them", optim);
  OptimizerConfig config{.kind = optimizer->kind};
  const std::vector<OptimizerOption> options = options_of(*optimizer);
  for (const auto& [key, text] : optim_args) {
    const auto option = std::ranges::find(options, std::string_view(key), &OptimizerOption::key);
    if (option == options.end()) refuse_key(key, optim, *optimizer);
    option->set(config, key, text);
  }
  if (optimizer->needs_momentum() && config.momentum == 0.0) {
    throw_error(ErrorCode::kUsage,
                "--optim {}: without momentum there is no state to keep in 8 bits; give --optim_args "
                "momentum=0.9, or --optim sgd",
                optim);
  }
  if (config.nesterov && config.momentum == 0.0) {
    throw_error(ErrorCode::kUsage,
                "--optim_args: nesterov needs momentum above 0, but momentum is 0; give momentum=0.9, or "
                "leave nesterov out");
  }
  if (config.adafactor.warmup_init && !config.adafactor.relative_step) {
    throw_error(ErrorCode::kUsage,
                "--optim_args: warmup_init needs relative_step=True, but relative_step is False; set "
                "relative_step=True, or leave warmup_init out");
  }
  return config;
}

}  // namespace plimsoll
