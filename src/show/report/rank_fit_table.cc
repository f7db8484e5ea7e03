#include "show/report/rank_fit_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "base/units.h"
#include "show/report/quantities.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

constexpr size_t kRankFitWidth = 80;

std::string whole_mib(int64_t bytes) {
  return fmt::format("{}", (bytes + kMiB - 1) / kMiB);
}

// Formats the size of a micro-batch and the number of micro-batches: "8" or "4 x 2".
std::string split_of(const RankFitRow& row) {
  if (row.accumulation == 1) return fmt::format("{}", row.micro_batch);
  return fmt::format("{} x {}", row.micro_batch, row.accumulation);
}

// Formats the size of a tensor-parallel group: "2", or "2s" with sequence parallelism; "c2" for a group that divides tokens (--cp_size).
std::string tensor_of(const RankFitRow& row) {
  if (row.context_size > 1) return fmt::format("c{}", row.context_size);
  return fmt::format("{}{}", row.tensor_size, row.sequence_parallel ? "s" : "");
}

std::string format_line(size_t number, const RankFitRow& row) {
  return fmt::format("{:>3} {:>3} {:>3} {:>5} {:>4} {:>9} {:>8} {:>8} {:>8} {:>10} {:>9}\n", number,
                     tensor_of(row), row.pipeline_size, row.data_size, row.zero_stage, row.recompute,
                     split_of(row), whole_mib(row.bytes), whole_mib(row.communication_bytes),
                     short_number(row.samples_per_s),
                     fmt::format("{:.1f} %", row.step_ms > 0 ? 100 * row.exposed_ms / row.step_ms : 0.0));
}

}  // namespace

std::string rank_fit_table(const RankFitReport& report, const RankFitContext& context) {
  std::string text = wrapped(context.subject, kRankFitWidth) + "\n";
  text += fmt::format("{:>3} {:>3} {:>3} {:>5} {:>4} {:>9} {:>8} {:>8} {:>8} {:>10} {:>9}\n", "", "tp", "pp",
                      "data", "zero", "recompute", "batch", "MiB", "of that", "samples/s", "waiting");
  text += fmt::format("{:>3} {:>3} {:>3} {:>5} {:>4} {:>9} {:>8} {:>8} {:>8} {:>10} {:>9}\n", "", "", "", "",
                      "", "", "per GPU", "per GPU", "links", "estimated", "for GPUs");
  for (size_t i = 0; i < report.rows.size(); ++i) text += format_line(i + 1, report.rows[i]);
  if (std::ranges::any_of(report.rows, &RankFitRow::sequence_parallel))
    text += "s: with --sequence_parallel\n";
  if (std::ranges::any_of(report.rows, [](const RankFitRow& row) { return row.context_size > 1; }))
    text += "c: --cp_size instead of --tp_size\n";
  text += "\n" + wrapped("links: " + report.links, kRankFitWidth);
  for (const RankFitRefusal& refusal : report.refused)
    text += wrapped(fmt::format("not possible: {}: {}", refusal.choice, refusal.reason), kRankFitWidth);
  text += wrapped(
      fmt::format(
          "searched: {} of GPUs and batch, with and without recomputation, in {:.1f} s; {} of them were not "
          "planned, because they need too much memory or fit with less recomputation",
          counted(report.num_choices, "division"), report.seconds, report.num_pruned),
      kRankFitWidth);
  text += "\nto train row\n";
  for (size_t i = 0; i < report.rows.size(); ++i) {
    const std::vector<std::string>& commands = report.rows[i].commands;
    for (size_t k = 0; k < commands.size(); ++k)
      text += fmt::format("{:>3}  {}\n", k == 0 ? fmt::format("{}", i + 1) : "or", commands[k]);
  }
  if (!context.to_fill_in.empty()) text += wrapped("where " + context.to_fill_in, kRankFitWidth);
  return text;
}

std::string rank_fit_json(const RankFitReport& report, const RankFitContext& context) {
  Json rows = Json::array();
  for (const RankFitRow& row : report.rows) {
    rows.push_back({{"tp_size", row.tensor_size},
                    {"sequence_parallel", row.sequence_parallel},
                    {"cp_size", row.context_size},
                    {"pp_size", row.pipeline_size},
                    {"data_size", row.data_size},
                    {"zero_stage", row.zero_stage},
                    {"recompute", row.recompute},
                    {"per_device_train_batch_size", row.micro_batch},
                    {"gradient_accumulation_steps", row.accumulation},
                    {"bytes", row.bytes},
                    {"weight_bytes", row.weight_bytes},
                    {"state_bytes", row.state_bytes},
                    {"gradient_bytes", row.gradient_bytes},
                    {"activation_bytes", row.activation_bytes},
                    {"communication_bytes", row.communication_bytes},
                    {"samples_per_s", row.samples_per_s},
                    {"step_ms", row.step_ms},
                    {"exposed_ms", row.exposed_ms},
                    {"commands", row.commands}});
  }
  Json refused = Json::array();
  for (const RankFitRefusal& refusal : report.refused)
    refused.push_back({{"choice", refusal.choice}, {"reason", refusal.reason}});
  const Json object{{"schema_version", 1},
                    {"subject", context.subject},
                    {"to_fill_in", context.to_fill_in},
                    {"links", report.links},
                    {"num_choices", report.num_choices},
                    {"num_pruned", report.num_pruned},
                    {"num_plans", report.num_plans},
                    {"seconds", report.seconds},
                    {"warnings", report.warnings},
                    {"notes", report.notes},
                    {"refused", std::move(refused)},
                    {"rows", std::move(rows)}};
  return python_json(object, 2) + "\n";
}

}  // namespace plimsoll
