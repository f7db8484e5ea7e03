#include "plan/search/method_set.h"

#include <algorithm>
#include <bit>

#include "arguments/argument_table.h"
#include "arguments/value.h"
#include "base/check.h"
#include "base/optimizer_table.h"
#include "base/units.h"
#include "optim/optimizers.h"

namespace plimsoll {
namespace {

// The arguments and values that turn on a training method.
struct MethodSettings {
  std::vector<const Setting*> settings = {};
  Arguments values = {};
};

const MethodSettings& settings_of(const Method& method) {
  static const std::vector<MethodSettings> kTable = [] {
    std::vector<MethodSettings> table;
    for (const Method& each : method_table()) {
      const ParseResult parsed =
          parse_arguments(std::vector<std::string>(each.words.begin(), each.words.end()));
      MethodSettings& row = table.emplace_back();
      row.values = parsed.arguments;
      for (const std::string& name : parsed.explicitly_set) row.settings.push_back(find_setting(name));
    }
    return table;
  }();
  return kTable[static_cast<size_t>(&method - method_table().data())];
}

// Returns true for settings that a method may replace although the run already has them: the optimizer and the limit for gradient
// clipping.
bool is_replaceable(const Setting& setting) {
  return setting.info.name == "optim" || setting.info.name == "max_grad_norm";
}

void set_method(const Method& method, const RunSpec& run, Arguments& arguments) {
  const MethodSettings& method_settings = settings_of(method);
  for (const Setting* setting : method_settings.settings) {
    const std::string value = format_value(method_settings.values, *setting);
    if (!is_replaceable(*setting) && !is_default(run.arguments, *setting) &&
        format_value(run.arguments, *setting) != value) {
      throw_error(ErrorCode::kUsage, "--{} {}: the run already has --{} {}; give one of them",
                  setting->info.name, value, setting->info.name, format_value(run.arguments, *setting));
    }
    assign(arguments, method_settings.values, *setting);
  }
  if (method.name == "recompute_budget")
    arguments.recompute_budget = memory_limit_of(run.arguments, run.facts.device).value_or(0) / kMiB * kMiB;
}

// Returns true if the run stores optimizer states in host memory: --offload_optimizer is given, or the name of the optimizer is that of a
// paged one. In the latter case, a method that merely replaced the name would move the states back to the device.
bool stores_states_on_host(const RunSpec& run) {
  const OptimizerName* name = find_optimizer_name(run.arguments.optim);
  return run.facts.device.is_gpu() &&
         (offloads_optimizer(run.arguments) || (name != nullptr && name->is_paged));
}

// Returns the optimizer with the same update rule whose states are in fp32.
OptimizerKind family_of(OptimizerKind kind) {
  return optimizer_row(kind).family;
}

Effect effect_of_optimizer(const Method& method, const OptimizerConfig& own) {
  const Arguments& values = settings_of(method).values;
  const OptimizerConfig config = parse_optimizer(values.optim, values.optim_args);
  const bool is_same_update =
      family_of(config.kind) == family_of(own.kind) && (config.momentum > 0) == (own.momentum > 0);
  return is_same_update ? Effect::kRounding : Effect::kOtherModel;
}

size_t place_of(const Method& method) {
  const std::vector<Method>& table = method_table();
  const auto place = static_cast<size_t>(&method - table.data());
  PLIMSOLL_CHECK(place < table.size() && place < 64,
                 "the training method '{}' must be an entry of the table of methods with a position below "
                 "64, but is not",
                 method.name);
  return place;
}

const Method& method_named(std::string_view name) {
  const Method* method = find_method(name);
  PLIMSOLL_CHECK(method != nullptr, "the table of training methods has no method named '{}'", name);
  return *method;
}

uint64_t bit_of(std::string_view name) {
  return uint64_t{1} << place_of(method_named(name));
}

// A training method that includes another method: choosing the first implies the second.
struct Implied {
  uint64_t method = 0;
  uint64_t implied = 0;
};
const std::vector<Implied>& implied_methods() {
  static const std::vector<Implied> kImplied{{bit_of("bf16_gradients"), bit_of("bf16")},
                                             {bit_of("fp16_gradients"), bit_of("fp16")},
                                             {bit_of("fp8"), bit_of("bf16")},
                                             {bit_of("qlora"), bit_of("lora")}};
  return kImplied;
}

}  // namespace

MethodSet::MethodSet(const std::vector<const Method*>& methods) {
  for (const Method* method : methods) *this = with(*method);
}

bool MethodSet::has(const Method& method) const {
  return (bits_ >> place_of(method) & 1) != 0;
}

bool MethodSet::has(std::string_view name) const {
  return has(method_named(name));
}

bool MethodSet::has_kind(std::string_view kind) const {
  return std::ranges::any_of(method_table(),
                             [&](const Method& method) { return method.kind == kind && has(method); });
}

MethodSet MethodSet::with(const Method& method) const {
  MethodSet set = *this;
  set.bits_ |= uint64_t{1} << place_of(method);
  // Equal sets must have equal bits. Therefore paged_adamw_8bit is stored as the two methods that it combines.
  if (set.has("paged_adamw_8bit")) {
    set.bits_ &= ~bit_of("paged_adamw_8bit");
    set.bits_ |= bit_of("adamw_8bit") | bit_of("offload_optimizer");
  }
  return set;
}

MethodSet MethodSet::without_kind(std::string_view kind) const {
  MethodSet set;
  set.bits_ = bits_ & ~only_kind(kind).bits_;
  return set;
}

MethodSet MethodSet::only_kind(std::string_view kind) const {
  MethodSet set;
  for (const Method& method : method_table()) {
    if (method.kind == kind) set.bits_ |= bits_ & (uint64_t{1} << place_of(method));
  }
  return set;
}

std::vector<const Method*> MethodSet::methods() const {
  uint64_t bits = bits_;
  const uint64_t paged = bit_of("adamw_8bit") | bit_of("offload_optimizer");
  if ((bits & paged) == paged) bits = (bits & ~paged) | bit_of("paged_adamw_8bit");
  std::vector<const Method*> methods;
  for (const Method& method : method_table()) {
    if ((bits >> place_of(method) & 1) != 0) methods.push_back(&method);
  }
  return methods;
}

std::string MethodSet::text(std::string_view none) const {
  std::string text;
  for (const Method* method : methods()) text += (text.empty() ? "" : ", ") + std::string(method->name);
  return text.empty() ? std::string(none) : text;
}

uint64_t MethodSet::implied_bits() const {
  uint64_t bits = bits_;
  for (const Implied& each : implied_methods()) {
    if ((bits_ & each.method) != 0) bits |= each.implied;
  }
  return bits;
}

int MethodSet::size() const {
  return std::popcount(implied_bits());
}

bool MethodSet::is_less_than(const MethodSet& other) const {
  const uint64_t mine = implied_bits();
  const uint64_t its = other.implied_bits();
  return mine != its && (mine & its) == mine;
}

RunSpec with_methods(const RunSpec& run, const MethodSet& set) {
  PLIMSOLL_CHECK(run.facts.train, "training methods can only be applied to a run that trains");
  RunSpec changed = run;
  for (const Method* method : set.methods()) {
    set_method(*method, run, changed.arguments);
    if (method->kind == "optimizer" && stores_states_on_host(run))
      changed.arguments.offload_optimizer = "True";
  }
  static_cast<void>(resolve_arguments(changed.arguments));
  return changed;
}

std::optional<RunSpec> try_methods(const RunSpec& run, const MethodSet& set) {
  try {
    RunSpec changed = with_methods(run, set);
    static_cast<void>(request_of(changed));
    return changed;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUsage) throw;
    return std::nullopt;
  }
}

