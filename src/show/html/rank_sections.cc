#include <fmt/format.h>

#include <algorithm>

#include "show/html/page_parts.h"
#include "show/html/report_page.h"
#include "show/report/quantities.h"

namespace plimsoll {

// Tells the reader which stage of the pipeline the map shows, because stages have different plans.
std::string stage_note(const ReportSource& source) {
  const std::optional<double> stage = number_at(source.report, "stage");
  if (!stage) return {};
  return html_note(fmt::format("This is stage {} of the pipeline, which needs the most memory of {} stages.",
                               *stage, bytes_at(source.report, "ranks/pipeline")));
}

std::string ranks_section(const ReportSource& source, const std::string& id) {
  const int64_t count = bytes_at(source.report, "ranks/count");
  if (count <= 1) return {};
  const int64_t data = bytes_at(source.report, "ranks/data");
  const int64_t tensor = bytes_at(source.report, "ranks/tensor");
  std::string parts;
  const auto add = [&](int64_t size, const char* what) {
    if (size > 1) parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", size, what);
  };
  add(data, "with different batches");
  add(tensor, "that divide the tensors of a layer");
  const nlohmann::json* stages = value_at(source.plan, "pipeline/stages");
  const bool has_stages = stages != nullptr && stages->is_array();
  if (has_stages) add(static_cast<int64_t>(stages->size()), "stages of a pipeline");
  std::string body = html_note(fmt::format("{} ranks: {}.", count, parts));
  HtmlTable table{.head = {"rank", "layers", "saved, MiB", "arena, MiB", "total, MiB", "busy, ms"},
                  .rows = {},
                  .columns = "tt",
                  .caption = "Memory of each stage"};
  if (has_stages) {
    const int64_t largest = source.report.contains("stage") && source.report["stage"].is_number()
                                ? bytes_at(source.report, "stage")
                                : -1;
    table.head[0] = "stage";
    for (size_t i = 0; i < stages->size(); ++i) {
      const nlohmann::json& stage = (*stages)[i];
      const int64_t first = bytes_at(stage, "first_layer");
      const int64_t layers = bytes_at(stage, "layers");
      table.rows.push_back({fmt::format("{}{}", i, static_cast<int64_t>(i) == largest ? " (map above)" : ""),
                            layers == 0 ? "-" : fmt::format("{} to {}", first, first + layers - 1),
                            mib_of(stage, "saved_bytes"), mib_of(stage, "arena_bytes"),
                            mib_of(stage, "total_bytes"),
                            short_number(number_at(stage, "busy_ms").value_or(0))});
    }
    body += table.html();
    const double bubble = number_at(source.plan, "pipeline/bubble").value_or(0);
    body += html_note(fmt::format("A step takes {} ms; the slowest stage waits for {} of it.",
                                  short_number(number_at(source.plan, "pipeline/step_ms").value_or(0)),
                                  format_share(bubble, 1)));
  } else {
    HtmlTable equal{
        .head = {"rank", "arena, MiB", "total, MiB"}, .rows = {}, .caption = "Memory of each rank"};
    const int64_t total = bytes_at(source.plan, "total_bytes");
    const int64_t arena = source.map ? source.map->arena_bytes : 0;
    constexpr int64_t kMostRows = 8;
    for (int64_t r = 0; r < std::min(count, kMostRows); ++r)
      equal.rows.push_back({std::to_string(r), format_mib(arena), format_mib(total)});
    if (count > kMostRows)
      equal.rows.push_back(
          {fmt::format("each of {} more", count - kMostRows), format_mib(arena), format_mib(total)});
    body += equal.html() + html_note("All ranks have the same plan; the map is that of each of them.");
  }
  return html_section(id + "ranks", "Ranks", body);
}

}  // namespace plimsoll
