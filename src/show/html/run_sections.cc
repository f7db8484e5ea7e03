#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/units.h"
#include "show/html/page_parts.h"
#include "show/html/report_page.h"
#include "show/report/plan_table.h"
#include "show/report/quantities.h"

namespace plimsoll {

namespace {

using Json = nlohmann::json;

// Converts a key of plan.json to text: "saved_for_the_backward_pass" to "saved for the backward pass".
std::string with_blanks(std::string key) {
  std::ranges::replace(key, '_', ' ');
  return key;
}

// The phases in the order of a run.
constexpr std::string_view kPhases[] = {"load", "resume", "train", "eval", "generate", "save"};
// The purposes of memory as keys of plan.json, in the order in which tables list them.
constexpr std::string_view kPurposeKeys[] = {"model_weights", "optimizer_states", "gradients",
                                             "saved_for_the_backward_pass", "temporary_buffers"};

// Returns a table of the memory of the device, of the host and of a disk; empty for a run that uses only one of them.
std::string spaces_table(const Json& plan) {
  const Json* spaces = value_at(plan, "spaces");
  if (spaces == nullptr || !spaces->is_array() || spaces->size() < 2) return {};
  HtmlTable table{.head = {"MiB", "arena", "outside the arena", "lower bound of the arena"},
                  .rows = {},
                  .caption = "Memory of the device, of the host and of disks, in MiB"};
  for (const Json& space : *spaces) {
    const std::string name = text_at(space, "name");
    table.rows.push_back({name == "cuda" ? "GPU" : name, mib_of(space, "arena_bytes"),
                          mib_of(space, "constant_bytes"), mib_of(space, "lower_bound_bytes")});
  }
  return table.html();
}

std::string memory_section(const ReportSource& source, const std::string& id) {
  const Json& phases = source.plan["by_phase"];
  HtmlTable table{
      .head = {"MiB"}, .rows = {}, .has_total = true, .caption = "Memory by phase and purpose, in MiB"};
  std::vector<std::string> names;
  for (const std::string_view phase : kPhases) {
    if (phases.contains(phase)) names.emplace_back(phase);
  }
  for (const std::string& name : names) table.head.push_back(name);
  std::vector<std::string> keys;
  for (const std::string_view key : kPurposeKeys) keys.emplace_back(key);
  for (const std::string& name : names) {
    const Json* purposes = value_at(phases[name], "by_purpose");
    if (purposes == nullptr || !purposes->is_object()) continue;
    for (const auto& [key, value] : purposes->items()) {
      if (std::ranges::find(keys, key) == keys.end() && key.find("constant") == std::string::npos)
        keys.push_back(key);
    }
  }
  const auto add_row = [&](const std::string& title, const std::string& path) {
    std::vector<std::string> row{title};
    bool any = false;
    for (const std::string& name : names) {
      row.push_back(mib_of(phases[name], path));
      any = any || bytes_at(phases[name], path) > 0;
    }
    if (any) table.rows.push_back(std::move(row));
  };
  for (const std::string& key : keys) add_row(with_blanks(key), "by_purpose/" + key);
  add_row("gaps between buffers", "gaps_bytes");
  add_row("arena used", "arena_bytes");
  add_row("outside the arena", "constant_bytes");
  add_row("total", "total_bytes");
  std::string body = table.html() + spaces_table(source.plan);
  if (source.has_ended()) {
    const Json& memory = source.memory;
    HtmlTable held{.head = {"MiB", "planned", "held", "measured"},
                   .rows = {},
                   .has_total = true,
                   .caption = "Planned, allocated (held) and measured memory, in MiB"};
    const std::string arena = mib_of(memory, "arena_bytes");
    // The memory outside the arena cannot be measured directly. It is computed as the measured memory of the
    // process minus the size of the arena.
    const int64_t outside = bytes_at(memory, "measured_peak_bytes") - bytes_at(memory, "arena_bytes");
    held.rows.push_back({"arena", arena, arena, mib_of(memory, "arena_high_water_bytes")});
    held.rows.push_back({"outside the arena", mib_of(memory, "constant_bytes"), "-",
                         format_mib(std::max<int64_t>(0, outside))});
    held.rows.push_back(
        {"total", mib_of(memory, "predicted_total_bytes"), "-", mib_of(memory, "measured_peak_bytes")});
    body += held.html();
    if (memory.is_object()) {
      body += html_note(memory_verdict({.predicted_total_bytes = bytes_at(memory, "predicted_total_bytes"),
                                        .arena_bytes = bytes_at(memory, "arena_bytes"),
                                        .arena_high_water_bytes = bytes_at(memory, "arena_high_water_bytes"),
                                        .measured_peak_bytes = bytes_at(memory, "measured_peak_bytes")}));
    }
  }
  return html_section(id + "memory", "Memory", body);
}

// Returns the measured milliseconds per step of each group of operations. The keys are the names of the groups in plan.json.
std::map<std::string, double> measured_groups(const Json& profile) {
  std::map<std::string, double> ms;
  const Json* ops = value_at(profile, "ops");
  if (ops == nullptr || !ops->is_array()) return ms;
  for (const Json& op : *ops) {
    std::string key;
    for (const unsigned char c : text_at(op, "group"))
      key += std::isalnum(c) != 0 ? static_cast<char>(c) : '_';
    ms[key] += number_at(op, "ms").value_or(0);
  }
  return ms;
}

// Groups of operations that take less than this number of milliseconds are not shown.
constexpr double kLeastMs = 1e-4;

std::string operations_section(const ReportSource& source, const std::string& id) {
  const Json& operations = source.plan["operations"];
  const std::map<std::string, double> measured = measured_groups(source.profile);
  HtmlTable table{.head = {"group", "GFLOP", "GB moved", "forward, ms", "backward, ms", "optimizer, ms",
                           "estimated, ms", "share"},
                  .rows = {},
                  .has_total = true,
                  .caption = "Operations of a step"};
  if (!measured.empty()) table.head.emplace_back("measured, ms");
  double total_ms = 0, total_flops = 0, total_bytes = 0, total_measured = 0;
  for (const auto& [key, group] : operations.items())
    total_ms += number_at(group, "estimated_ms").value_or(0);
  std::vector<std::pair<double, std::string>> order;
  for (const auto& [key, group] : operations.items())
    order.emplace_back(-number_at(group, "estimated_ms").value_or(0), key);
  std::ranges::stable_sort(order, {}, &std::pair<double, std::string>::first);
  double segments[3] = {};
  for (const auto& [negative_ms, key] : order) {
    const Json& group = operations[key];
    const double flops = number_at(group, "flops").value_or(0);
    const double bytes = number_at(group, "bytes").value_or(0);
    if (flops == 0 && bytes == 0) continue;
    std::vector<std::string> row{with_blanks(key), short_number(flops / 1e9), short_number(bytes / 1e9)};
    size_t s = 0;
    for (const char* segment : {"forward", "backward", "optimizer"}) {
      const double ms = number_at(group, std::string(segment) + "/estimated_ms").value_or(0);
      segments[s++] += ms;
      row.push_back(ms >= kLeastMs ? short_number(ms) : "-");
    }
    row.push_back(short_number(-negative_ms));
    row.push_back(format_share(-negative_ms, total_ms));
    if (!measured.empty()) {
      const auto it = measured.find(key);
      row.push_back(it == measured.end() ? "-" : short_number(it->second));
      total_measured += it == measured.end() ? 0 : it->second;
    }
    total_flops += flops;
    total_bytes += bytes;
    table.rows.push_back(std::move(row));
  }
  std::vector<std::string> total{"all", short_number(total_flops / 1e9), short_number(total_bytes / 1e9)};
  for (const double ms : segments) total.push_back(ms >= kLeastMs ? short_number(ms) : "-");
  total.push_back(short_number(total_ms));
  total.emplace_back("100 %");
  if (!measured.empty()) total.push_back(short_number(total_measured));
  table.rows.push_back(std::move(total));
  const std::string rates = text_at(source.plan, "estimate/rates");
  return html_section(
      id + "operations", "Operations by group",
      table.html() + (rates.empty() ? "" : html_note("Rates of the estimate: " + rates + ".")));
}

std::string modules_section(const ReportSource& source, const std::string& id) {
  const Json* modules = value_at(source.plan, "modules");
  if (modules == nullptr || !modules->is_array() || modules->empty()) return {};
  HtmlTable table{.head = {"module", "parameters", "weights", "states", "gradients, at most",
                           "saved, at most", "temporary, at most"},
                  .rows = {},
                  .columns = "t",
                  .caption = "Memory by module, in MiB"};
  for (const Json& module : *modules) {
    const std::string name = text_at(module, "module");
    table.rows.push_back({name.empty() ? "(no module)" : name,
                          format_count(bytes_at(module, "num_parameters")), mib_of(module, "weight_bytes"),
                          mib_of(module, "state_bytes"), mib_of(module, "gradient_bytes_at_most"),
                          mib_of(module, "saved_bytes_at_most"), mib_of(module, "temporary_bytes_at_most")});
  }
  return html_section(id + "modules", "Modules",
                      fmt::format("<details><summary>{}</summary>\n", counted(table.rows.size(), "module")) +
                          table.html() + "</details>\n");
}

std::string texts_section(const std::string& id, std::string_view title, const NamedTexts& texts,
                          std::vector<std::string> head, std::string_view note) {
  if (texts.empty()) return {};
  HtmlTable table{.head = std::move(head),
                  .rows = {},
                  .columns = "tt",
                  .caption = std::string(title),
                  .shows_caption = false};
  for (const auto& [name, text] : texts) table.rows.push_back({name, text});
  return html_section(id, title, (note.empty() ? "" : html_note(note)) + table.html());
}

std::string results_section(const ReportSource& source, const std::string& id) {
  if (!source.results.is_object() || source.results.empty()) return {};
  HtmlTable table{.head = {"result", "value"},
                  .rows = {},
                  .caption = "Results (all_results.json)",
                  .shows_caption = false};
  for (const auto& [key, value] : source.results.items()) {
    if (value.is_number()) table.rows.push_back({key, fmt::format("{:.6g}", value.get<double>())});
  }
  return html_section(id + "results", "Results", table.html());
}

std::vector<KeyFigure> key_figures(const ReportSource& source) {
  std::vector<KeyFigure> figures;
  figures.push_back({"planned memory", mib_of(source.plan, "total_bytes") + " MiB", "on the device"});
  if (source.has_ended()) {
    figures.push_back({"measured peak", mib_of(source.memory, "measured_peak_bytes") + " MiB",
                       format_share(number_at(source.memory, "measured_peak_bytes").value_or(0),
                                    number_at(source.memory, "predicted_total_bytes").value_or(0)) +
                           " of the plan"});
  } else if (const auto limit = number_at(source.plan, "request/memory_limit_bytes")) {
    const double total = number_at(source.plan, "total_bytes").value_or(0);
    figures.push_back({"limit", format_mib(std::llround(*limit)) + " MiB",
                       total <= *limit ? "the plan fits" : "the plan does not fit"});
  }
  if (const auto speed = number_at(source.results, "train_samples_per_second")) {
    figures.push_back({"speed", short_number(*speed) + " samples/s", "measured"});
  }
  if (const auto speed = number_at(source.plan, "estimate/samples_per_second")) {
    figures.push_back({"estimated speed", short_number(*speed) + " samples/s",
                       short_number(number_at(source.plan, "estimate/ms").value_or(0)) + " ms per step"});
  }
  for (const char* key : {"train_loss", "eval_loss", "eval_accuracy", "eval_f1"}) {
    if (const auto value = number_at(source.results, key)) {
      std::string name(key);
      std::ranges::replace(name, '_', ' ');
      figures.push_back({name, short_number(*value), ""});
    }
  }
  if (const auto parameters = number_at(source.plan, "parameters/num_parameters"))
    figures.push_back({"parameters", format_count(std::llround(*parameters)), ""});
  return figures;
}

// Converts a type name of Plimsoll to that of training frameworks: "f32" to "fp32".
std::string precision_name(const std::string& dtype) {
  return dtype == "f32" || dtype == "f16" ? "fp" + dtype.substr(1) : dtype;
}

std::string subtitle(const ReportSource& source) {
  std::string text = text_at(source.report, "model");
  if (text.empty()) text = text_at(source.plan, "request/model");
  const auto add = [&](const std::string& part) {
    if (!part.empty()) text += ", " + part;
  };
  const std::string weights = precision_name(text_at(source.plan, "request/dtype"));
  const std::string products = precision_name(text_at(source.plan, "request/activation_dtype"));
  add(weights == products ? weights : products + " mixed");
  add(text_at(source.plan, "request/optimizer"));
  if (const std::string device = text_at(source.report, "device"); !device.empty()) text += " on " + device;
  if (source.is_run && !source.has_ended())
    text += "; the run has not ended, or was ended before it wrote its results";
  return text;
}

}  // namespace

const nlohmann::json* value_at(const nlohmann::json& json, std::string_view path) {
  const Json* value = &json;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    const std::string key(path.substr(0, slash));
    if (!value->is_object() || !value->contains(key)) return nullptr;
    value = &(*value)[key];
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
  }
  return value;
}

