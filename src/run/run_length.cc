#include "run/run_length.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/units.h"
#include "io/ckpt/checkpoint.h"
#include "run/run_state.h"
#include "run/stored_weights.h"

namespace plimsoll {
namespace {

// Returns the state from which the run resumes, or nothing if it begins with its first step. A damaged checkpoint is ignored here,
// because an error is reported when it is read.
std::optional<RunState> state_to_resume(const Arguments& arguments, FileSystem& files) {
  const std::string path = resumable_checkpoint(files, arguments);
  if (path.empty()) return std::nullopt;
  try {
    return parse_run_state(open_checkpoint(files, path).run_state_json, path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Returns true if the batches after the checkpoint differ from those that an uninterrupted run would have, because the batch size, the
// number of batches per step or the data has changed, or because --ignore_data_skip makes the run start its epoch again.
bool has_other_batches(const Arguments& arguments, const RunLength& length, const RunState& state) {
  const Arguments& before = state.arguments;
  return arguments.ignore_data_skip || state.data.rows != length.rows_per_epoch ||
         before.per_device_train_batch_size != arguments.per_device_train_batch_size ||
         batches_per_step(before) != batches_per_step(arguments);
}

RunStart start_from(const RunState& state, const Arguments& arguments) {
  return {.step = state.step,
          .position = {state.position.epoch, arguments.ignore_data_skip ? 0 : state.position.index},
          .evaluation_is_due = state.evaluation_is_due};
}

// Sets `largest` to the largest batch that the data can make, which consists of the longest rows. It is for a run that resumes with other
// batches than those of its start.
void plan_for_any_batch(const Sampler& sampler, BatchSize& largest, Diagnostics& diagnostics) {
  largest.tokens = largest_batch_tokens(sampler.lengths(), sampler.options().batch_size);
  largest.sequences = largest_batch_sequences(sampler);
  diagnostics.note(
      fmt::format("the run resumes with batches that differ from those of its start: the plan has room for "
                  "the largest batch that the data can make, {} tokens",
                  largest.tokens));
}

// Adds notes about logging and evaluation at intervals that are longer than the run, which in any case evaluates at its end, and a warning
// if a step accumulates more micro-batches than an epoch has.
void note_unreached_intervals(const Arguments& a, const RunLength& length, Diagnostics& diagnostics) {
  const std::string steps = counted(length.max_steps, "optimizer step");
  const auto is_beyond = [&](double interval) { return interval > static_cast<double>(length.max_steps); };
  if (a.logging_strategy == "steps" && is_beyond(logging_interval(a))) {
    diagnostics.note(
        fmt::format("--logging_steps {} is more than the run's {}: no training loss is logged or plotted; "
                    "choose a smaller number",
                    logging_interval(a), steps));
  }
  if (a.eval_strategy == "steps" && is_beyond(a.eval_steps.value_or(0.0))) {
    diagnostics.note(
        fmt::format("--eval_steps {} is more than the run's {}: the only evaluation is the one at its end",
                    *a.eval_steps, steps));
  }
  if (a.gradient_accumulation_steps > length.batches_per_epoch) {
    diagnostics.warn(fmt::format(
        "--gradient_accumulation_steps {} exceeds the number of micro-batches of an epoch: each step "
        "consists of {} and ends with the epoch",
        a.gradient_accumulation_steps,
        length.batches_per_epoch == 1 ? "1 micro-batch"
                                      : fmt::format("{} micro-batches", length.batches_per_epoch)));
  }
}

void warn_of_long_warmup(const Arguments& arguments, const RunLength& length, Diagnostics& diagnostics) {
  const int64_t warmup = num_warmup_steps(arguments, length.max_steps);
  if (warmup <= 0 || length.max_steps > warmup) return;
  diagnostics.warn(fmt::format(
      "{} {} not more than the {}: the learning rate never reaches {}; reduce the warm-up or train longer",
      counted(length.max_steps, "optimizer step"), length.max_steps == 1 ? "is" : "are",
      counted(warmup, "warm-up step"), arguments.learning_rate));
}

}  // namespace

RunLength run_length(const Arguments& arguments, const Sampler& sampler) {
  RunLength length{.rows_per_epoch = sampler.rows_per_epoch(),
                   .batches_per_epoch = sampler.batches_per_epoch()};
  const int64_t per_step = batches_per_step(arguments);
  length.steps_per_epoch = std::max<int64_t>(1, (length.batches_per_epoch + per_step - 1) / per_step);
  if (arguments.max_steps > 0) {
    length.max_steps = arguments.max_steps;
    length.num_epochs =
        static_cast<double>(arguments.max_steps) / static_cast<double>(length.steps_per_epoch);
  } else {
    length.max_steps = static_cast<int64_t>(
        std::ceil(arguments.num_train_epochs * static_cast<double>(length.steps_per_epoch)));
    length.num_epochs = arguments.num_train_epochs;
  }
  return length;
}

SamplerOptions sampler_options(const Arguments& arguments) {
  return {.strategy = parse_sampling_strategy(arguments.train_sampling_strategy),
          .seed = static_cast<uint64_t>(arguments.data_seed.value_or(arguments.seed)),
          .batch_size = arguments.per_device_train_batch_size,
          .accumulation_steps = batches_per_step(arguments),
          .last_batch = arguments.dataloader_drop_last ? LastBatch::kDrop : LastBatch::kKeep};
}

RunSteps count_steps(const Arguments& arguments, RunPurpose purpose, const Dataset& train, FileSystem& files,
                     Diagnostics& diagnostics) {
  const Sampler sampler(sampler_options(arguments), train.row_lengths(), train.row_sequences());
  RunSteps steps{.length = run_length(arguments, sampler)};
  const RunLength& length = steps.length;
  // The command `plan` runs no steps, so notes about intervals do not apply to it. They do apply to --dry_run, which prints the plan of a
  // run that would run steps.
  if (purpose != RunPurpose::kPlan || arguments.dry_run)
    note_unreached_intervals(arguments, length, diagnostics);
  // Checks --lr_scheduler_kwargs here, so that a wrong value is reported before a plan is made and not when training begins.
  static_cast<void>(run_schedule(arguments, length.max_steps));
  warn_of_long_warmup(arguments, length, diagnostics);
  const int64_t epochs = (length.max_steps + length.steps_per_epoch - 1) / length.steps_per_epoch;
  steps.census = count_batches(sampler, epochs);
  // The examined batches may not contain the longest row, because the last batch of an epoch may be dropped.
  steps.census.largest.longest = train.tokens.longest();
  if (!steps.census.is_exact) {
    diagnostics.note(
        fmt::format("the run has too many epochs to look at each batch: the plan has room for the largest "
                    "batch that the data can make, {} tokens",
                    steps.census.largest.tokens));
  }
  if (const std::optional<RunState> state = state_to_resume(arguments, files)) {
    steps.start = start_from(*state, arguments);
    if (has_other_batches(arguments, length, *state))
      plan_for_any_batch(sampler, steps.census.largest, diagnostics);
  }
  return steps;
}

}  // namespace plimsoll
