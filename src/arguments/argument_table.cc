#include "arguments/argument_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/edit_distance.h"
#include "base/optimizer_table.h"
#include "base/problem_type.h"

namespace plimsoll {

namespace {

template <typename T>
std::string_view type_name() {
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::optional<bool>>) return "flag";
  if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, std::optional<int64_t>>) return "integer";
  if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::optional<double>>) return "number";
  if constexpr (std::is_same_v<T, std::string>) return "text";
  if constexpr (std::is_same_v<T, StringList>) return "list";
  return "key=value";
}

// Returns the candidate with the smallest edit distance, or an empty string if the distance is more than a third of the
// length of the word.
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates) {
  constexpr size_t kLongestName = 64;
  if (word.size() > kLongestName) return {};
  std::string_view best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  if (word.size() < 4) best_distance = 2;
  for (std::string_view candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string question(std::string_view best) {
  return best.empty() ? std::string{} : fmt::format(", did you mean '{}'?", best);
}

// Names of settings in other training programs. They are not accepted, but a message suggests the equivalent setting.
constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kForeignNames = {{
    {"lr", "learning_rate"},
    {"batch_size", "per_device_train_batch_size"},
    {"micro_batch_size", "per_device_train_batch_size"},
    {"eval_batch_size", "per_device_eval_batch_size"},
    {"epochs", "num_train_epochs"},
    {"num_epochs", "num_train_epochs"},
    {"steps", "max_steps"},
    {"lr_scheduler", "lr_scheduler_type"},
    {"scheduler", "lr_scheduler_type"},
    {"optimizer", "optim"},
    {"model", "model_name_or_path"},
    {"max_length", "max_seq_length"},
    {"sequence_len", "max_seq_length"},
    {"grad_accum", "gradient_accumulation_steps"},
    {"memory", "memory_limit"},
    {"threads", "num_threads"},
}};

// Returns the help of --optim, which lists the usual name of each optimizer.
std::string_view optimizer_help() {
  static const std::string kHelp = [] {
    std::vector<std::string_view> names;
    for (const OptimizerRow& row : optimizer_rows()) names.push_back(row.names.front());
    return fmt::format("Optimizer: {} or a synonym of one.", fmt::join(names, ", "));
  }();
  return kHelp;
}

}  // namespace

bool Setting::is_flag() const {
  return std::holds_alternative<bool Arguments::*>(member) ||
         std::holds_alternative<std::optional<bool> Arguments::*>(member);
}

const std::vector<Setting>& settings() {
  static const std::vector<Setting> table = {
#define PLIMSOLL_ARGUMENT(group, origin, name, type, default_value, unit, range, status, help, note) \
  Setting{ArgumentInfo{#name,                                                                        \
                       type_name<type>(),                                                            \
                       {},                                                                           \
                       unit,                                                                         \
                       range,                                                                        \
                       ArgumentGroup::group,                                                         \
                       ArgumentOrigin::origin,                                                       \
                       ArgumentStatus::status,                                                       \
                       help,                                                                         \
                       note},                                                                        \
          &Arguments::name},
#include "plimsoll/arguments.inc"
  };
  return table;
}

const Setting* find_setting(std::string_view name) {
  static const std::unordered_map<std::string_view, const Setting*> by_name = [] {
    std::unordered_map<std::string_view, const Setting*> map;
    for (const Setting& setting : settings()) {
      PLIMSOLL_CHECK(map.emplace(setting.info.name, &setting).second, "setting {} is declared twice",
                     setting.info.name);
    }
    return map;
  }();
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

const std::vector<OldName>& old_names() {
  static const std::vector<OldName> table = {
#define PLIMSOLL_OLD_NAME(name, replacement, true_value, is_flag, note) \
  OldName{#name, replacement, true_value, is_flag, note},
#define PLIMSOLL_PEFT_NAME(name, replacement) OldName{#name, replacement, "", false, "", NameKind::kPeft},
#include "arguments/old_names.inc"
  };
  return table;
}

const OldName* find_old_name(std::string_view name) {
  const auto found = std::ranges::find(old_names(), name, &OldName::name);
  return found == old_names().end() ? nullptr : &*found;
}

const std::vector<OldValue>& old_values() {
  static const std::vector<OldValue> table = {{"optim", "adamw_hf", "adamw_torch"}};
  return table;
}

const OldValue* find_old_value(std::string_view setting, std::string_view value) {
  const auto found = std::ranges::find_if(
      old_values(), [&](const OldValue& old) { return old.setting == setting && old.value == value; });
  return found == old_values().end() ? nullptr : &*found;
}

std::vector<std::string_view> split_choices(std::string_view choices) {
  std::vector<std::string_view> words;
  while (!choices.empty()) {
    const size_t end = std::min(choices.find('|'), choices.size());
    words.push_back(choices.substr(0, end));
    choices.remove_prefix(std::min(end + 1, choices.size()));
  }
  return words;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& candidates) {
  return question(nearest(word, candidates));
}

std::string did_you_mean_setting(std::string_view name) {
  for (const auto& [foreign, ours] : kForeignNames) {
    if (name == foreign) return question(ours);
  }
  std::vector<std::string_view> names;
  for (const Setting& setting : settings()) names.push_back(setting.info.name);
  if (const std::string_view best = nearest(name, names); !best.empty()) return question(best);
  // If the given name is a part of a longer name, the edit distance is large, but the longer name is probably meant.
  if (name.size() >= 4) {
    for (std::string_view candidate : names) {
      if (candidate.find(name) != std::string_view::npos) return question(candidate);
    }
  }
  return {};
}

std::string_view to_string(ArgumentGroup group) {
  switch (group) {
    case ArgumentGroup::kModel:
      return "model";
    case ArgumentGroup::kData:
      return "data";
    case ArgumentGroup::kRun:
      return "run";
    case ArgumentGroup::kSchedule:
      return "schedule";
    case ArgumentGroup::kOptimizer:
      return "optimizer";
    case ArgumentGroup::kAdapter:
      return "adapter";
    case ArgumentGroup::kPrecision:
      return "precision";
    case ArgumentGroup::kMemory:
      return "memory";
    case ArgumentGroup::kLoader:
      return "loader";
    case ArgumentGroup::kLogging:
      return "logging";
    case ArgumentGroup::kEvaluation:
      return "evaluation";
    case ArgumentGroup::kGeneration:
      return "generation";
    case ArgumentGroup::kSaving:
      return "saving";
    case ArgumentGroup::kHub:
      return "hub";
    case ArgumentGroup::kDistributed:
      return "distributed";
  }
  return "";
}

std::string_view to_string(ArgumentOrigin origin) {
  switch (origin) {
    case ArgumentOrigin::kTrainer:
      return "TrainingArguments";
    case ArgumentOrigin::kScript:
      return "example scripts";
    case ArgumentOrigin::kPeft:
      return "PEFT";
    case ArgumentOrigin::kPlimsoll:
      return "Plimsoll";
  }
  return "";
}

std::string_view to_string(ArgumentStatus status) {
  switch (status) {
    case ArgumentStatus::kImplemented:
      return "implemented";
    case ArgumentStatus::kNoEffect:
      return "no effect";
    case ArgumentStatus::kRefused:
      return "refused";
  }
  return "";
}

}  // namespace plimsoll