int64_t bytes_at(const nlohmann::json& json, std::string_view path) {
  const std::optional<double> value = number_at(json, path);
  return value && std::fabs(*value) < 9e15 ? std::llround(*value) : 0;
}

std::string mib_of(const nlohmann::json& json, std::string_view path) {
  return format_mib(bytes_at(json, path));
}

std::optional<double> number_at(const nlohmann::json& json, std::string_view path) {
  const Json* value = value_at(json, path);
  return value != nullptr && value->is_number() ? std::optional(value->get<double>()) : std::nullopt;
}

std::string text_at(const nlohmann::json& json, std::string_view path) {
  const Json* value = value_at(json, path);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

std::string run_sections(const ReportSource& source, const std::string& id, RunTitle title) {
  std::string body = fmt::format("<article id=\"{}\">\n", html_escaped(id));
  if (title == RunTitle::kShown) body += fmt::format("<h2>{}</h2>\n", html_escaped(source.short_name));
  body += fmt::format("<p class=\"sub\">{}</p>\n", html_escaped(subtitle(source)));
  const std::string prefix = id + "-";
  body += key_figures_html(key_figures(source));
  body += html_section(
      prefix + "map", "Map of the arena",
      source.map ? stage_note(source) + map_figure(*source.map) + peak_table(*source.map)
                 : html_note("The folder has no report.json, so the buffers of the plan are not known. A run "
                             "writes this file before its first step."));
  body += memory_section(source, prefix);
  body += ranks_section(source, prefix);
  if (const std::string charts = curves({&source, 1}); !charts.empty())
    body += html_section(prefix + "curves", "Loss and metrics", charts);
  body +=
      operations_section(source, prefix) + modules_section(source, prefix) + results_section(source, prefix);
  body += texts_section(prefix + "arguments", "Arguments", source.arguments(), {"argument", "value"},
                        "Arguments whose values differ from the defaults.");
  body += texts_section(prefix + "environment", "Environment", source.environment(), {"part", "value"}, "");
  return body + "</article>\n";
}

}  // namespace plimsoll
