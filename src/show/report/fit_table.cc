#include "show/report/fit_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/python_json.h"
#include "base/units.h"
#include "show/report/quantities.h"

namespace plimsoll {
namespace {

constexpr size_t kMostRows = 12;

std::string methods_text(const FitRow& row) {
  return row.methods.empty() ? "as it is" : fmt::format("{}", fmt::join(row.methods, ", "));
}

std::string count_or_dash(int64_t count) {
  return count > 0 ? fmt::format("{}", count) : "-";
}

// A word as a shell takes it for what it is.
std::string quoted(const std::string& word) {
  return word.find_first_of("*?[ ") == std::string::npos ? word : "'" + word + "'";
}

std::string words_of(const FitRow& row) {
  std::string words;
  for (const std::string& word : row.arguments) words += " " + quoted(word);
  return words;
}

std::string command_of(const FitRow& row, const FitTableContext& context) {
  return "plimsoll train " + context.command + words_of(row);
}

// How to run the first `num_rows` of them: what their commands have in common is said once.
std::string commands_text(const FitReport& report, const FitTableContext& context, size_t num_rows) {
  if (num_rows == 0) return {};
  const FitRow& first = report.rows.front();
  std::string text =
      fmt::format("to run the first{}:\n  {}\n", context.compares_cards ? ", on " + first.device : "",
                  command_of(first, context));
  if (num_rows > 1) text += "to run another: plimsoll train " + context.command + ", and\n";
  for (size_t i = 1; i < num_rows; ++i) text += fmt::format("{:>4} {}\n", i + 1, words_of(report.rows[i]));
  return text;
}

// 0 is what a row has that was not asked.
nlohmann::json count_or_null(int64_t count) {
  return count > 0 ? nlohmann::json(count) : nlohmann::json(nullptr);
}

}  // namespace

std::string fit_table(const FitReport& report, const FitTableContext& context) {
  std::string text = context.subject + "\n\n";
  text += context.compares_cards
              ? fmt::format("{:>4}  {:<11} {:>10}  {:<28} {:>7} {:>9} {:>10} {:>10}\n", "rank", "card",
                            "micro x acc", "methods", "MiB", "samples/s", "h / epoch", "cost")
              : fmt::format("{:>4}  {:>11}  {:<32} {:>7} {:>9} {:>9} {:>8} {:>8}\n", "rank", "micro x acc",
                            "methods", "MiB", "samples/s", "vs. plain", "largest", "longest");
  size_t rank = 0;
  for (const FitRow& row : report.rows) {
    if (row.micro_batch == 0 || rank == kMostRows) break;
    const std::string split = fmt::format("{} x {}", row.micro_batch, row.accumulation);
    const int64_t mib = (row.total_bytes + kMiB - 1) / kMiB;
    if (context.compares_cards) {
      const double hours = static_cast<double>(context.epoch_samples) / row.samples_per_s / 3600;
      text += fmt::format("{:>4}  {:<11} {:>11}  {} {:>7} {:>9} {:>10.2f} {:>10}\n", ++rank, row.device,
                          split, left_aligned(shortened(methods_text(row), 28), 28), mib,
                          short_number(row.samples_per_s), hours,
                          row.epoch_cost > 0 ? fmt::format("{:.2f}", row.epoch_cost) : "-");
    } else {
      text += fmt::format("{:>4}  {:>11}  {} {:>7} {:>9} {:>7.1f} x {:>8} {:>8}\n", ++rank, split,
                          left_aligned(shortened(methods_text(row), 32), 32), mib,
                          short_number(row.samples_per_s), row.relative_speed,
                          count_or_dash(row.largest_batch), count_or_dash(row.longest_sequence));
    }
  }
  if (!context.compares_cards && rank > 0) {
    text +=
        "largest: batch that fits without accumulation; longest: tokens of a sequence that fit with this "
        "split\n";
  }
  size_t others = 0;
  for (const FitRow& row : report.rows) {
    if (row.micro_batch > 0) continue;
    if (others++ == 0) text += "does not fit, and needs at the least:\n";
    if (others > 4) continue;
    text += fmt::format("  {}{}: {} MiB\n", context.compares_cards ? row.device + ", " : "",
                        methods_text(row), (row.smallest_bytes + kMiB - 1) / kMiB);
  }
  if (others > 4) text += fmt::format("  and {} more\n", others - 4);
  std::istringstream lines(report.refused);
  for (std::string line; std::getline(lines, line);) text += wrapped(line, 100, 4);
  text += commands_text(report, context, rank);
  return text +
         fmt::format("{} plans, {:.0f} a second; samples/s are estimates (docs/MEMORY.md says what of)\n",
                     report.num_plans, report.plans_per_s);
}

std::string fit_json(const FitReport& report, const FitTableContext& context) {
  nlohmann::json rows = nlohmann::json::array();
  for (const FitRow& row : report.rows) {
    rows.push_back({{"device", row.device},
                    {"methods", row.methods},
                    {"per_device_train_batch_size", row.micro_batch},
                    {"gradient_accumulation_steps", row.accumulation},
                    {"fits", row.micro_batch > 0},
                    {"total_bytes", row.total_bytes},
                    {"samples_per_second", row.samples_per_s},
                    {"relative_speed", row.relative_speed},
                    {"largest_batch", count_or_null(row.largest_batch)},
                    {"longest_sequence", count_or_null(row.longest_sequence)},
                    {"smallest_bytes", row.smallest_bytes},
                    {"epoch_cost", row.epoch_cost},
                    {"arguments", row.arguments},
                    {"command", row.micro_batch > 0 ? command_of(row, context) : ""}});
  }
  const nlohmann::json object{{"schema_version", 1},
                              {"subject", context.subject},
                              {"plans", report.num_plans},
                              {"plans_per_second", report.plans_per_s},
                              {"rows", std::move(rows)}};
  return python_json(object, 2) + "\n";
}

}  // namespace plimsoll
