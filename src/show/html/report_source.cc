#include "show/html/report_source.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/guarded_json.h"
#include "show/report/result_files.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

// Returns the last `count` parts of a path, or all of them if it has fewer.
std::string last_parts(const std::string& path, size_t count) {
  std::vector<std::string> parts;
  for (const auto& part : std::filesystem::path(path).lexically_normal()) {
    if (const std::string text = part.string(); !text.empty() && text != ".") parts.push_back(text);
  }
  if (parts.empty()) return path;
  std::string text = parts.back();
  for (size_t i = 1; i < std::min(count, parts.size()); ++i) {
    const std::string& part = parts[parts.size() - 1 - i];
    text.insert(0, part == "/" ? "" : "/").insert(0, part);
  }
  return text;
}

// Returns the --run_name of a run, or "" if it has none.
std::string run_name_of(const ReportSource& source) {
  for (const auto& [name, text] : source.arguments()) {
    if (name == "run_name") return text;
  }
  return {};
}

// Returns the JSON object in a file of the run's folder; null if there is no such file.
Json object_of(const std::filesystem::path& folder, const char* file) {
  const std::filesystem::path path = folder / file;
  return std::filesystem::exists(path) ? read_json_object(path.string()) : Json();
}

std::vector<LogRecord> read_history(const std::filesystem::path& path) {
  std::vector<LogRecord> history;
  std::ifstream file(path);
  size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.empty()) continue;
    try {
      history.push_back(parse_log_line(line));
    } catch (const Error&) {
      // Ignores an incomplete last line, which a run leaves that ends while it writes.
      if (file.peek() == std::ifstream::traits_type::eof()) break;
      throw_error(ErrorCode::kBadData,
                  "{}:{}: this line is not a record of a log; it begins with '{}'. Remove the line, or run "
                  "the training again",
                  path.string(), number, line.substr(0, 40));
    }
  }
  return history;
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Checks that the values of plan.json that a page reads have the right types, so that a damaged file gives a message
// instead of an internal error.
void require_plan(const Json& plan, const std::string& path) {
  const auto has_object = [&](const char* key) { return plan.contains(key) && plan[key].is_object(); };
  if (has_object("by_phase") && has_object("by_purpose") && has_object("operations") &&
      has_object("request") && plan.contains("total_bytes") && plan["total_bytes"].is_number())
    return;
  throw_error(ErrorCode::kBadData,
              "{}: the file is not a plan, because total_bytes, by_phase, by_purpose, operations or request "
              "is missing or has another form; run the training again",
              path);
}

}  // namespace

NamedTexts ReportSource::arguments() const {
  NamedTexts texts;
  if (!report.is_object() || !report.contains("arguments") || !report["arguments"].is_object()) return texts;
  for (const auto& [key, value] : report["arguments"].items()) texts.emplace_back(key, text_of(value));
  return texts;
}

NamedTexts ReportSource::environment() const {
  NamedTexts texts;
  if (!report.is_object() || !report.contains("environment")) return texts;
  for (const Json& entry : report["environment"]) {
    if (entry.is_array() && entry.size() == 2) texts.emplace_back(text_of(entry[0]), text_of(entry[1]));
  }
  return texts;
}

std::string report_json(const Plan& plan, const PlanLabels& labels, const Arguments& arguments,
                        const NamedTexts& environment) {
  const Arguments defaults;
  Json texts = Json::object();
  for (const ArgumentInfo& info : argument_table()) {
    std::string text = format_argument(arguments, info.name);
    if (text != format_argument(defaults, info.name)) texts[std::string(info.name)] = std::move(text);
  }
  Json named = Json::array();
  for (const auto& [name, text] : environment) named.push_back({name, text});
  const RankOptions& ranks = plan.request.ranks;
  const Json object{
      {"schema_version", kReportJsonVersion},
      {"model", labels.model_of(plan.request)},
      {"device", labels.device},
      {"arguments", std::move(texts)},
      {"environment", std::move(named)},
      {"ranks",
       {{"count", ranks.count},
        {"data", ranks.data_size()},
        {"tensor", ranks.tensor_size},
        {"pipeline", ranks.pipeline_size}}},
      {"stage", plan.is_pipelined() ? Json(ranks.stage) : Json()},
      {"map", plan.programs.empty() ? Json() : map_json(buffer_map(plan, plan.programs.first()))}};
  return object.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

ReportSource source_of_plan(const std::string& name, const std::string& plan_text,
                            const std::string& report_text) {
  ReportSource source{.name = name, .plan = Json::parse(plan_text), .report = Json::parse(report_text)};
  const std::string given = run_name_of(source);
  source.short_name = given.empty() ? name : given;
  if (!source.report["map"].is_null()) source.map = parse_map(source.report["map"], "plan");
  return source;
}

ReportSource read_run(const std::string& folder) {
  const std::filesystem::path path(folder);
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    throw_error(ErrorCode::kUsage, "report: '{}' is not a folder; give the --output_dir of a run", folder);
  }
  if (!std::filesystem::exists(path / "plan.json", error)) {
    throw_error(
        ErrorCode::kUsage,
        "report: '{}' has no plan.json, which a run writes at its start; give the --output_dir of a run",
        folder);
  }
  ReportSource source{.name = folder, .plan = object_of(path, "plan.json"), .is_run = true};
  require_plan(source.plan, (path / "plan.json").string());
  source.report = object_of(path, kReportFile);
  source.memory = object_of(path, "memory.json");
  source.results = object_of(path, "all_results.json");
  source.profile = object_of(path, "profile.json");
  source.history = read_history(path / "log.jsonl");
  if (source.report.is_object() && source.report.contains("map") && source.report["map"].is_object())
    source.map = parse_map(source.report["map"], (path / kReportFile).string());
  std::vector<ReportSource> alone{std::move(source)};
  name_sources(alone);
  return std::move(alone.front());
}

void name_sources(std::vector<ReportSource>& sources) {
  std::vector<std::string> candidates;
  for (size_t parts = 1;; ++parts) {
    candidates.clear();
    bool is_complete = true;
    for (const ReportSource& source : sources) {
      const std::string last = last_parts(source.name, parts);
      const std::string given = run_name_of(source);
      // The name that the user gave is used alone if it differs from the other names, otherwise with the path.
      candidates.push_back(given.empty() ? last
                           : parts == 1  ? given
                                         : given + " (" + last_parts(source.name, parts - 1) + ")");
      is_complete = is_complete && last == last_parts(source.name, parts + 1);
    }
    const std::set<std::string> distinct(candidates.begin(), candidates.end());
    if (distinct.size() == candidates.size() || (parts > 1 && is_complete)) break;
  }
  for (size_t i = 0; i < sources.size(); ++i) sources[i].short_name = candidates[i];
}

}  // namespace plimsoll
