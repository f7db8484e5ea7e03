#include "plimsoll/fit_ranks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "api/searched_run.h"
#include "base/check.h"
#include "base/file.h"
#include "base/units.h"
#include "hardware/rank_links.h"
#include "plan/search/rank_search.h"
#include "run/device_choice.h"
#include "run/run_setup.h"
#include "show/report/plan_table.h"
#include "show/report/rank_fit_table.h"

namespace plimsoll {
namespace {

constexpr int64_t kMostGpus = 65536;
constexpr int64_t kGpusOfMachine = 8;

// Returns the number of sequences per optimizer step of all GPUs. Errors: kUsage if it exceeds kMostEffective per GPU.
int64_t effective_batch_of(const RankFitOptions& options, const Arguments& base) {
  const int64_t most = kMostEffective * options.gpus;
  const auto is_possible = [&](int64_t sequences) { return sequences >= 1 && sequences <= most; };
  if (options.effective_batch_size) {
    if (is_possible(*options.effective_batch_size)) return *options.effective_batch_size;
    throw_error(ErrorCode::kUsage, "--effective_batch_size {}: expected 1 to {} sequences for {}",
                *options.effective_batch_size, most, counted(options.gpus, "GPU"));
  }
  if (base.train_batch_size) {
    if (is_possible(*base.train_batch_size)) return *base.train_batch_size;
    throw_error(ErrorCode::kUsage, "--train_batch_size {}: expected 1 to {} sequences for {}",
                *base.train_batch_size, most, counted(options.gpus, "GPU"));
  }
  // Both settings are below 2^31, so an int64_t can represent their product.
  const int64_t of_one_gpu = base.per_device_train_batch_size * base.gradient_accumulation_steps;
  if (of_one_gpu <= kMostEffective) return of_one_gpu * options.gpus;
  throw_error(ErrorCode::kUsage,
              "--per_device_train_batch_size {} x --gradient_accumulation_steps {}: these are {} sequences "
              "per step on each GPU, "
              "but at most {} are possible; give fewer, or give the sequences of all GPUs together with "
              "--effective_batch_size",
              base.per_device_train_batch_size, base.gradient_accumulation_steps, of_one_gpu, kMostEffective);
}

RankQuestion question_of(const RankFitOptions& options, const Arguments& base) {
  RankQuestion question{.ranks = options.gpus};
  if (options.gpus < 1 || options.gpus > kMostGpus)
    throw_error(ErrorCode::kUsage, "--gpus {}: expected a number from 1 to {}", options.gpus, kMostGpus);
  question.ranks_per_machine = options.gpus_per_machine > 0 ? options.gpus_per_machine
                               : base.nproc_per_node > 1    ? base.nproc_per_node
                                                            : std::min(options.gpus, kGpusOfMachine);
  if (question.ranks % question.ranks_per_machine != 0) {
    throw_error(ErrorCode::kUsage,
                "--gpus {}: the number must be a multiple of {}, the number of GPUs per machine; give "
                "another number, or state the GPUs per machine with --nproc_per_node",
                question.ranks, question.ranks_per_machine);
  }
  question.effective_batch = effective_batch_of(options, base);
  question.num_threads = base.num_threads > 0 ? static_cast<int>(base.num_threads) : available_threads();
  return question;
}

// Returns the commands that start a run. On one machine, `plimsoll train` starts the processes itself; on several
// machines, torchrun or srun does.
std::vector<std::string> commands_of(const RankQuestion& question, const std::string& words) {
  const int64_t local = question.ranks_per_machine;
  const int64_t machines = question.ranks / local;
  if (machines == 1) return {fmt::format("plimsoll train --nproc_per_node {} {}", local, words)};
  return {
      fmt::format("torchrun --nnodes {} --nproc_per_node {} --rdzv_backend c10d --rdzv_endpoint HOST:29500 "
                  "--no_python plimsoll train {}",
                  machines, local, words),
      fmt::format("srun --nodes {} --ntasks-per-node {} --gpus-per-node {} plimsoll train {}", machines,
                  local, local, words)};
}

RankFitRow row_of(const RankAnswer& answer, const RankQuestion& question, const std::string& words) {
  const auto bytes = [&](Purpose purpose) { return answer.by_purpose[index_of(purpose)]; };
  return {.tensor_size = answer.division.tensor_size,
          .sequence_parallel = answer.division.sequence_parallel,
          .context_size = answer.division.context_size,
          .pipeline_size = answer.division.pipeline_size,
          .data_size = answer.data_size,
          .zero_stage = static_cast<int64_t>(answer.division.zero_stage),
          .recompute = std::string(recompute_policy_name(answer.recompute)),
          .micro_batch = answer.micro_batch,
          .accumulation = answer.accumulation,
          .bytes = answer.total_bytes,
          .weight_bytes = bytes(Purpose::kWeights),
          .state_bytes = bytes(Purpose::kOptimizerStates),
          .gradient_bytes = bytes(Purpose::kGradients),
          .activation_bytes = bytes(Purpose::kSaved) + bytes(Purpose::kTemporary),
          .communication_bytes = bytes(Purpose::kFunctionality) + answer.communicator_bytes,
          .samples_per_s = answer.samples_per_s,
          .step_ms = answer.step_ms,
          .exposed_ms = answer.exposed_ms,
          .commands = commands_of(question, fmt::format("{} {}", words, fmt::join(answer.arguments, " ")))};
}

// Returns the text without its digits, so that two reasons which differ only in numbers become equal.
std::string without_numbers(std::string text) {
  std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
  return text;
}

// Converts the refusals of the search. Refusals whose reasons differ only in numbers are joined to one, with the first
// reason.
std::vector<RankFitRefusal> refusals_of(const std::vector<RankRefusal>& refused) {
  constexpr int kMostNamed = 3;
  std::vector<RankFitRefusal> refusals;
  std::vector<int> counts;
  for (const RankRefusal& each : refused) {
    const auto it = std::ranges::find_if(refusals, [&](const RankFitRefusal& other) {
      return without_numbers(other.reason) == without_numbers(each.reason);
    });
    if (it == refusals.end()) {
      refusals.push_back({.choice = each.division.text(), .reason = each.reason});
      counts.push_back(1);
      continue;
    }
    if (++counts[static_cast<size_t>(it - refusals.begin())] <= kMostNamed)
      it->choice += ", " + each.division.text();
  }
  for (size_t i = 0; i < refusals.size(); ++i) {
    if (counts[i] > kMostNamed) refusals[i].choice += fmt::format(" and {} others", counts[i] - kMostNamed);
  }
  return refusals;
}

}  // namespace

RankFitReport fit_ranks(const RankFitOptions& options, const Environment& environment) {
  const auto start = std::chrono::steady_clock::now();
  Arguments base = options.arguments;
  resolve_arguments(base);
  const RankQuestion question = question_of(options, base);
  const RankLinks links = options.links.empty() ? RankLinks{} : parse_rank_links(options.links);
  const bool has_evaluation = evaluates(base);
  base = without_recompute_choice(without_data(base, environment));
  base.train_batch_size.reset();
  base.nproc_per_node = question.ranks_per_machine;
  base.nnodes = question.ranks / question.ranks_per_machine;
  base.tp_size = base.cp_size = base.pp_size = 1;
  base.sequence_parallel = false;
  base.zero_stage = 0;
  const RunSetup setup = prepare_run(base, RunPurpose::kPlan, environment, posix_file_system());
  RunSpec run = with_ranks(setup.spec(), question);
  run.facts.evaluate = has_evaluation;
  run.facts.lengths = SequenceLengths::kAllLongest;
  run.facts.ranks.links = links;
  const PlanRequest request = request_of(run);
  const RankSearch search = search_ranks(run, question);

  RankFitReport report{.num_choices = search.num_choices,
                       .num_pruned = search.num_pruned,
                       .num_plans = search.num_plans,
                       .links = describe_rank_link(request),
                       .warnings = setup.diagnostics.warnings,
                       .notes = setup.diagnostics.notes};
  if (std::string note = idle_network_note(links, question.ranks, base.nnodes); !note.empty())
    report.notes.push_back(std::move(note));
  report.refused = refusals_of(search.refused);
  if (search.answers.empty()) {
    if (search.num_choices == 0 && !report.refused.empty())
      throw_error(ErrorCode::kUsage, "{}: {}", report.refused.front().choice, report.refused.front().reason);
    throw_error(ErrorCode::kWillNotFit,
                "nothing fits: {} MiB per GPU are allowed, but the smallest of {} needs {} MiB. Give more "
                "GPUs, a smaller --effective_batch_size or --bf16",
                request.memory_limit_bytes.value_or(0) / kMiB, counted(search.num_choices, "division"),
                (search.smallest_bytes + kMiB - 1) / kMiB);
  }
  Arguments asked = options.arguments;
  asked.nproc_per_node = asked.nnodes = 1;
  asked.tp_size = asked.cp_size = asked.pp_size = 1;
  asked.sequence_parallel = false;
  asked.zero_stage.reset();
  asked.train_batch_size.reset();
  const SearchedCommand command = command_of_search(without_recompute_choice(asked), setup.model.label, {});
  for (const RankAnswer& answer : search.answers)
    report.rows.push_back(row_of(answer, question, command.words));
  const RankFitContext context{
      .subject = fmt::format("{}, {}, {} per step, on {} x {}: {} of {}", setup.model.label,
                             counted(run.facts.train_bucket.longest, "token"),
                             counted(question.effective_batch, "sequence"), question.ranks,
                             setup.device.label, counted(base.nnodes, "machine"), question.ranks_per_machine),
      .to_fill_in =
          command.to_fill_in + (base.nnodes > 1 ? std::string(command.to_fill_in.empty() ? "" : "; ") +
                                                      "HOST: the name of the first machine"
                                                : "")};
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  report.table = rank_fit_table(report, context);
  report.json = rank_fit_json(report, context);
  return report;
}

}  // namespace plimsoll
