// Reads lr_scheduler_kwargs: takes named values from a list, and then refuses the values that the schedule has not read. Internal to this
// folder. Thread-safe: distinct readers may be used from distinct threads. A reader refers to the list, which must outlive it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "optim/rate_schedule.h"

namespace plimsoll {

class ScheduleOptionReader {
 public:
  ScheduleOptionReader(ScheduleKind kind, std::span<const ScheduleOption> options)
      : kind_(kind), options_(options), taken_(options.size(), 0) {}

  // Returns the number that is the value of the option `name`, or nothing if the option is not given. Errors: kUsage if it is not a finite
  // number.
  std::optional<double> number(std::string_view name);
  // Returns the integer that is the value of the option `name`, or nothing if the option is not given. Errors: kUsage if it is not a finite
  // number, not an integer, or below `least`.
  std::optional<int64_t> whole(std::string_view name, int64_t least);
  // Returns the text that is the value of the option `name`, or nothing if the option is not given. Errors: kUsage if the text is not one
  // of `choices`; the message lists them.
  std::optional<std::string> text(std::string_view name, std::span<const std::string_view> choices);
  // Checks that all given options were read. Errors: kUsage for the first option that was not read; the message lists the options of this
  // kind of schedule.
  void refuse_the_rest() const;

 private:
  const ScheduleOption* take(std::string_view name);

  ScheduleKind kind_;
  std::span<const ScheduleOption> options_;
  std::vector<char> taken_;
  std::vector<std::string_view> known_;
};

}  // namespace plimsoll
