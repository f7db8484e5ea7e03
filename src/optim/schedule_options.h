// Reading of lr_scheduler_kwargs: takes named values out of a list and refuses what is left. Internal to this
// folder. Thread-safe: distinct readers may be used from distinct threads. Borrows the list.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "optim/schedule.h"

namespace plimsoll {

class ScheduleOptionReader {
 public:
  ScheduleOptionReader(ScheduleKind kind, std::span<const ScheduleOption> options)
      : kind_(kind), options_(options), taken_(options.size(), 0) {}

  // The number of this name, nothing if it is not given. Errors: kUsage if it is not a finite number.
  std::optional<double> number(std::string_view name);
  // The same; further errors: kUsage if it is not a whole number or below `least`.
  std::optional<int64_t> whole(std::string_view name, int64_t least);
  // The text of this name. Errors: kUsage if it is not one of the choices; the message lists them.
  std::optional<std::string> text(std::string_view name, std::span<const std::string_view> choices);
  // Errors: kUsage for the first option that nothing asked for; the message lists what the kind has.
  void refuse_the_rest() const;

 private:
  const ScheduleOption* take(std::string_view name);

  ScheduleKind kind_;
  std::span<const ScheduleOption> options_;
  std::vector<char> taken_;
  std::vector<std::string_view> known_;
};

}  // namespace plimsoll
