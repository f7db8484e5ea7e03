#include "optim/optimizers.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace plimsoll {
namespace {

template <int64_t kBytes>
int64_t state_bytes(const OptimizerConfig&) {
  return kBytes;
}

std::span<const OptimizerOption> no_options() {
  return {};
}

TakenSites one_site(const Graph&, const Parameter&) {
  return {};
}

std::vector<std::string> adamw_states(const OptimizerConfig&) {
  return {"adamw.m", "adamw.v"};
}
int64_t adamw_state_bytes(const OptimizerConfig& config) {
  return dtype_bytes(config.momentum_dtype) + dtype_bytes(config.variance_dtype);
}
std::vector<std::string> sgd_states(const OptimizerConfig& config) {
  return config.momentum > 0.0 ? std::vector<std::string>{"sgd.momentum"} : std::vector<std::string>{};
}
int64_t sgd_state_bytes(const OptimizerConfig& config) {
  return config.momentum > 0.0 ? 4 : 0;
}
std::vector<std::string> lion_states(const OptimizerConfig&) {
  return {"lion.m"};
}
std::vector<std::string> adagrad_states(const OptimizerConfig&) {
  return {"adagrad.sum"};
}
std::vector<std::string> adafactor_states(const OptimizerConfig& config) {
  std::vector<std::string> names{"adafactor.row", "adafactor.column", "adafactor.v"};
  if (config.adafactor.beta1) names.emplace_back("adafactor.m");
  return names;
}
// The names of fp32 states are listed too, because small tensors and embeddings keep their states in fp32.
std::vector<std::string> adamw_8bit_states(const OptimizerConfig&) {
  return {"adamw_8bit.m", "adamw_8bit.m.absmax", "adamw_8bit.v", "adamw_8bit.v.absmax", "adamw.m", "adamw.v"};
}
std::vector<std::string> lion_8bit_states(const OptimizerConfig&) {
  return {"lion_8bit.m", "lion_8bit.m.absmax", "lion.m"};
}
std::vector<std::string> sgd_8bit_states(const OptimizerConfig&) {
  return {"sgd_8bit.momentum", "sgd_8bit.momentum.absmax", "sgd.momentum"};
}
std::vector<std::string> adagrad_8bit_states(const OptimizerConfig&) {
  return {"adagrad_8bit.sum", "adagrad_8bit.sum.absmax", "adagrad.sum"};
}

constexpr std::string_view kBetas = "the betas are --adam_beta1 and --adam_beta2";
constexpr std::string_view kDecay = "the decay is --weight_decay";

constexpr StateRule kAdamwRules[] = {{"AdamW", "8 moments", 8, 2}};
constexpr StateRule kSgdRules[] = {{"SGD with momentum", "4 momentum", 4, 1}, {"SGD", "", 0, 0}};
constexpr StateRule kLionRules[] = {{"Lion", "4 momentum", 4, 1}};
constexpr StateRule kAdagradRules[] = {{"Adagrad", "4 sums", 4, 1}};
constexpr StateRule kAdafactorRules[] = {{"Adafactor", "", 0, 3},
                                         {"Adafactor with beta1", "4 momentum", 4, 4}};
constexpr StateRule kAdamw8BitRules[] = {{"8-bit AdamW", "2 moments", 2, 6}};
constexpr StateRule kLion8BitRules[] = {{"8-bit Lion", "1 momentum", 1, 3}};
constexpr StateRule kSgd8BitRules[] = {{"8-bit SGD with momentum", "1 momentum", 1, 3}};
constexpr StateRule kAdagrad8BitRules[] = {{"8-bit Adagrad", "1 sums", 1, 3}};

constexpr Optimizer kOptimizers[] = {
    {.kind = OptimizerKind::kAdamW,
     .name = "adamw",
     .label = "AdamW",
     .family = OptimizerKind::kAdamW,
     .takes_split_weights = true,
     .add = add_adamw,
     .states = adamw_states,
     .least_state_bytes = adamw_state_bytes,
     .sites = one_site,
     .options = adamw_options,
     .other_arguments = "others are --adam_beta1, --adam_beta2, --adam_epsilon",
     .rules = kAdamwRules},
    {.kind = OptimizerKind::kSgd,
     .name = "sgd",
     .label = "SGD",
     .family = OptimizerKind::kSgd,
     .has_optional_momentum = true,
     .add = add_sgd,
     .states = sgd_states,
     .least_state_bytes = sgd_state_bytes,
     .sites = one_site,
     .options = sgd_options,
     .other_arguments = kDecay,
     .rules = kSgdRules},
    {.kind = OptimizerKind::kLion,
     .name = "lion",
     .label = "Lion",
     .family = OptimizerKind::kLion,
     .add = add_lion,
     .states = lion_states,
     .least_state_bytes = state_bytes<4>,
     .sites = one_site,
     .options = no_options,
     .other_arguments = kBetas,
     .rules = kLionRules},
    {.kind = OptimizerKind::kAdagrad,
     .name = "adagrad",
     .label = "Adagrad",
     .family = OptimizerKind::kAdagrad,
     .add = add_adagrad,
     .states = adagrad_states,
     .least_state_bytes = state_bytes<4>,
     .sites = one_site,
     .options = adagrad_options,
     .other_arguments = kDecay,
     .rules = kAdagradRules},
    {.kind = OptimizerKind::kAdafactor,
     .name = "adafactor",
     .label = "Adafactor",
     .family = OptimizerKind::kAdafactor,
     .add = add_adafactor,
     .states = adafactor_states,
     .least_state_bytes = state_bytes<0>,
     .sites = adafactor_sites,
     .options = adafactor_options,
     .other_arguments = kDecay,
     .rules = kAdafactorRules},
    {.kind = OptimizerKind::kAdamW8Bit,
     .name = "adamw_8bit",
     .label = "8-bit AdamW",
     .family = OptimizerKind::kAdamW,
     .add = add_adamw_8bit,
     .states = adamw_8bit_states,
     .least_state_bytes = state_bytes<2>,
     .sites = eight_bit_sites,
     .options = no_options,
     .other_arguments = "AdamW's are --adam_beta1, --adam_beta2, --adam_epsilon",
     .rules = kAdamw8BitRules},
    {.kind = OptimizerKind::kLion8Bit,
     .name = "lion_8bit",
     .label = "8-bit Lion",
     .family = OptimizerKind::kLion,
     .add = add_lion_8bit,
     .states = lion_8bit_states,
     .least_state_bytes = state_bytes<1>,
     .sites = eight_bit_sites,
     .options = no_options,
     .other_arguments = kBetas,
     .rules = kLion8BitRules},
    {.kind = OptimizerKind::kSgd8Bit,
     .name = "sgd_8bit",
     .label = "8-bit SGD",
     .family = OptimizerKind::kSgd,
     .has_optional_momentum = true,
     .needs_momentum = true,
     .add = add_sgd_8bit,
     .states = sgd_8bit_states,
     .least_state_bytes = state_bytes<1>,
     .sites = eight_bit_sites,
     .options = sgd_options,
     .other_arguments = kDecay,
     .rules = kSgd8BitRules},
    {.kind = OptimizerKind::kAdagrad8Bit,
     .name = "adagrad_8bit",
     .label = "8-bit Adagrad",
     .family = OptimizerKind::kAdagrad,
     .add = add_adagrad_8bit,
     .states = adagrad_8bit_states,
     .least_state_bytes = state_bytes<1>,
     .sites = eight_bit_sites,
     .options = adagrad_options,
     .other_arguments = kDecay,
     .rules = kAdagrad8BitRules}};

}  // namespace

