#include "show/report/fit_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <sstream>
#include <utility>

#include "base/json.h"
#include "base/units.h"
#include "show/report/quantities.h"

namespace plimsoll {
namespace {

constexpr size_t kMostRows = 12;
// Widths of the columns with methods.
constexpr size_t kMethodsWidth = 30;
constexpr size_t kMethodsWidthOfCards = 26;

std::string format_methods(const FitRow& row) {
  return row.methods.empty() ? "as it is" : fmt::format("{}", fmt::join(row.methods, ", "));
}

bool lacks_masters(const FitRow& row) {
  return std::ranges::find(row.methods, "pure_bf16") != row.methods.end();
}

std::string_view effect_word(const FitRow& row) {
  switch (row.effect) {
    case MethodEffect::kSameBits:
    case MethodEffect::kSameSums:
      return "same";
    case MethodEffect::kRounding:
      return "rounded";
    case MethodEffect::kOtherPath:
      break;
  }
  return "other";
}

// Returns the effect on training, with a star if there are no fp32 master weights.
std::string format_trainable(const FitRow& row) {
  return std::string(effect_word(row)) + (lacks_masters(row) ? "*" : "");
}

std::string count_or_dash(int64_t count) {
  return count > 0 ? fmt::format("{}", count) : "-";
}

// Quotes a word for the shell if necessary.
std::string quoted(const std::string& word) {
  return word.find_first_of("*?[ ") == std::string::npos ? word : "'" + word + "'";
}

std::string words_of(const FitRow& row) {
  std::string words;
  for (const std::string& word : row.arguments) words += (words.empty() ? "" : " ") + quoted(word);
  return words;
}

std::string command_of(const FitRow& row, const FitTableContext& context) {
  return "plimsoll train " + context.command + " " + words_of(row);
}

// Returns the rows of a table that fit.
std::span<const FitRow> shown_rows(const FitReport& report, size_t most) {
  const auto end = std::ranges::find(report.rows, 0, &FitRow::micro_batch);
  const auto count = std::min(static_cast<size_t>(end - report.rows.begin()), most);
  return std::span(report.rows).first(count);
}

// Returns the fastest row, followed by rows that preserve more of the training than all rows before them.
std::vector<const FitRow*> chosen_rows(const FitReport& report, const FitTableContext& context) {
  std::vector<const FitRow*> rows;
  std::optional<MethodEffect> least;
  for (const FitRow& row : shown_rows(report, report.rows.size())) {
    const bool is_more_alike = !least || row.effect < *least;
    if (rows.size() >= kMostRows && (!is_more_alike || context.compares_cards)) continue;
    rows.push_back(&row);
    least = std::min(least.value_or(row.effect), row.effect);
  }
  return rows;
}

// Formats the commands; their common arguments are printed once.
std::string format_commands(const std::vector<const FitRow*>& rows, const FitTableContext& context) {
  if (rows.empty()) return {};
  std::string text = "to run the first:\n  " + command_of(*rows.front(), context) + "\n";
  if (!context.to_fill_in.empty()) text += wrapped("where " + context.to_fill_in);
  if (rows.size() > 1) text += "to run another: plimsoll train " + context.command + ", and\n";
  for (size_t i = 1; i < rows.size(); ++i) text += fmt::format("{:>4}  {}\n", i + 1, words_of(*rows[i]));
  return text;
}

// Groups the cards that use the same arguments.
std::string format_card_commands(const std::vector<const FitRow*>& rows, const FitTableContext& context) {
  if (rows.empty()) return {};
  std::vector<std::pair<std::string, std::vector<std::string>>> cards_by_words;
  for (const FitRow* row : rows) {
    const std::string words = words_of(*row);
    auto it =
        std::ranges::find(cards_by_words, words, &std::pair<std::string, std::vector<std::string>>::first);
    if (it == cards_by_words.end()) it = cards_by_words.insert(it, {words, {}});
    it->second.push_back(row->device);
  }
  std::string text = "to run one: plimsoll train " + context.command + ", and\n";
  for (const auto& [words, cards] : cards_by_words)
    text += wrapped(fmt::format("on {}: {}", fmt::join(cards, ", "), words), 100, 4);
  if (!context.to_fill_in.empty()) text += wrapped("where " + context.to_fill_in);
  return text;
}

// Returns the names of the methods in lines of at most `width` columns; the first line is part of the row,
// the others follow it.
std::vector<std::string> method_lines(const FitRow& row, size_t width) {
  std::vector<std::string> lines{""};
  const std::vector<std::string> names =
      row.methods.empty() ? std::vector<std::string>{"as it is"} : row.methods;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string name = names[i] + (i + 1 < names.size() ? "," : "");
    if (!lines.back().empty() && lines.back().size() + 1 + name.size() > width) lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + name;
  }
  return lines;
}

// Formats a row with the text before and after the names; further lines are aligned below the first.
std::string format_row(const std::string& before, const FitRow& row, size_t width,
                       const std::string& behind) {
  const std::vector<std::string> lines = method_lines(row, width);
  std::string text = before + left_aligned(lines.front(), width) + behind + "\n";
  for (size_t i = 1; i < lines.size(); ++i) text += std::string(before.size(), ' ') + lines[i] + "\n";
  return text;
}

std::string card_table(const std::vector<const FitRow*>& rows, int64_t epoch_samples) {
  std::string text = fmt::format("{:>4}  {:<10} {:>11}  {:<{}} {:<8} {:>6} {:>9} {:>9} {:>7}\n", "rank",
                                 "card", "micro x acc", "methods", kMethodsWidthOfCards, "trains", "MiB",
                                 "samples/s", "h / epoch", "cost");
  size_t rank = 0;
  for (const FitRow* row : rows) {
    const double hours = static_cast<double>(epoch_samples) / row->samples_per_s / 3600;
    text +=
        format_row(fmt::format("{:>4}  {:<10} {:>11}  ", ++rank, row->device,
                               fmt::format("{} x {}", row->micro_batch, row->accumulation)),
                   *row, kMethodsWidthOfCards,
                   fmt::format(" {:<8} {:>6} {:>9} {:>9.2f} {:>7}", format_trainable(*row),
                               (row->total_bytes + kMiB - 1) / kMiB, short_number(row->samples_per_s), hours,
                               row->epoch_cost > 0 ? fmt::format("{:.2f}", row->epoch_cost) : "-"));
  }
  return text;
}

bool has_own_row(const std::vector<const FitRow*>& rows) {
  return std::ranges::any_of(rows, [](const FitRow* row) { return row->methods.empty(); });
}

std::string format_method_table(const std::vector<const FitRow*>& rows) {
  std::string text = fmt::format("{:>4} {:>11}  {:<{}} {:<8} {:>6} {:>9} {:>9} {:>7} {:>7}\n", "rank",
                                 "micro x acc", "methods", kMethodsWidth, "trains", "MiB", "samples/s",
                                 has_own_row(rows) ? "vs. as is" : "vs. first", "largest", "longest");
  size_t rank = 0;
  for (const FitRow* row : rows) {
    text += format_row(
        fmt::format("{:>4} {:>11}  ", ++rank, fmt::format("{} x {}", row->micro_batch, row->accumulation)),
        *row, kMethodsWidth,
        fmt::format(" {:<8} {:>6} {:>9} {:>7.2f} x {:>7} {:>7}", format_trainable(*row),
                    (row->total_bytes + kMiB - 1) / kMiB, short_number(row->samples_per_s),
                    row->relative_speed, count_or_dash(row->largest_batch),
                    count_or_dash(row->longest_sequence)));
  }
  return text;
}

// Explains those words of the column that occur in it.
std::string format_effects(const std::vector<const FitRow*>& rows) {
  const auto any = [&](std::string_view word) {
    return std::ranges::any_of(rows, [&](const FitRow* row) { return effect_word(*row) == word; });
  };
  std::string text;
  const auto add = [&](const std::string& words) { text += (text.empty() ? "trains: " : "; ") + words; };
  if (any("same")) add("same, except for the order of sums");
  if (any("rounded")) add("rounded, in another precision than the given run");
  if (any("other")) add("other, with another update rule or other trained weights");
  if (std::ranges::any_of(rows, [](const FitRow* row) { return lacks_masters(*row); }))
    add("* the weights have no fp32 masters");
  return wrapped(text + "; docs/COMBINATIONS.md describes each method", 100, 4);
}

std::string below_the_table(const std::vector<const FitRow*>& rows, const FitTableContext& context) {
  if (rows.empty()) return {};
  if (context.compares_cards) return format_effects(rows);
  std::string text = has_own_row(rows)
                         ? "vs. as is: speed relative to the run without further methods; "
                         : "vs. first: speed relative to the first row, because the run does not fit "
                           "without further methods; ";
  text +=
      "largest: largest batch that fits without accumulation; longest: longest sequence in tokens that fits "
      "with this split";
  return wrapped(text, 100, 4) + format_effects(rows);
}

std::string format_not_fitting(const FitReport& report, const FitTableContext& context) {
  std::string text;
  for (const FitRow& row : report.rows) {
    if (row.micro_batch > 0) continue;
    const int64_t mib = (row.smallest_bytes + kMiB - 1) / kMiB;
    const std::string line =
        context.compares_cards
            ? fmt::format("nothing fits on {}, where the smallest run needs {} MiB: {}", row.device, mib,
                          format_methods(row))
            : fmt::format("the run without further methods does not fit: it needs at least {} MiB", mib);
    text += wrapped(line, 100, 4);
  }
  return text;
}

// A value of 0 means that it was not computed.
nlohmann::json count_or_null(int64_t count) {
  return count > 0 ? nlohmann::json(count) : nlohmann::json(nullptr);
}

}  // namespace

