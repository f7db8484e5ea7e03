#include "api/plan_report.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <system_error>
#include <utility>

#include "api/searched_run.h"
#include "base/file.h"
#include "base/optimizer_table.h"
#include "graph/passes/pass.h"
#include "hardware/gpu_target.h"
#include "hardware/rank_links.h"
#include "models/config.h"
#include "optim/optimizers.h"
#include "plan/anatomy/anatomy.h"
#include "plan/anatomy/disk_use.h"
#include "plan/anatomy/generation.h"
#include "plan/anatomy/memory.h"
#include "plan/anatomy/operations.h"
#include "plan/search/suggest.h"
#include "plimsoll/commands.h"
#include "plimsoll/plan.h"
#include "run/device_choice.h"
#include "run/run_setup.h"
#include "run/states_folder.h"
#include "show/html/report_page.h"
#include "show/html/trace.h"
#include "show/report/plan_table.h"
#include "show/report/result_files.h"
#include "tasks/task.h"
#include "train/run_reports.h"

namespace plimsoll {

namespace {

PlannedRun run_of(const Plan& plan, const PlanLabels& labels) {
  const PlanRequest& request = plan.request;
  const Bucket& bucket = plan.trains() ? request.batches.train : request.batches.evaluate;
  return {.model = labels.model_of(request),
          .task = std::string(task_of(request.model.problem_type).head().description),
          .device = labels.device,
          .precision = describe_precision(request),
          .optimizer = plan.trains() ? describe_optimizer(request.update.optimizer) : "",
          .num_parameters = plan.num_parameters(),
          .num_trainable_parameters = plan.trains() ? plan.num_trainable_parameters() : 0,
          .num_sequences = bucket.sequences,
          .longest_sequence = bucket.longest,
          .num_tokens = bucket.tokens,
          .accumulation_steps = plan.trains() ? request.batches.accumulation_steps : 1,
          .memory_limit_bytes = request.memory_limit_bytes,
          .planning_ms = plan.build_ms};
}

PlannedPurposes purposes_of(const PurposeBytes& bytes, int64_t gaps_bytes) {
  return {.weights = bytes[index_of(Purpose::kWeights)],
          .optimizer_states = bytes[index_of(Purpose::kOptimizerStates)],
          .gradients = bytes[index_of(Purpose::kGradients)],
          .saved = bytes[index_of(Purpose::kSaved)],
          .temporary = bytes[index_of(Purpose::kTemporary)],
          .functionality = bytes[index_of(Purpose::kFunctionality)],
          .staging = bytes[index_of(Purpose::kStaging)],
          .gaps = gaps_bytes,
          .constant = bytes[index_of(Purpose::kConstant)]};
}

PlannedMemory memory_of(const Plan& plan) {
  const MemoryAnatomy anatomy = memory_anatomy(plan);
  PlannedMemory memory{.phases = {},
                       .largest_phase = anatomy.largest,
                       .peaks = {},
                       .constants = {},
                       .modules = {},
                       .rules = {},
                       .recomputation = {},
                       .host_arena_bytes = plan.host_arena_bytes,
                       .host_lower_bound_bytes = plan.host_lower_bound_bytes,
                       .host_by_purpose = purposes_of(host_purposes(plan), 0),
                       .disk_bytes = plan.disk_bytes,
                       .disk_staging_bytes = disk_use(plan).staging_bytes};
  for (const PhaseMemory& phase : anatomy.phases) {
    memory.phases.push_back({.name = std::string(phase_name(phase.phase)),
                             .by_purpose = purposes_of(phase.by_purpose, phase.gaps_bytes),
                             .arena_bytes = phase.arena_bytes,
                             .total_bytes = phase.total_bytes});
  }
  for (const PeakPlace& peak : anatomy.peaks) {
    memory.peaks.push_back({.phase = std::string(phase_name(peak.phase)),
                            .segment = std::string(segment_name(peak.segment)),
                            .module = peak.module,
                            .op = peak.op,
                            .position = static_cast<int64_t>(peak.position),
                            .num_ops = static_cast<int64_t>(peak.num_ops),
                            .transient_bytes = peak.live_bytes});
  }
  for (const ConstantLine& line : anatomy.constants) memory.constants.push_back({line.name, line.bytes});
  for (const ModuleMemory& module : module_memory(plan)) {
    memory.modules.push_back({.name = module.module,
                              .num_parameters = module.num_parameters,
                              .weight_bytes = module.weight_bytes,
                              .state_bytes = module.state_bytes,
                              .gradient_bytes_at_most = module.gradient_bytes_at_most,
                              .saved_bytes_at_most = module.saved_bytes_at_most,
                              .temporary_bytes_at_most = module.temporary_bytes_at_most});
  }
  for (const QuotedFormula& formula : parameter_bytes(plan).quoted) {
    memory.rules.push_back({.name = formula.name,
                            .made_of = formula.made_of,
                            .bytes_per_parameter = formula.bytes_per_parameter,
                            .bytes = formula.bytes,
                            .applies = formula.applies});
  }
  return memory;
}

PlannedSpeed speed_of(const Plan& plan) {
  const OperationsAnatomy operations = operations_anatomy(plan);
  PlannedSpeed speed{.samples_per_step = operations.samples,
                     .tokens_per_step = operations.tokens,
                     .step_ms = operations.total().ms,
                     .forward_ms = operations.segment(Segment::kForward).ms,
                     .backward_ms = operations.segment(Segment::kBackward).ms,
                     .optimizer_ms = operations.segment(Segment::kOptimizer).ms,
                     .samples_per_s = operations.samples_per_s(),
                     .groups = {},
                     .is_calibrated = !plan.request.cpu_calibration.empty(),
                     .rates = operations.rates};
  for (int g = 0; g < kNumOpGroups; ++g) {
    const auto group = static_cast<OpGroup>(g);
    const OpTotals totals = operations.group(group);
    if (totals.flops == 0 && totals.bytes == 0) continue;
    speed.groups.push_back({.name = std::string(op_group_name(group)),
                            .flops = totals.flops,
                            .bytes = totals.bytes,
                            .ms = totals.ms});
  }
  return speed;
}

std::vector<PlannedRecomputation> recomputation_of(const Plan& plan) {
  std::vector<PlannedRecomputation> blocks;
  for (Recomputation& block : recomputation(plan)) {
    blocks.push_back({.block = std::move(block.block),
                      .kept_bytes = block.kept_bytes,
                      .recomputed_bytes = block.again_bytes,
                      .flops = block.flops,
                      .ms = block.ms,
                      .ops = std::move(block.ops)});
  }
  return blocks;
}

PlannedGeneration generation_of(const Plan& plan, const std::vector<BeamCost>& beams) {
  const GenerationSizes& sizes = plan.request.generation.sizes;
  const CacheAnatomy cache = cache_anatomy(plan);
  const GenerationEstimate estimate = generation_estimate(plan);
  PlannedGeneration generation{.prompts_at_once = sizes.prompts_at_once,
                               .sequences_per_prompt = sizes.sequences_per_prompt,
                               .longest_prompt = sizes.longest_prompt,
                               .max_new_tokens = sizes.max_new_tokens,
                               .cache_bytes_per_token = cache.bytes_per_token,
                               .page_tokens = plan.request.generation.page_size,
                               .num_pages = cache.num_pages,
                               .shared_pages = cache.per_prompt.shared,
                               .own_pages = cache.per_prompt.own,
                               .prefill_ms = estimate.prefill_ms,
                               .decode_run_ms = estimate.decode_run_ms,
                               .new_tokens_per_s = estimate.new_tokens_per_s,
                               .beams = {}};
  for (const BeamCost& cost : beams) {
    generation.beams.push_back({.num_beams = cost.num_beams,
                                .num_pages = cost.cache.num_pages,
                                .cache_bytes = cost.cache.bytes(),
                                .arena_bytes = cost.arena_bytes,
                                .total_bytes = cost.total_bytes,
                                .fits = cost.fits,
                                .decode_run_ms = cost.estimate.decode_run_ms,
                                .new_tokens_per_s = cost.estimate.new_tokens_per_s});
  }
  return generation;
}

std::vector<PlannedChange> changes_of(const std::vector<Suggestion>& suggestions) {
  std::vector<PlannedChange> changes;
  std::ranges::transform(suggestions, std::back_inserter(changes), [](const Suggestion& suggestion) {
    return PlannedChange{.arguments = suggestion.arguments,
                         .total_bytes = suggestion.total_bytes,
                         .fits = suggestion.fits,
                         .relative_time = suggestion.relative_time,
                         .effect = public_effect(suggestion.effect),
                         .note = suggestion.note};
  });
  return changes;
}

// Plans changes of arguments that save memory, and adds them to the report, as data and as text.
void add_changes(const Plan& plan, const RunSpec& run, const PlanLabels& labels, size_t columns,
                 SharedGraphs& shared, PlanReport& report) {
  if (report.fits) {
    const std::vector<Suggestion> savings = cheapest_savings(plan, run, shared, available_threads());
    report.savings = format_savings(plan, savings, columns);
    report.changes = changes_of(savings);
    // The unchanged run fits, and each of these changes reduces its memory, so the changed runs fit as well.
    for (PlannedChange& change : report.changes) change.fits = true;
    return;
  }
  const std::vector<Suggestion> suggestions =
      suggest_changes(plan, run, *plan.request.memory_limit_bytes, labels);
  report.refusal = describe_shortage(plan, suggestions, labels);
  report.changes = changes_of(suggestions);
}

}  // namespace

MethodEffect public_effect(Effect effect) {
  switch (effect) {
    case Effect::kNone:
      return MethodEffect::kSameSums;
    case Effect::kRounding:
      return MethodEffect::kRounding;
    case Effect::kOtherModel:
      return MethodEffect::kOtherPath;
  }
  return MethodEffect::kOtherPath;
}

const PlannedPhase* PlannedMemory::find_phase(std::string_view name) const {
  const auto found = std::ranges::find(phases, name, &PlannedPhase::name);
  return found == phases.end() ? nullptr : &*found;
}

TableStyle table_style(const Environment& environment) {
  TableStyle style;
  if (const auto locale = environment.find("LC_CTYPE"); locale != environment.end()) {
    std::string name = locale->second;
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const bool is_utf8 = name.find("utf-8") != std::string::npos || name.find("utf8") != std::string::npos;
    style.characters = is_utf8 ? Characters::kUnicode : Characters::kAscii;
  }
  if (const auto width = environment.find("COLUMNS"); width != environment.end()) {
    size_t columns = 0;
    const std::string& text = width->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), columns);
    // The table of a plan needs 79 columns and uses at most 100.
    if (error == std::errc() && end == text.data() + text.size())
      style.columns = std::clamp<size_t>(columns, 79, 100);
  }
  return style;
}