std::span<const Optimizer> optimizers() {
  return kOptimizers;
}

const Optimizer& optimizer_of_kind(OptimizerKind kind) {
  const auto row = std::ranges::find(kOptimizers, kind, &Optimizer::kind);
  PLIMSOLL_CHECK(row != std::end(kOptimizers), "optimizer {} has no row", static_cast<int>(kind));
  return *row;
}

const Optimizer* find_optimizer(std::string_view name) {
  const auto row = std::ranges::find(kOptimizers, name, &Optimizer::name);
  return row == std::end(kOptimizers) ? nullptr : &*row;
}

std::string describe_optimizer(const OptimizerConfig& config) {
  const Optimizer& optimizer = optimizer_of_kind(config.kind);
  const bool has_momentum =
      optimizer.needs_momentum || (optimizer.has_optional_momentum && config.momentum > 0.0);
  if (!has_momentum) return std::string(optimizer.label);
  return fmt::format("{} with momentum {:g}", optimizer.label, config.momentum);
}

std::string_view optimizer_kind_name(OptimizerKind kind) {
  return optimizer_of_kind(kind).name;
}

std::vector<std::string> optimizer_state_names(const OptimizerConfig& config) {
  return optimizer_of_kind(config.kind).states(config);
}

bool takes_split_weights(const OptimizerConfig& config) {
  return optimizer_of_kind(config.kind).takes_split_weights;
}

}  // namespace plimsoll
