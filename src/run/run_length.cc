#include "run/run_length.h"

#include <algorithm>
#include <cmath>

#include "base/counted.h"
#include "io/ckpt/checkpoint.h"
#include "run/checkpoint_choice.h"
#include "run/lr_schedule.h"
#include "run/run_state.h"

namespace plimsoll {
namespace {

// What a run goes on from; nothing where it begins. What is wrong with the checkpoint is said when it is
// read.
std::optional<RunState> state_to_go_on_from(const Arguments& arguments, FileSystem& files) {
  const std::string path = resumable_checkpoint(files, arguments);
  if (path.empty()) return std::nullopt;
  try {
    return parse_run_state(open_checkpoint(files, path).run_state_json, path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Whether that is a place whose batches are not those that a run from the start makes: with another batch
// size, other data, or an epoch begun anew.
bool goes_on_elsewhere(const RunSetup& setup, const RunState& state) {
  const Arguments& arguments = setup.arguments;
  const Arguments& before = state.arguments;
  return arguments.ignore_data_skip || state.data_rows != setup.rows_per_epoch ||
         before.per_device_train_batch_size != arguments.per_device_train_batch_size ||
         before.gradient_accumulation_steps != arguments.gradient_accumulation_steps;
}

RunStart start_from(const RunState& state, const Arguments& arguments) {
  return {.step = state.step,
          .position = {state.position.epoch, arguments.ignore_data_skip ? 0 : state.position.index},
          .evaluation_is_due = state.evaluation_is_due};
}

// Room for any batch at all: the longest rows in one.
void plan_for_any_batch(RunSetup& setup) {
  BatchSize& largest = setup.train_census.largest;
  largest.tokens =
      largest_batch_tokens(setup.train->tokens.lengths(), setup.arguments.per_device_train_batch_size);
  largest.sequences = std::min<int64_t>(setup.train->num_rows(), setup.arguments.per_device_train_batch_size);
  setup.notes.push_back(
      fmt::format("the run goes on with other batches than those of its start: the plan has room for the "
                  "largest that the data can make, {} tokens",
                  largest.tokens));
}

// What an interval of steps or of batches that the run does not reach means. Evaluations and checkpoints come
// at the end in any case.
void note_unreached_intervals(RunSetup& setup) {
  const Arguments& a = setup.arguments;
  // A plan has no steps.
  if (setup.asked == RunPurpose::kPlan && !a.dry_run) return;
  const std::string steps = counted(setup.max_steps, "optimizer step");
  const auto is_beyond = [&](double interval) { return interval > static_cast<double>(setup.max_steps); };
  if (a.logging_strategy == "steps" && is_beyond(a.logging_steps)) {
    setup.notes.push_back(fmt::format(
        "--logging_steps {}{} is more than the run's {}: no loss of a step is logged or plotted",
        a.logging_steps, a.logging_steps == Arguments{}.logging_steps ? ", the default," : "", steps));
  }
  if (a.eval_strategy == "steps" && is_beyond(a.eval_steps.value_or(0.0))) {
    setup.notes.push_back(
        fmt::format("--eval_steps {} is more than the run's {}: the only evaluation is the one at its end",
                    *a.eval_steps, steps));
  }
  if (a.gradient_accumulation_steps > setup.batches_per_epoch) {
    setup.warnings.push_back(fmt::format(
        "--gradient_accumulation_steps {} is more than an epoch has: each step is made of {}, the "
        "epoch's, and ends with it",
        a.gradient_accumulation_steps,
        setup.batches_per_epoch == 1 ? "1 micro-batch"
                                     : fmt::format("{} micro-batches", setup.batches_per_epoch)));
  }
}

}  // namespace

RunLength run_length(const Arguments& arguments, const Sampler& sampler) {
  RunLength length{.rows_per_epoch = sampler.rows_per_epoch(),
                   .batches_per_epoch = sampler.batches_per_epoch()};
  const int64_t accumulation = arguments.gradient_accumulation_steps;
  length.steps_per_epoch = std::max<int64_t>(1, (length.batches_per_epoch + accumulation - 1) / accumulation);
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

void count_steps(RunSetup& setup, FileSystem& files) {
  const Arguments& arguments = setup.arguments;
  setup.sampler = {.strategy = parse_sampling_strategy(arguments.train_sampling_strategy),
                   .seed = static_cast<uint64_t>(arguments.data_seed.value_or(arguments.seed)),
                   .batch_size = arguments.per_device_train_batch_size,
                   .accumulation_steps = arguments.gradient_accumulation_steps,
                   .last_batch = arguments.dataloader_drop_last ? LastBatch::kDrop : LastBatch::kKeep};
  if (!setup.train) return;
  const Sampler sampler(setup.sampler, setup.train->tokens.lengths());
  const RunLength length = run_length(arguments, sampler);
  setup.rows_per_epoch = length.rows_per_epoch;
  setup.batches_per_epoch = length.batches_per_epoch;
  setup.steps_per_epoch = length.steps_per_epoch;
  setup.max_steps = length.max_steps;
  setup.num_epochs = length.num_epochs;
  note_unreached_intervals(setup);
  // What is wrong with --lr_scheduler_kwargs is said here, before a plan, not when the loop begins.
  static_cast<void>(run_schedule(arguments, setup.max_steps));
  const int64_t warmup = num_warmup_steps(arguments, setup.max_steps);
  if (warmup > 0 && setup.max_steps <= warmup) {
    setup.warnings.push_back(fmt::format("{} {} not above the {}: the learning rate never reaches {}",
                                         counted(setup.max_steps, "optimizer step"),
                                         setup.max_steps == 1 ? "is" : "are", counted(warmup, "warm-up step"),
                                         arguments.learning_rate));
  }
  const int64_t epochs = (setup.max_steps + setup.steps_per_epoch - 1) / setup.steps_per_epoch;
  setup.train_census = count_batches(sampler, epochs);
  // A row that one epoch's last batch drops comes in another's.
  setup.train_census.largest.longest = setup.train->tokens.longest();
  if (!setup.train_census.is_exact) {
    setup.notes.push_back(
        fmt::format("too many epochs to look at each batch: the plan has room for the largest that the data "
                    "can make, {} tokens",
                    setup.train_census.largest.tokens));
  }
  if (const std::optional<RunState> state = state_to_go_on_from(arguments, files)) {
    setup.start = start_from(*state, arguments);
    if (goes_on_elsewhere(setup, *state)) plan_for_any_batch(setup);
  }
}

}  // namespace plimsoll
