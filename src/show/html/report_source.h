// Reads what a report shows of one run or of one plan. The file report.json, which a run writes, lets a report be made from its
// folder later. Thread-safe: pure functions, except for reading files.
//
// report.json: {"schema_version", "model", "device", "arguments": {name: text} (those that differ from their default),
// "environment": [[name, text]], "ranks": {"count", "data", "tensor", "pipeline"}, "stage", "map"}. "map" is the map of the arena of
// the training program, or of the first one: {"program", "arena_bytes", "start_ms", "ops", "segments": [[name, first op]],
// "purposes", "modules", "buffers": [[name, module, purpose, offset, bytes, first op, last op, 1 if it is persistent]], "peak"}.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/compile/plan.h"
#include "plan/compile/plan_labels.h"
#include "plimsoll/arguments.h"
#include "plimsoll/training.h"
#include "show/html/buffer_map.h"

namespace plimsoll {

inline constexpr const char* kReportFile = "report.json";
inline constexpr int kReportJsonVersion = 1;

using NamedTexts = std::vector<std::pair<std::string, std::string>>;

// One run or plan. JSON values that are missing are null.
struct ReportSource {
  std::string name = {};        // path of the folder of the run, or name of the model of the plan
  std::string short_name = {};  // name in titles, tables and legends (name_sources())
  nlohmann::json plan = {};     // content of plan.json
  nlohmann::json report = {};   // content of report.json
  nlohmann::json memory = {};  // content of memory.json, which a run writes at its end; null if it is missing
  nlohmann::json results = {};  // content of all_results.json
  nlohmann::json profile = {};  // content of profile.json; null for a run without --profile
  std::vector<LogRecord> history = {};
  std::optional<BufferMap> map = {};

  bool is_run = false;  // true for a folder of a run, false for a plan

  bool has_ended() const { return memory.is_object(); }
  // Returns report["arguments"] and report["environment"] as texts; empty if they are missing.
  NamedTexts arguments() const;
  NamedTexts environment() const;
};

// Returns the text of report.json. `environment` describes the machine and the program.
std::string report_json(const Plan& plan, const PlanLabels& labels, const Arguments& arguments,
                        const NamedTexts& environment);

// Makes the source of a report from a plan. `plan_text` and `report_text` are the results of plan_json() and report_json().
ReportSource source_of_plan(const std::string& name, const std::string& plan_text,
                            const std::string& report_text);

// Reads the files of a run. The folder has to contain plan.json; other files may be missing, because the run was interrupted or has not
// ended. Errors: kUsage if the folder was not written by a run; kBadData if a file is damaged.
ReportSource read_run(const std::string& folder);

// Sets the short name of each source: --run_name, or else the last part of the path. If that name occurs more than once, parts of the path
// before it are added until the names differ, or the whole path is used.
void name_sources(std::vector<ReportSource>& sources);

}  // namespace plimsoll
