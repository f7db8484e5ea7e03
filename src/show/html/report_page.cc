#include "show/html/report_page.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/units.h"
#include "show/html/page_parts.h"

namespace plimsoll {

std::string report_page(std::span<const ReportSource> sources) {
  PLIMSOLL_CHECK(!sources.empty(), "a report needs at least one run or plan");
  const bool is_comparison = sources.size() > 1;
  const std::string title = is_comparison ? "Comparison of " + counted(sources.size(), "run")
                                          : (sources[0].is_run ? "Run " : "Plan of ") + sources[0].short_name;
  std::string body = "<header>\n<h1>" + html_escaped(title) + "</h1>\n";
  const auto link = [](const std::string& id, std::string_view words) {
    return fmt::format("<a href=\"#{}\">{}</a>\n", id, html_escaped(words));
  };
  const auto id_of = [](size_t i) { return "run" + std::to_string(i + 1); };
  body += "<nav aria-label=\"Parts of the report\">\n";
  if (is_comparison) {
    body += link("comparison", "comparison");
    for (size_t i = 0; i < sources.size(); ++i) body += link(id_of(i), sources[i].short_name);
  } else {
    for (const char* part : {"map", "memory", "operations", "arguments"})
      body += link(id_of(0) + "-" + part, part);
  }
  body += "</nav>\n</header>\n";
  if (is_comparison) body += comparison_sections(sources);
  for (size_t i = 0; i < sources.size(); ++i)
    body += run_sections(sources[i], id_of(i), is_comparison ? RunTitle::kShown : RunTitle::kOmitted);
  body += "<footer>Written by Plimsoll. This file needs no network and no other file.</footer>\n";
  return html_page(title, body);
}

}  // namespace plimsoll
