// The report of runs and plans as one HTML page that needs no other file and no network. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "show/html/report_source.h"

namespace plimsoll {

// Returns the page. A source is one run or one plan. The page shows for each source the plan and the map of its arena,
// and for a run also curves, memory and times. With several sources, the page begins with a comparison. Requires: at
// least one source.
std::string report_page(std::span<const ReportSource> sources);

// map_figure() returns the map of an arena as a figure, and peak_table() a table of the buffers that are live at the
// peak. In the figure, buffers smaller than a pixel are drawn together; every sum counts all buffers.
std::string map_figure(const BufferMap& map);
std::string peak_table(const BufferMap& map);

// States whether the sections of a run or plan begin with its title. On a page about one of them the title is omitted, because the page has
// the same title. `id` is a prefix for link targets, unique on the page.
enum class RunTitle : uint8_t { kShown, kOmitted };
std::string run_sections(const ReportSource& source, const std::string& id, RunTitle title);

// Returns the comparison of several runs or plans: figures next to each other, arguments that differ, and curves in one
// chart.
std::string comparison_sections(std::span<const ReportSource> sources);

// Returns charts of the losses, and of each metric of the evaluations, of one or several runs; empty if nothing was
// logged.
std::string curves(std::span<const ReportSource> sources);

// ranks_section() describes the ranks of a run; it is empty for a run of one rank. stage_note() states which stage of a
// pipeline the map shows.
std::string ranks_section(const ReportSource& source, const std::string& id);
std::string stage_note(const ReportSource& source);

// Return the value at a path in nested objects, such as "estimate/ms". If the value is missing or has another type, the
// functions return null, an empty optional, "" or 0.
const nlohmann::json* value_at(const nlohmann::json& json, std::string_view path);
int64_t bytes_at(const nlohmann::json& json, std::string_view path);
// Returns the bytes at the path in MiB, as format_mib().
std::string mib_of(const nlohmann::json& json, std::string_view path);
std::optional<double> number_at(const nlohmann::json& json, std::string_view path);
std::string text_at(const nlohmann::json& json, std::string_view path);

}  // namespace plimsoll