PlanReport make_plan_report(const Plan& plan, const RunSpec& run, const PlanLabels& labels, Savings savings,
                            const TableStyle& style, const std::vector<BeamCost>& beams,
                            SharedGraphs* shared) {
  PlanReport report;
  report.total_bytes = plan.total_bytes();
  report.arena_bytes = plan.arena_bytes;
  report.lower_bound_bytes = plan.lower_bound_bytes;
  report.constant_bytes = plan.constant_bytes();
  report.fits = plan.fits();
  report.run = run_of(plan, labels);
  report.memory = memory_of(plan);
  report.speed = speed_of(plan);
  report.memory.recomputation = recomputation_of(plan);
  report.table = plan_table(plan, labels, style.characters, style.columns);
  report.summary = plan_summary(plan, labels);
  report.line = plan_headline(plan, labels);
  if (savings == Savings::kPlan) {
    SharedGraphs none(ChunkedGraphs::kShared);
    add_changes(plan, run, labels, style.columns, shared == nullptr ? none : *shared, report);
  }
  if (plan.request.generation.num_pages > 0) report.generation = generation_of(plan, beams);
  report.savings += beam_table(plan, beams);
  report.modules = module_table(plan);
  report.why = plan_why(plan);
  report.json = plan_json(plan, labels, beams);
  if (std::string text = format_stopped_passes(plan); !text.empty()) report.notes.push_back(std::move(text));
  for (const WidthAdvice& advice : width_advice(plan)) report.notes.push_back(format_advice(advice));
  if (std::string text = describe_batch_shape(plan.request); savings == Savings::kPlan && !text.empty())
    report.notes.push_back(std::move(text));
  return report;
}

