// Reads the files that runs of experiments have written, and converts the table of experiments to texts.
#include <fmt/chrono.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/guarded_json.h"
#include "device/cpu/cpu_features.h"
#include "device/monitor/host.h"
#include "device/monitor/nvml.h"
#include "plimsoll/experiments.h"
#include "run/caches.h"
#include "show/report/experiment_report.h"
#include "show/report/result_files.h"

namespace plimsoll {
namespace {

// Returns the samples per second of the last two thirds of the steps: from the first log record after a third of the
// steps to the last record. Returns 0 if there are fewer than two such records.
double steady_samples_per_s(const std::string& path, double samples_per_step) {
  constexpr int64_t kMost = int64_t{256} << 20;
  const std::string text = read_text_file(posix_file_system(), path, kMost);
  // for each log record, the step and the seconds since the start
  std::vector<std::pair<double, double>> points;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const LogRecord record = parse_log_line(std::string_view(text).substr(at, end - at));
    const auto runtime = record.values.find("train_runtime");
    if (record.values.contains("loss") && runtime != record.values.end()) {
      points.emplace_back(static_cast<double>(record.step), runtime->second);
    }
    at = end + 1;
  }
  if (points.size() < 2) return 0;
  const double after = std::max(2.0, points.back().first / 3);
  const auto first =
      std::find_if(points.begin(), points.end(), [&](const auto& point) { return point.first >= after; });
  const auto& last = points.back();
  if (first == points.end() || last.second <= first->second) return 0;
  return samples_per_step * (last.first - first->first) / (last.second - first->second);
}

std::string utc_text(std::chrono::system_clock::time_point time) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

// Returns the time when a file was written; "" if the system does not report it.
std::string date_of(const std::string& path) {
  std::error_code error;
  const auto written = std::filesystem::last_write_time(path, error);
  if (error) return {};
  const auto time = std::chrono::file_clock::to_sys(written);
  return utc_text(std::chrono::time_point_cast<std::chrono::system_clock::duration>(time));
}

// Returns the device of a run on this machine. For a CPU it is not taken from the plan, which may be for a CPU of
// another machine and then contains no name.
std::string device_of(const nlohmann::json& request) {
  if (!request.at("gpu").is_null()) return request.at("device");
  constexpr std::string_view kBegin = "device ";
  const std::string line = cpu_device_line(request.at("num_threads").get<int>(), cpu_isa(), cpu_name());
  return line.substr(kBegin.size());
}

}  // namespace

ExperimentFigures read_experiment(const std::string& folder) {
  try {
    const nlohmann::json plan = read_json_object(join_path(folder, "plan.json"));
    const nlohmann::json memory = read_json_object(join_path(folder, "memory.json"));
    const nlohmann::json results = read_json_object(join_path(folder, "train_results.json"));
    const nlohmann::json& request = plan.at("request");
    const auto samples_per_step = plan.at("estimate").at("samples").get<double>();
    ExperimentFigures figures{
        .seconds = results.at("train_runtime"),
        .samples_per_s = steady_samples_per_s(join_path(folder, "log.jsonl"), samples_per_step),
        .predicted_samples_per_s = plan.at("estimate").at("samples_per_second"),
        .measured_bytes = memory.at("measured_peak_bytes"),
        .predicted_bytes = memory.at("predicted_total_bytes"),
        .arena_bytes = memory.at("arena_bytes"),
        .high_water_bytes = memory.at("arena_high_water_bytes"),
        .loss = results.at("train_loss").is_null() ? 0 : results.at("train_loss").get<double>(),
        .model = request.at("model"),
        .device = device_of(request),
        .sequence_length = request.at("train_bucket").at("longest"),
        .is_calibrated = plan.at("estimate").at("is_calibrated"),
        .date = date_of(join_path(folder, "train_results.json")),
        .evaluation = {}};
    // A run of one or two steps has too few records for a steady speed, so the mean over the whole run is used.
    if (figures.samples_per_s <= 0) figures.samples_per_s = results.at("train_samples_per_second");
    const std::string evaluation_path = join_path(folder, "eval_results.json");
    if (!posix_file_system().status(evaluation_path)) return figures;
    const nlohmann::json evaluation = read_json_object(evaluation_path);
    for (const auto& [name, value] : evaluation.items()) {
      if (value.is_number()) figures.evaluation[name] = value.get<double>();
    }
    return figures;
  } catch (const nlohmann::json::exception& error) {
    throw_error(ErrorCode::kBadData,
                "{}: this version cannot read a file of this run: {}; remove the folder and measure it again",
                folder, error.what());
  }
}

ExperimentOrigin experiment_origin(const std::vector<ExperimentRow>& rows) {
  const bool is_on_gpu = std::any_of(rows.begin(), rows.end(), [](const ExperimentRow& row) {
    return row.figures && row.figures->device.starts_with("cuda");
  });
  const std::string name = cpu_name();
  return {.date = utc_text(std::chrono::system_clock::now()),
          .version = PLIMSOLL_VERSION,
          .build = program_build(),
          .cpu = name + (name.empty() ? "" : ", ") + describe_isa(cpu_isa()),
          .driver = is_on_gpu ? Nvml::installed().driver_version() : std::string()};
}

ExperimentReport make_experiment_report(const std::vector<ExperimentRow>& rows,
                                        const ExperimentOrigin& origin) {
  PLIMSOLL_CHECK(!rows.empty(), "a table of experiments needs at least one row");
  return {.table = experiment_table(rows),
          .summary = experiment_summary(rows),
          .json = experiment_json(rows, origin),
          .csv = experiment_csv(rows),
          .svg = experiment_picture(rows, origin).svg()};
}

bool write_experiment_png(const std::vector<ExperimentRow>& rows, const ExperimentOrigin& origin,
                          const std::string& path) {
  PLIMSOLL_CHECK(!rows.empty(), "a plot of experiments needs at least one row");
  return experiment_picture(rows, origin).write_png(path);
}

}  // namespace plimsoll
