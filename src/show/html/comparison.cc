#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/units.h"
#include "show/html/page_parts.h"
#include "show/html/report_page.h"
#include "show/report/picture.h"
#include "show/report/quantities.h"

namespace plimsoll {
namespace {

// The largest number of points per curve. A curve with more points is divided into intervals, and only the lowest and
// the highest value of each interval are drawn, which looks the same.
constexpr size_t kMostPoints = 1200;

std::vector<PlotPoint> thinned(const std::vector<PlotPoint>& points) {
  if (points.size() <= kMostPoints) return points;
  std::vector<PlotPoint> kept;
  const size_t interval = (2 * points.size() + kMostPoints - 1) / kMostPoints;
  for (size_t begin = 0; begin < points.size(); begin += interval) {
    const auto first = points.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = points.begin() + static_cast<std::ptrdiff_t>(std::min(points.size(), begin + interval));
    auto [low, high] = std::minmax_element(
        first, last, [](const PlotPoint& a, const PlotPoint& b) { return a.second < b.second; });
    if (high < low) std::swap(low, high);
    kept.push_back(*low);
    if (low != high) kept.push_back(*high);
  }
  return kept;
}

std::vector<PlotPoint> curve_points(const ReportSource& source, const std::string& key) {
  std::vector<PlotPoint> points;
  for (const LogRecord& record : source.history) {
    const auto it = record.values.find(key);
    if (it != record.values.end() && std::isfinite(it->second))
      points.emplace_back(static_cast<double>(record.step), it->second);
  }
  return thinned(points);
}

std::pair<double, double> value_range(const std::vector<PlotPoint>& points) {
  double low = points.front().second;
  double high = low;
  for (const auto& [x, y] : points) {
    low = std::min(low, y);
    high = std::max(high, y);
  }
  if (low >= 0 && low < 0.7 * high) low = 0;
  const double margin = high > low ? 0.05 * (high - low) : std::max(0.5, 0.1 * std::fabs(high));
  // If no value is negative, the axis must not extend below zero.
  return {low >= 0 ? std::max(0.0, low - margin) : low - margin, high + margin};
}

// A curve of a chart: the key under which the log stores its values, its name in the legend, and whether the line is dashed.
struct CurveKey {
  std::string key;
  std::string name;
  bool is_dashed = false;
};

std::string chart_of(std::span<const ReportSource> sources, const std::string& label,
                     const std::vector<CurveKey>& keys) {
  std::vector<PlotPoint> all;
  for (const ReportSource& source : sources) {
    for (const CurveKey& key : keys) {
      const std::vector<PlotPoint> points = curve_points(source, key.key);
      all.insert(all.end(), points.begin(), points.end());
    }
  }
  if (all.empty()) return {};
  double last_step = 1;
  for (const auto& [x, y] : all) last_step = std::max(last_step, x);
  const auto [low, high] = value_range(all);
  PageChart chart({.low = 0, .high = last_step, .label = "optimizer step"},
                  {.low = low, .high = high, .label = label}, label + " over optimizer steps");
  for (size_t s = 0; s < sources.size(); ++s) {
    for (size_t k = 0; k < keys.size(); ++k) {
      const std::vector<PlotPoint> points = curve_points(sources[s], keys[k].key);
      if (points.empty()) continue;
      const std::string_view colour = line_colour(sources.size() == 1 ? k : s);
      chart.line(points, colour, keys[k].is_dashed);
      if (keys[k].is_dashed || points.size() < 3) chart.dots(points, colour);
      chart.legend(colour, sources.size() == 1 ? keys[k].name : sources[s].short_name + ", " + keys[k].name,
                   keys[k].is_dashed ? "dash" : "line");
    }
  }
  return chart.html();
}

std::set<std::string> quality_metrics(std::span<const ReportSource> sources) {
  std::set<std::string> keys;
  for (const ReportSource& source : sources) {
    for (const LogRecord& record : source.history) {
      for (const auto& [key, value] : record.values) {
        if (is_quality_metric(key)) keys.insert(key);
      }
    }
  }
  return keys;
}

// A figure in the table that compares runs: its name, and its path in one of the JSON files of a run. Each run has a column.
struct ComparedFigure {
  const char* name;
  const char* path;
  enum class From : uint8_t { kPlan, kMemory, kResults } from;
  bool is_bytes = false;
};
constexpr ComparedFigure kFigures[] = {
    {"planned memory, MiB", "total_bytes", ComparedFigure::From::kPlan, true},
    {"measured peak, MiB", "measured_peak_bytes", ComparedFigure::From::kMemory, true},
    {"weights, MiB", "by_purpose/model_weights", ComparedFigure::From::kPlan, true},
    {"optimizer states, MiB", "by_purpose/optimizer_states", ComparedFigure::From::kPlan, true},
    {"gradients, MiB", "by_purpose/gradients", ComparedFigure::From::kPlan, true},
    {"saved for the backward pass, MiB", "by_purpose/saved_for_the_backward_pass",
     ComparedFigure::From::kPlan, true},
    {"temporary buffers, MiB", "by_purpose/temporary_buffers", ComparedFigure::From::kPlan, true},
    {"estimated time of a step, ms", "estimate/ms", ComparedFigure::From::kPlan},
    {"estimated samples/s", "estimate/samples_per_second", ComparedFigure::From::kPlan},
    {"measured samples/s", "train_samples_per_second", ComparedFigure::From::kResults},
    {"measured run time, s", "train_runtime", ComparedFigure::From::kResults},
    {"training loss", "train_loss", ComparedFigure::From::kResults},
    {"evaluation loss", "eval_loss", ComparedFigure::From::kResults},
};

std::string figure_text(const ReportSource& source, const ComparedFigure& figure) {
  const nlohmann::json& from = figure.from == ComparedFigure::From::kPlan     ? source.plan
                               : figure.from == ComparedFigure::From::kMemory ? source.memory
                                                                              : source.results;
  const std::optional<double> value = number_at(from, figure.path);
  if (!value) return "-";
  return figure.is_bytes ? format_mib(std::llround(*value)) : short_number(*value);
}

std::vector<std::string> run_names(std::span<const ReportSource> sources, std::string first) {
  std::vector<std::string> names{std::move(first)};
  for (const ReportSource& source : sources) names.push_back(source.short_name);
  return names;
}

std::string figures_table(std::span<const ReportSource> sources) {
  HtmlTable table{.head = run_names(sources, "figure"),
                  .rows = {},
                  .caption = "Memory, time and results side by side",
                  .shows_caption = false};
  const auto add = [&](std::vector<std::string> row) {
    if (std::ranges::any_of(row.begin() + 1, row.end(), [](const std::string& cell) { return cell != "-"; }))
      table.rows.push_back(std::move(row));
  };
  for (const ComparedFigure& figure : kFigures) {
    std::vector<std::string> row{figure.name};
    for (const ReportSource& source : sources) row.push_back(figure_text(source, figure));
    add(std::move(row));
  }
  std::set<std::string> metrics;
  for (const ReportSource& source : sources) {
    if (!source.results.is_object()) continue;
    for (const auto& [key, value] : source.results.items()) {
      if (is_quality_metric(key)) metrics.insert(key);
    }
  }
  for (const std::string& key : metrics) {
    std::vector<std::string> row{key};
    for (const ReportSource& source : sources) {
      const std::optional<double> value = number_at(source.results, key);
      row.push_back(value ? short_number(*value) : "-");
    }
    add(std::move(row));
  }
  return table.html();
}

// Arguments that name files or the run itself. They differ between any two runs, so they are left out of the list of arguments that
// differ.
constexpr std::string_view kOwnNames[] = {"output_dir", "run_name", "html", "trace", "json"};

std::string differences_table(std::span<const ReportSource> sources) {
  std::vector<std::map<std::string, std::string>> all;
  std::set<std::string> names;
  for (const ReportSource& source : sources) {
    all.emplace_back();
    for (auto& [name, text] : source.arguments()) {
      all.back()[name] = text;
      names.insert(name);
    }
  }
  HtmlTable table{.head = run_names(sources, "argument"),
                  .rows = {},
                  .columns = std::string(sources.size() + 1, 't'),
                  .caption = "Arguments that differ",
                  .shows_caption = false};
  for (const std::string& name : names) {
    if (std::ranges::find(kOwnNames, name) != std::ranges::end(kOwnNames)) continue;
    std::vector<std::string> row{name};
    bool differs = false;
    for (const auto& arguments : all) {
      const auto it = arguments.find(name);
      row.push_back(it == arguments.end() ? "(default)" : it->second);
      differs = differs || row.back() != row[1];
    }
    if (differs) table.rows.push_back(std::move(row));
  }
  return table.rows.empty() ? html_note("All arguments of the runs are the same.") : table.html();
}

}  // namespace

std::string curves(std::span<const ReportSource> sources) {
  std::string html =
      chart_of(sources, "loss", {{"loss", "training loss", false}, {"eval_loss", "evaluation loss", true}});
  for (const std::string& key : quality_metrics(sources))
    html += chart_of(sources, key.substr(5), {{key, key.substr(5), true}});
  html += chart_of(sources, "learning rate", {{"learning_rate", "learning rate", false}});
  html += chart_of(sources, "norm of the gradient", {{"grad_norm", "norm of the gradient", false}});
  return html.empty() ? html : "<div class=\"charts\">\n" + html + "</div>\n";
}

std::string comparison_sections(std::span<const ReportSource> sources) {
  std::string body = html_section("figures", "Side by side", figures_table(sources)) +
                     html_section("differences", "Arguments that differ", differences_table(sources));
  if (const std::string charts = curves(sources); !charts.empty())
    body += html_section("curves", "Curves", charts);
  return "<article id=\"comparison\">\n<h2>Comparison</h2>\n" + body + "</article>\n";
}

}  // namespace plimsoll
