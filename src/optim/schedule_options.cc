#include "optim/schedule_options.h"

#include <cmath>

#include "base/check.h"

namespace plimsoll {

const ScheduleOption* ScheduleOptionReader::take(std::string_view name) {
  known_.push_back(name);
  const ScheduleOption* found = nullptr;
  for (size_t i = 0; i < options_.size(); ++i) {
    if (options_[i].name != name) continue;
    taken_[i] = 1;
    found = &options_[i];
  }
  return found;
}

std::optional<double> ScheduleOptionReader::number(std::string_view name) {
  const ScheduleOption* option = take(name);
  if (option == nullptr) return {};
  const double* value = std::get_if<double>(&option->value);
  if (value == nullptr || !std::isfinite(*value)) {
    throw_error(ErrorCode::kUsage, "--lr_scheduler_kwargs: {} of schedule '{}' is {}; it must be a number",
                name, schedule_name(kind_),
                value == nullptr ? "'" + std::get<std::string>(option->value) + "'" : "not finite");
  }
  return *value;
}

std::optional<int64_t> ScheduleOptionReader::whole(std::string_view name, int64_t least) {
  const std::optional<double> value = number(name);
  if (!value) return {};
  if (*value != std::floor(*value) || *value < static_cast<double>(least) || *value > 0x1p53) {
    throw_error(ErrorCode::kUsage,
                "--lr_scheduler_kwargs: {} of schedule '{}' is {}; it must be a whole number of at least {}",
                name, schedule_name(kind_), *value, least);
  }
  return static_cast<int64_t>(*value);
}

std::optional<std::string> ScheduleOptionReader::text(std::string_view name,
                                                      std::span<const std::string_view> choices) {
  const ScheduleOption* option = take(name);
  if (option == nullptr) return {};
  const std::string* value = std::get_if<std::string>(&option->value);
  for (const std::string_view choice : choices) {
    if (value != nullptr && *value == choice) return *value;
  }
  throw_error(ErrorCode::kUsage, "--lr_scheduler_kwargs: {} of schedule '{}' is {}; choose one of: {}", name,
              schedule_name(kind_), value == nullptr ? "a number" : "'" + *value + "'",
              fmt::join(choices, ", "));
}

void ScheduleOptionReader::refuse_the_rest() const {
  for (size_t i = 0; i < options_.size(); ++i) {
    if (taken_[i] != 0) continue;
    throw_error(ErrorCode::kUsage, "--lr_scheduler_kwargs: schedule '{}' has no option '{}'; it has: {}",
                schedule_name(kind_), options_[i].name,
                known_.empty() ? "none" : fmt::format("{}", fmt::join(known_, ", ")));
  }
}

}  // namespace plimsoll
