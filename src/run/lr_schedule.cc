#include "run/lr_schedule.h"

#include <charconv>
#include <string>
#include <vector>

namespace plimsoll {
namespace {

std::vector<ScheduleOption> schedule_options(const KeyValues& arguments) {
  std::vector<ScheduleOption> options;
  for (const auto& [name, text] : arguments) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool is_number = error == std::errc() && end == text.data() + text.size();
    options.push_back({name, is_number ? std::variant<double, std::string>(number)
                                       : std::variant<double, std::string>(text)});
  }
  return options;
}

}  // namespace

RunSchedule run_schedule(const Arguments& arguments, int64_t max_steps) {
  const ScheduleKind kind = parse_schedule(arguments.lr_scheduler_type);
  const std::vector<ScheduleOption> options = schedule_options(arguments.lr_scheduler_kwargs);
  if (follows_metric(kind)) return make_metric_schedule(kind, options);
  return make_schedule(kind, arguments.learning_rate, num_warmup_steps(arguments, max_steps), max_steps,
                       options);
}

}  // namespace plimsoll