void add_plan_files(const Plan& plan, const RunSetup& setup, PlanReport& report) {
  const Arguments& arguments = setup.arguments;
  if (!arguments.html.empty()) {
    const std::string text = report_json(plan, setup.plan_labels, arguments, run_environment(setup));
    const ReportSource source = source_of_plan(setup.plan_labels.model_of(setup.request), report.json, text);
    report.html = report_page({&source, 1});
  }
  if (!arguments.trace.empty()) report.trace = plan_trace(plan, setup.plan_labels);
}

namespace {

RunSetup prepare_plan(Arguments arguments, const Environment& environment) {
  resolve_arguments(arguments);
  return prepare_run(arguments, RunPurpose::kPlan, environment, posix_file_system());
}

// Returns the plan of the run. If the run is a pipeline, returns the plan of the stage that needs the most memory, and changes
// `setup` to this stage. If `shared` is not null, the graphs of the plan are stored there, so that later plans can reuse them.
Plan plan_of_largest_stage(RunSetup& setup, SharedGraphs* shared) {
  Plan plan = shared != nullptr ? build_plan(setup.request, *shared) : build_plan(setup.request);
  if (!plan.is_pipelined()) return plan;
  const auto largest = std::ranges::max_element(plan.stages, {}, &StagePlan::total_bytes);
  const int64_t stage = largest - plan.stages.begin();
  if (stage == setup.facts.ranks.stage) return plan;
  setup.facts.ranks.stage = setup.request.ranks.stage = stage;
  return build_plan(setup.request);
}

PlanReport report_of_setup(RunSetup setup, Savings savings, const Environment& environment) {
  SharedGraphs shared(ChunkedGraphs::kShared);
  const Plan plan = plan_of_largest_stage(setup, savings == Savings::kPlan ? &shared : nullptr);
  require_states_folder(plan, setup.arguments, posix_file_system(), 0, setup.arguments.nproc_per_node);
  PlanReport report =
      make_plan_report(plan, setup.spec(), setup.plan_labels, savings, table_style(environment), {}, &shared);
  add_plan_files(plan, setup, report);
  report.warnings = setup.diagnostics.warnings;
  if (std::string text = redundant_accumulation(plan, setup.spec()); !text.empty())
    report.warnings.push_back(std::move(text));
  report.notes.insert(report.notes.begin(), setup.diagnostics.notes.begin(), setup.diagnostics.notes.end());
  return report;
}

}  // namespace

