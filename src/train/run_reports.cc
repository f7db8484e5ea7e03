#include "train/run_reports.h"

#include <sys/utsname.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/guarded_json.h"
#include "plan/anatomy/operations.h"
#include "plan/compile/stage_plan.h"
#include "run/device_choice.h"
#include "show/html/trace.h"
#include "show/report/picture.h"
#include "show/report/profile_table.h"
#include "show/report/result_files.h"

namespace plimsoll {
namespace {

// Returns the content of a file, or "" if it does not exist.
std::string read_text(FileSystem& files, const std::string& path) {
  if (!files.status(path)) return {};
  const auto file = files.open_read(path);
  std::string text(static_cast<size_t>(file->size_bytes()), '\0');
  file->pread(std::as_writable_bytes(std::span(text)), 0);
  return text;
}

// Returns the metrics in a results file, or none if the file cannot be read.
MetricMap read_metrics(FileSystem& files, const std::string& path) {
  MetricMap metrics;
  const std::string text = read_text(files, path);
  const auto json = find_json(text);
  if (!json.is_object()) return metrics;
  for (const auto& [key, value] : json.items()) {
    if (value.is_number()) metrics[key] = value.get<double>();
  }
  return metrics;
}

}  // namespace

void write_metrics(FileSystem& files, const std::string& folder, const std::string& split,
                   const MetricMap& metrics) {
  files.make_folder(folder);
  replace_file(files, folder + "/" + split + "_results.json", results_json(metrics));
  MetricMap all = read_metrics(files, folder + "/all_results.json");
  for (const auto& [key, value] : metrics) all[key] = value;
  replace_file(files, folder + "/all_results.json", results_json(all));
}

void write_memory(FileSystem& files, const std::string& folder, const Session& session) noexcept {
  try {
    replace_file(files, join_path(folder, kMemoryFile), memory_json(session.memory()));
  } catch (const std::exception&) {
    return;
  }
}

namespace {

// Returns the content of report.json. For a pipeline, the report describes the stage that needs the most memory.
std::string report_of_run(const Session& session) {
  const Plan& plan = session.plan();
  const RunSetup& setup = session.setup();
  const NamedTexts environment = run_environment(setup);
  if (plan.is_pipelined()) {
    const auto largest =
        std::ranges::max_element(plan.stages, {}, &StagePlan::total_bytes) - plan.stages.begin();
    if (largest != plan.request.ranks.stage) {
      PlanRequest request = plan.request;
      request.ranks.stage = largest;
      return report_json(build_plan(request), setup.plan_labels, setup.arguments, environment);
    }
  }
  return report_json(plan, setup.plan_labels, setup.arguments, environment);
}

}  // namespace

NamedTexts run_environment(const RunSetup& setup) {
  NamedTexts texts{{"Plimsoll", PLIMSOLL_VERSION}};
  if (setup.device.options.kind == KernelDevice::kCuda) {
    texts.emplace_back("device", setup.plan_labels.device);
  } else {
    const std::string line = device_line(setup.device);
    const size_t colon = line.find(": ");
    texts.emplace_back("device", colon == std::string::npos ? line : line.substr(colon + 2));
  }
  utsname system{};
  if (uname(&system) == 0)
    texts.emplace_back("system", std::string(system.sysname) + " " + system.release + ", " + system.machine);
  if (setup.device.options.kind == KernelDevice::kCpu)
    texts.emplace_back("threads", std::to_string(setup.device.options.num_threads));
  return texts;
}

void write_planned_reports(FileSystem& files, const std::string& folder, const Session& session,
                           const PlanReport& report) {
  replace_file(files, join_path(folder, kPlanFile), report.json);
  replace_file(files, join_path(folder, kReportFile), report_of_run(session));
}

std::vector<std::string> write_run_reports(FileSystem& files, const std::string& folder,
                                           const Session& session, const PlanReport& report,
                                           const MemoryFigures& memory, const TrainOutput& output,
                                           const std::string& run_name) {
  write_planned_reports(files, folder, session, report);
  const PlanLabels& labels = session.setup().plan_labels;
  const std::string caption = labels.model + " on " + labels.device;
  const std::string of_run = run_name.empty() ? "" : " of " + run_name;
  std::vector<std::string> plots;
  // For a run that logged nothing, no plot is written, because an empty plot would look like an error.
  const auto write_plot = [&](const std::string& name, const std::string& svg) {
    if (svg.empty()) return;
    replace_file(files, join_path(folder, name), svg);
    plots.push_back(name);
  };
  write_plot("loss.svg", loss_plot(output.log_history, "Loss" + of_run, caption));
  write_plot("metrics.svg", metrics_plot(output.log_history, "Metrics" + of_run, caption));
  write_plot("memory.svg", memory_plot(session.plan(), labels));
  replace_file(files, join_path(folder, kMemoryFile), memory_json(memory));
  return plots;
}

bool write_model_card(FileSystem& files, const std::string& folder, const RunSetup& setup,
                      const TrainOutput& output) {
  const std::string path = folder + "/README.md";
  const std::string present = read_text(files, path);
  if (!present.empty() && !is_model_card(present)) return false;
  replace_file(files, path, model_card(setup, output));
  return true;
}

namespace {

struct Profile {
  std::vector<OpEstimate> ops;
  std::vector<double> ms_per_step;
  ProfileContext context;
};

// Returns the measured times of the training program's ops, or nothing if no step was measured.
std::optional<Profile> measured_profile(const Session& session, double step_ms) {
  if (!session.is_allocated() || !session.plan().programs.contains(kTrainProgram)) return std::nullopt;
  const ProgramPlan& program = session.plan().programs.at(kTrainProgram);
  const std::vector<OpTime>& times = session.executor().times(kTrainProgram);
  const std::vector<OpTime>& first_times = session.executor().first_times(kTrainProgram);
  Profile profile{.ops = estimate_ops(session.plan(), program), .ms_per_step = {}, .context = {}};
  int64_t num_steps = 0;
  int64_t num_first = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    if (program.graph.ops()[i].segment != Segment::kOptimizer) continue;
    num_steps = std::max(num_steps, times[i].runs);
    num_first = std::max(num_first, first_times[i].runs);
  }
  if (num_steps + num_first == 0) return std::nullopt;
  profile.context.num_steps = num_steps;
  profile.context.num_first_steps = num_first;
  profile.context.step_ms = step_ms;
  profile.context.peak_gflops = session.ceilings().product_gflops;
  profile.context.peak_gb_per_s = session.ceilings().copy_gb_per_s;
  for (size_t i = 0; i < times.size(); ++i) {
    // The first execution of an op in each bucket (compiled batch size) is slower than later ones, so its time, which is in first_times, is
    // used only if there were no later executions.
    const OpTime& time = times[i].runs > 0 ? times[i] : first_times[i];
    const auto runs = static_cast<double>(std::max<int64_t>(time.runs, 1));
    const double runs_per_step =
        static_cast<double>(times[i].runs + first_times[i].runs) / static_cast<double>(num_steps + num_first);
    profile.ms_per_step.push_back(time.milliseconds / runs * runs_per_step);
    // FLOPs and bytes are averages over the measured runs, which may have smaller batch sizes (buckets) than the largest one.
    profile.ops[i].flops = time.flops / runs;
    profile.ops[i].bytes = time.bytes / runs;
  }
  return profile;
}

}  // namespace

std::string make_profile_table(const Session& session, double step_ms) {
  const std::optional<Profile> profile = measured_profile(session, step_ms);
  return profile ? profile_table(profile->ops, profile->ms_per_step, profile->context) : "";
}

std::string make_profile_trace(const Session& session) {
  const std::optional<Profile> profile = measured_profile(session, 0);
  if (!profile) return {};
  return profile_trace(session.plan(), session.plan().programs.at(kTrainProgram), session.setup().plan_labels,
                       profile->ops, profile->ms_per_step);
}

bool write_profile(FileSystem& files, const std::string& folder, const Session& session, double step_ms) {
  const std::optional<Profile> profile = measured_profile(session, step_ms);
  if (!profile) return false;
  replace_file(files, folder + "/profile.json",
               profile_json(profile->ops, profile->ms_per_step, profile->context));
  return true;
}

}  // namespace plimsoll
