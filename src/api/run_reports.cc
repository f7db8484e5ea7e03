#include "api/run_reports.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/model_card.h"
#include "plan/anatomy/operations.h"
#include "show/report/plan_json.h"
#include "show/report/plots.h"
#include "show/report/profile_json.h"
#include "show/report/profile_table.h"
#include "show/report/result_files.h"

namespace plimsoll {
namespace {

// "" where there is no file.
std::string read_text(FileSystem& files, const std::string& path) {
  if (!files.status(path)) return {};
  const auto file = files.open_read(path);
  std::string text(static_cast<size_t>(file->size_bytes()), '\0');
  file->pread(std::as_writable_bytes(std::span(text)), 0);
  return text;
}

// The metrics that a results file holds; none where there is no readable file.
MetricMap read_metrics(FileSystem& files, const std::string& path) {
  MetricMap metrics;
  const std::string text = read_text(files, path);
  const auto json = nlohmann::json::parse(text, nullptr, false);
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

void write_run_reports(FileSystem& files, const std::string& folder, const Plan& plan,
                       const PlanReport& report, const MemoryFigures& memory, const TrainOutput& output,
                       const std::string& run_name) {
  replace_file(files, join_path(folder, kPlanFile), report.json);
  replace_file(files, join_path(folder, kMemoryFile), memory_json(memory));
  const std::string caption = plan.request.model_label + " on " + plan.request.device_label;
  replace_file(files, folder + "/loss.svg",
               loss_plot(output.log_history, run_name.empty() ? "Loss" : "Loss of " + run_name, caption));
  replace_file(files, folder + "/memory.svg", memory_plot(plan));
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

// Nothing if no step was measured.
std::optional<Profile> measured_profile(const Session& session, double step_ms) {
  if (!session.is_allocated() || !session.plan().train) return std::nullopt;
  const ProgramPlan& program = *session.plan().train;
  const std::vector<OpTime>& times = session.executor().times(ProgramKind::kTrain);
  Profile profile{.ops = estimate_ops(session.plan(), program), .ms_per_step = {}, .context = {}};
  for (size_t i = 0; i < times.size(); ++i) {
    if (program.graph.ops()[i].segment == Segment::kOptimizer)
      profile.context.num_steps = std::max(profile.context.num_steps, times[i].runs);
  }
  if (profile.context.num_steps == 0) return std::nullopt;
  profile.context.step_ms = step_ms;
  profile.context.peak_gflops = session.ceilings().product_gflops;
  profile.context.peak_gb_per_s = session.ceilings().copy_gb_per_s;
  for (const OpTime& time : times) {
    profile.ms_per_step.push_back(time.milliseconds / static_cast<double>(profile.context.num_steps));
  }
  return profile;
}

}  // namespace

std::string make_profile_table(const Session& session, double step_ms) {
  const std::optional<Profile> profile = measured_profile(session, step_ms);
  return profile ? profile_table(profile->ops, profile->ms_per_step, profile->context) : "";
}

bool write_profile(FileSystem& files, const std::string& folder, const Session& session, double step_ms) {
  const std::optional<Profile> profile = measured_profile(session, step_ms);
  if (!profile) return false;
  replace_file(files, folder + "/profile.json",
               profile_json(profile->ops, profile->ms_per_step, profile->context));
  return true;
}

}  // namespace plimsoll