std::optional<PlanRequest> changed_request(const RunSpec& run, const MethodSet& set) {
  try {
    PlanRequest request = request_of(with_methods(run, set));
    if (request == request_of(run)) return std::nullopt;
    return request;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUsage) throw;
    return std::nullopt;
  }
}

Effect effect_of(const MethodSet& set, const PlanRequest& own) {
  Effect effect = Effect::kNone;
  const auto at_least = [&](Effect least) { effect = std::max(effect, least); };
  for (const Method& method : method_table()) {
    if (!set.has(method)) continue;
    if (method.kind == "optimizer") {
      at_least(effect_of_optimizer(method, own.update.optimizer));
      continue;
    }
    if (method.effect == MethodEffect::kOtherPath &&
        !(method.name == "optimizer_in_backward" && own.update.optimizer.max_grad_norm == 0.0)) {
      at_least(Effect::kOtherModel);
    }
    if (method.effect != MethodEffect::kRounding) continue;
    // With fp32 activations, recomputation does not change rounding. 16-bit copies of weights that are made at use change it only in bf16.
    if (method.kind == "recompute" && !own.precision.activation_dtype) continue;
    if (method.kind == "copies of weights" && own.precision.activation_dtype != DType::kBF16) continue;
    at_least(Effect::kRounding);
  }
  return effect;
}

std::vector<std::string> words_of(const MethodSet& set, const RunSpec& run) {
  std::vector<std::string> words;
  for (const Method* method : set.methods()) {
    words.insert(words.end(), method->words.begin(), method->words.end());
    // The arguments of the method optimizer_in_backward end with --max_grad_norm 0. These two words are left out if the run has this
    // value already.
    if (method->name == "optimizer_in_backward" && run.arguments.max_grad_norm == 0.0)
      words.resize(words.size() - 2);
    if (method->name == "recompute_budget") {
      const int64_t limit = memory_limit_of(run.arguments, run.facts.device).value_or(0);
      words.back() = fmt::format("{}MiB", limit / kMiB);
    }
    if (method->kind == "optimizer" && stores_states_on_host(run)) words.emplace_back("--offload_optimizer");
  }
  return words;
}

ExtentOfChange extent_of(const MethodSet& set, const RunSpec& run, const PlanRequest& own) {
  const std::vector<std::string> words = words_of(set, run);
  return {.effect = effect_of(set, own),
          .drops_master_weights = std::ranges::any_of(
              set.methods(), [](const Method* method) { return !method->keeps_master_weights; }),
          .multiplies_in_8_bits =
              std::ranges::any_of(set.methods(), [](const Method* method) { return method->name == "fp8"; }),
          .num_arguments =
              std::ranges::count_if(words, [](const std::string& word) { return word.starts_with("--"); })};
}

}  // namespace plimsoll