std::string fit_table(const FitReport& report, const FitTableContext& context) {
  const std::vector<const FitRow*> rows = chosen_rows(report, context);
  std::string text = wrapped(context.subject) + "\n";
  text += context.compares_cards ? card_table(rows, context.epoch_samples) : format_method_table(rows);
  text += below_the_table(rows, context) + format_not_fitting(report, context);
  std::istringstream lines(report.refused);
  for (std::string line; std::getline(lines, line);) text += wrapped(line, 100, 4);
  text += wrapped(report.searched, 100, 4);
  text += context.compares_cards ? format_card_commands(rows, context) : format_commands(rows, context);
  return text +
         fmt::format("{} plans, {:.0f} per second; samples/s are estimates (docs/MEMORY.md explains them)\n",
                     report.num_plans, report.plans_per_s);
}

std::string fit_json(const FitReport& report, const FitTableContext& context) {
  nlohmann::json rows = nlohmann::json::array();
  for (const FitRow& row : report.rows) {
    rows.push_back({{"device", row.device},
                    {"methods", row.methods},
                    {"trains", effect_word(row)},
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
  const nlohmann::json object{{"schema_version", 1},         {"subject", context.subject},
                              {"plans", report.num_plans},   {"plans_per_second", report.plans_per_s},
                              {"searched", report.searched}, {"to_fill_in", context.to_fill_in},
                              {"rows", std::move(rows)}};
  return python_json(object, 2) + "\n";
}

}  // namespace plimsoll
