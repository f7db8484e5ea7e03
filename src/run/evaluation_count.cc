#include "run/run_length.h"

#include <algorithm>
#include <cmath>

namespace plimsoll {
namespace {

int64_t rounded_up(int64_t n, int64_t by) {
  return (n + by - 1) / by;
}

// Returns the first step or epoch at which --eval_delay allows an evaluation, or `most` + 1 if this is after `most`.
int64_t first_after_delay(double delay, int64_t most) {
  return delay > static_cast<double>(most) ? most + 1 : static_cast<int64_t>(std::ceil(delay));
}

// Counts the evaluations that take place every --eval_steps steps, and the one after the last step.
int64_t by_steps(const Arguments& arguments, int64_t max_steps, int64_t step) {
  const int64_t first = std::max(step + 1, first_after_delay(arguments.eval_delay, max_steps));
  if (first > max_steps) return 0;
  const int64_t interval = interval_steps(arguments.eval_steps.value_or(0), max_steps);
  if (interval <= 0) return 1;
  const int64_t in_turn = max_steps / interval - (first - 1) / interval;
  return in_turn + (max_steps % interval == 0 ? 0 : 1);
}

// Counts the evaluations that take place at the end of each epoch, and the one after the last step. --eval_delay is compared with the
// number of epochs done, which is a fraction if the last step is within an epoch.
int64_t by_epochs(const Arguments& arguments, const RunLength& length, const RunStart& start) {
  DataPosition position = start.position;
  if (position.index >= length.rows_per_epoch) position = {position.epoch + 1, 0};
  const int64_t batch = arguments.per_device_train_batch_size;
  const int64_t per_step = batches_per_step(arguments);
  const int64_t batches_left = rounded_up(length.rows_per_epoch - position.index, batch);
  const int64_t first_end = start.step + rounded_up(batches_left, per_step);
  const bool has_end = first_end <= length.max_steps;
  const int64_t num_ends = has_end ? (length.max_steps - first_end) / length.steps_per_epoch + 1 : 0;
  const int64_t last_done = position.epoch + num_ends;
  const int64_t first_done = std::max(position.epoch + 1, first_after_delay(arguments.eval_delay, last_done));
  const int64_t at_ends = std::max<int64_t>(0, last_done - first_done + 1);
  const int64_t steps_beyond =
      has_end ? (length.max_steps - first_end) % length.steps_per_epoch : length.max_steps - start.step;
  if (steps_beyond <= 0) return at_ends;
  const int64_t index = (has_end ? 0 : position.index) + (steps_beyond * per_step - 1) * batch;
  const double epoch = static_cast<double>(last_done) +
                       static_cast<double>(index / batch + 1) / static_cast<double>(length.batches_per_epoch);
  return at_ends + (epoch < arguments.eval_delay ? 0 : 1);
}

}  // namespace

int64_t num_evaluations(const Arguments& arguments, const RunLength& length, const RunStart& start) {
  int64_t count = start.evaluation_is_due ? 1 : 0;
  if (start.step >= length.max_steps) return count;
  if (arguments.eval_on_start && start.step == 0) ++count;
  if (arguments.eval_strategy == "steps") count += by_steps(arguments, length.max_steps, start.step);
  if (arguments.eval_strategy == "epoch") count += by_epochs(arguments, length, start);
  return count;
}

}  // namespace plimsoll
