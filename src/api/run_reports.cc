#include "api/run_reports.h"

#include <nlohmann/json.hpp>

namespace plimsoll {
namespace {

void write_text(FileSystem& files, const std::string& path, const std::string& text) {
  const auto file = files.create(path);
  file->write(std::as_bytes(std::span(text)));
  file->close();
}

nlohmann::json read_object(FileSystem& files, const std::string& path) {
  if (!files.status(path)) return nlohmann::json::object();
  const auto file = files.open_read(path);
  std::string text(static_cast<size_t>(file->size_bytes()), '\0');
  file->pread(std::as_writable_bytes(std::span(text)), 0);
  auto json = nlohmann::json::parse(text, nullptr, false);
  return json.is_object() ? json : nlohmann::json::object();
}

}  // namespace

void write_metrics(FileSystem& files, const std::string& folder, const std::string& split, const MetricMap& metrics) {
  files.make_folder(folder);
  write_text(files, folder + "/" + split + "_results.json", nlohmann::json(metrics).dump(4));
  nlohmann::json all = read_object(files, folder + "/all_results.json");
  for (const auto& [key, value] : metrics) all[key] = value;
  write_text(files, folder + "/all_results.json", all.dump(4));
}

void write_run_reports(FileSystem& files, const std::string& folder, const Plan& plan, const PlanReport& report,
                       const MemoryFigures& memory, const TrainOutput& output) {
  static_cast<void>(plan);
  static_cast<void>(output);
  write_text(files, folder + "/plan.json", report.json);
  const nlohmann::json json{{"predicted_total_bytes", memory.predicted_total_bytes},
                            {"arena_bytes", memory.arena_bytes},
                            {"arena_high_water_bytes", memory.arena_high_water_bytes},
                            {"lower_bound_bytes", memory.lower_bound_bytes},
                            {"constant_bytes", memory.constant_bytes},
                            {"measured_peak_bytes", memory.measured_peak_bytes}};
  write_text(files, folder + "/memory.json", json.dump(4) + "\n");
}

std::string make_profile_table(const Session& session) {
  static_cast<void>(session);
  return {};
}

}  // namespace plimsoll