PlanReport plan_run(const Arguments& arguments, const Environment& environment, Savings savings) {
  return report_of_setup(prepare_plan(arguments, environment), savings, environment);
}

PlanReport plan_run_with_links(const Arguments& arguments, const std::string& links,
                               const Environment& environment, Savings savings) {
  const RankLinks named = parse_rank_links(links);
  RunSetup setup = prepare_plan(arguments, environment);
  setup.facts.ranks.links = named;
  const PlanRequest request = request_of(setup.spec());
  setup.request.named_links = request.named_links;
  setup.request.num_machines = request.num_machines;
  if (request.ranks.count == 1)
    setup.diagnostics.note(
        "--links has no effect here: it describes links between processes, and this run has one");
  if (std::string note = idle_network_note(named, request.ranks.count, request.num_machines); !note.empty())
    setup.diagnostics.note(std::move(note));
  return report_of_setup(std::move(setup), savings, environment);
}

void require_fit(const Arguments& arguments, const Environment& environment) {
  RunSetup setup = prepare_plan(arguments, environment);
  const Plan plan = plan_of_largest_stage(setup, nullptr);
  require_fit(plan, setup.spec(), setup.plan_labels);
}

ValueNames known_value_names() {
  ValueNames names;
  names["config_name"] = preset_names();
  names["device"] = {"auto", "cpu", "cuda:0"};
  names["plan device"] = names["device"];
  names["fit device"] = {"auto", "cpu", "cuda:0", "all"};
  for (const OptimizerName& row : optimizer_names()) {
    if (row.is_here()) names["optim"].emplace_back(row.name);
  }
  for (const PassInfo& pass : all_passes()) {
    names["disable_pass"].emplace_back(pass.name);
    names["stop_after_pass"].emplace_back(pass.name);
  }
  names["stop_after_pass"].emplace_back(kStopAfterNone);
  for (const GpuTarget& target : gpu_targets()) {
    names["plan device"].push_back(target.name);
    if (runs_release(target)) names["fit device"].push_back(target.name);
  }
  return names;
}

}  // namespace plimsoll
