#include "show/html/report_source.h"

#include <filesystem>
#include <fstream>

#include "base/check.h"
#include "base/file.h"
#include "base/guarded_json.h"
#include "show/report/result_files.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

// Returns the object in a file of the run; null if there is no such file.
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

// The parts of an object that a page reads have to be objects, so that a damaged file gives a message instead of an internal error.
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
        "report: '{}' has no plan.json, which a run writes at its end; give the --output_dir of a run",
        folder);
  }
  ReportSource source{.name = folder, .plan = object_of(path, "plan.json")};
  require_plan(source.plan, (path / "plan.json").string());
  source.report = object_of(path, kReportFile);
  source.memory = object_of(path, "memory.json");
  source.results = object_of(path, "all_results.json");
  source.profile = object_of(path, "profile.json");
  source.history = read_history(path / "log.jsonl");
  if (source.report.is_object() && source.report.contains("map") && source.report["map"].is_object())
    source.map = parse_map(source.report["map"], (path / kReportFile).string());
  return source;
}

}  // namespace plimsoll
