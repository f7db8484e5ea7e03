#include "run/run_length.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
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

std::string describe_accumulated_batch(const Arguments& arguments, int64_t max_steps) {
  const int64_t times = arguments.gradient_accumulation_steps;
  if (times <= 1) return "";
  const int64_t batch = arguments.per_device_train_batch_size;
  std::string text = fmt::format("--gradient_accumulation_steps {} makes the effective batch {} ({} x {})",
                                 times, times * batch, times, batch);
  if (max_steps > 0 && arguments.max_steps <= 0)
    text += fmt::format(", so the data gives only {} updates", max_steps);
  text += fmt::format(
      ". A --learning_rate that suits batches of {} is usually too low: multiply it by {:.2g} (the "
      "square root) with Adam and its "
      "relatives, by up to {} with SGD",
      batch, std::sqrt(static_cast<double>(times)), times);
  const bool is_share = arguments.warmup_steps > 0 && arguments.warmup_steps < 1;
  const int64_t warmup = num_warmup_steps(arguments, max_steps);
  if (max_steps > 0 && warmup >= max_steps && !is_share) {
    text += fmt::format("; the warm-up of {} steps is longer than the run, which never reaches the full rate",
                        warmup);
  } else if (max_steps > 0 && warmup > 0 && !is_share) {
    text += fmt::format("; the warm-up of {} steps is now {:.0f} % of the run", warmup,
                        100.0 * static_cast<double>(warmup) / static_cast<double>(max_steps));
  } else if (arguments.warmup_steps == 0) {
    text += "; with a higher rate use a warm-up, --warmup_steps 0.06 for example";
  }
  return text;
}

}  // namespace plimsoll
