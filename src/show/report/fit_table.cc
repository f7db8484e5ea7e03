#include "show/report/fit_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <sstream>
#include <utility>

#include "base/json.h"
#include "base/units.h"
#include "plan/compile/op_times.h"
#include "show/report/quantities.h"

namespace plimsoll {
namespace {

constexpr size_t kMostRows = 12;
// Width of the table and of the text below it, in characters.
constexpr size_t kFitWidth = 80;

std::string format_methods(const FitRow& row) {
  return row.methods.empty() ? "as it is" : fmt::format("{}", fmt::join(row.methods, ", "));
}

bool lacks_masters(const FitRow& row) {
  return std::ranges::any_of(row.methods, [](const std::string& name) {
    const Method* method = find_method(name);
    return method != nullptr && !method->keeps_master_weights;
  });
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

// Returns the word for the effect of the row's methods on training. A star is added if the run has no fp32 master weights.
std::string format_trainable(const FitRow& row) {
  return std::string(effect_word(row)) + (lacks_masters(row) ? "*" : "");
}

std::string count_or_dash(int64_t count) {
  return count > 0 ? fmt::format("{}", count) : "-";
}

// Adds quotes to a word of a command line if the shell would interpret its characters.
std::string quoted(const std::string& word) {
  return word.find_first_of("*?[ ") == std::string::npos ? word : "'" + word + "'";
}

std::string words_of(const FitRow& row) {
  std::string words;
  for (const std::string& word : row.arguments) words += (words.empty() ? "" : " ") + quoted(word);
  return words;
}

std::string format_program(const FitTableContext& context) {
  return context.is_plan_only ? "plimsoll plan" : "plimsoll train";
}

std::string command_of(const FitRow& row, const FitTableContext& context) {
  return format_program(context) + " " + context.command + " " + words_of(row);
}

// Returns the first `most` rows of the report that fit into the memory. Rows that do not fit are at its end.
std::span<const FitRow> shown_rows(const FitReport& report, size_t most) {
  const auto end = std::ranges::find(report.rows, 0, &FitRow::micro_batch);
  const auto count = std::min(static_cast<size_t>(end - report.rows.begin()), most);
  return std::span(report.rows).first(count);
}

// Returns the rows for which a command line is printed: the first rows of the table, the fastest row, and each row
// that changes the result of training less than all rows before it.
std::vector<const FitRow*> chosen_rows(const FitReport& report, const FitTableContext& context) {
  std::vector<const FitRow*> rows;
  std::optional<MethodEffect> least;
  const std::span<const FitRow> fitting = shown_rows(report, report.rows.size());
  if (fitting.empty()) return rows;
  const double fastest = std::ranges::max(fitting, {}, &FitRow::samples_per_s).samples_per_s;
  for (const FitRow& row : fitting) {
    const bool is_wanted =
        !context.compares_cards && (row.effect < least.value_or(row.effect) || row.samples_per_s == fastest);
    if (rows.size() >= kMostRows && !is_wanted) continue;
    rows.push_back(&row);
    least = std::min(least.value_or(row.effect), row.effect);
  }
  return rows;
}

// Formats the command lines of these rows. The arguments that all of them share are printed only once.
std::string format_commands(const std::vector<const FitRow*>& rows, const FitTableContext& context) {
  if (rows.empty()) return {};
  const std::string_view verb = context.is_plan_only ? "plan" : "run";
  std::string text = fmt::format("to {} the first:\n  {}\n", verb, command_of(*rows.front(), context));
  if (!context.to_fill_in.empty()) text += wrapped("where " + context.to_fill_in, kFitWidth);
  if (rows.size() > 1)
    text += fmt::format("to {} another: {} {}, and\n", verb, format_program(context), context.command);
  for (size_t i = 1; i < rows.size(); ++i) text += fmt::format("{:>4}  {}\n", i + 1, words_of(*rows[i]));
  return text;
}

// Formats the command lines of a comparison of graphics cards. One line is printed for all cards with the same arguments.
std::string format_card_commands(const std::vector<const FitRow*>& rows, const FitTableContext& context) {
  if (rows.empty()) return {};
  std::vector<std::pair<std::string, std::vector<std::string>>> cards_by_words;
  for (const FitRow* row : rows) {
    if (row->is_plan_only) continue;
    const std::string words = words_of(*row);
    auto it =
        std::ranges::find(cards_by_words, words, &std::pair<std::string, std::vector<std::string>>::first);
    if (it == cards_by_words.end()) it = cards_by_words.insert(it, {words, {}});
    it->second.push_back(row->device);
  }
  if (cards_by_words.empty()) return {};
  std::string text = "to run one: plimsoll train " + context.command + ", and\n";
  for (const auto& [words, cards] : cards_by_words)
    text += wrapped(fmt::format("on {}: {}", fmt::join(cards, ", "), words), kFitWidth, 4);
  if (!context.to_fill_in.empty()) text += wrapped("where " + context.to_fill_in, kFitWidth);
  return text;
}

// Returns the names of the row's methods, broken into lines of at most `width` columns. The first line is printed in
// the row of the table, and the others below it.
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

// A column of a table: a header of two lines and a cell per row, all aligned at the right.
struct Column {
  std::array<std::string, 2> header = {};
  std::vector<std::string> cells = {};

  size_t width() const {
    size_t width = std::max(header[0].size(), header[1].size());
    for (const std::string& cell : cells) width = std::max(width, cell.size());
    return width;
  }
};

// Formats the table: the columns `before`, the names of the methods of each row, and the columns `after`, in kFitWidth
// columns unless a single name needs more.
std::string format_rows(const std::vector<const FitRow*>& rows, const std::vector<Column>& before,
                        const std::vector<Column>& after) {
  size_t left = 1;
  size_t right = 0;
  for (const Column& column : before) left += column.width() + 1;
  for (const Column& column : after) right += column.width() + 1;
  size_t width = kFitWidth > left + right ? kFitWidth - left - right : 0;
  for (const FitRow* row : rows) {
    for (const std::string& method : row->methods) width = std::max(width, method.size() + 1);
  }
  const auto join = [](const std::vector<Column>& columns, const auto& text_of, bool is_before) {
    std::string text;
    for (const Column& column : columns) {
      const std::string cell = right_aligned(text_of(column), column.width());
      text += is_before ? cell + " " : " " + cell;
    }
    return text;
  };
  std::string text;
  for (const size_t line : {0, 1}) {
    const auto header = [&](const Column& column) { return column.header[line]; };
    std::string headers = join(before, header, true) + " " + left_aligned(line == 0 ? "methods" : "", width) +
                          join(after, header, false);
    text += headers.substr(0, headers.find_last_not_of(' ') + 1) + "\n";
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto cell = [&](const Column& column) { return column.cells[i]; };
    const std::vector<std::string> lines = method_lines(*rows[i], width);
    text +=
        join(before, cell, true) + " " + left_aligned(lines.front(), width) + join(after, cell, false) + "\n";
    for (size_t k = 1; k < lines.size(); ++k) text += std::string(left, ' ') + lines[k] + "\n";
  }
  return text;
}

template <typename Cell>
Column column_of(const std::vector<const FitRow*>& rows, std::string first, std::string second,
                 const Cell& cell) {
  Column column{.header = {std::move(first), std::move(second)}};
  for (const FitRow* row : rows) column.cells.push_back(cell(*row));
  return column;
}

// Returns the column with the rank of each row. Rows whose speeds differ too little (ties) have the same letter: "1a", "2a", "3".
Column rank_column(const std::vector<const FitRow*>& rows) {
  Column column{.header = {"rank", ""}};
  char letter = 'a' - 1;
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool follows = i > 0 && rows[i - 1]->tie == rows[i]->tie;
    const bool leads = i + 1 < rows.size() && rows[i + 1]->tie == rows[i]->tie;
    const bool is_tie = rows[i]->tie > 0 && (follows || leads);
    if (is_tie && !follows) ++letter;
    column.cells.push_back(fmt::format("{}{}", i + 1, is_tie ? letter : ' '));
  }
  return column;
}

Column batch_column(const std::vector<const FitRow*>& rows) {
  return column_of(rows, "batch", "x acc", [](const FitRow& row) {
    return fmt::format("{} x {}", row.micro_batch, row.accumulation);
  });
}

// Returns the three columns that show the effect on training, the memory and the speed of each row.
std::vector<Column> figures_of(const std::vector<const FitRow*>& rows) {
  return {
      column_of(rows, "trains", "", [](const FitRow& row) { return left_aligned(format_trainable(row), 8); }),
      column_of(rows, "MiB", "",
                [](const FitRow& row) { return fmt::format("{}", (row.total_bytes + kMiB - 1) / kMiB); }),
      column_of(rows, "samples", "per s", [](const FitRow& row) { return short_number(row.samples_per_s); })};
}

std::string card_table(const std::vector<const FitRow*>& rows, int64_t epoch_samples) {
  std::vector<Column> figures = figures_of(rows);
  figures.push_back(column_of(rows, "h per", "epoch", [&](const FitRow& row) {
    return fmt::format("{:.2f}", static_cast<double>(epoch_samples) / row.samples_per_s / 3600);
  }));
  figures.push_back(column_of(rows, "cost", "", [](const FitRow& row) {
    return row.epoch_cost > 0 ? fmt::format("{:.2f}", row.epoch_cost) : "-";
  }));
  size_t name_width = 0;
  for (const FitRow* row : rows) name_width = std::max(name_width, row->device.size());
  const Column cards = column_of(rows, left_aligned("card", name_width), "",
                                 [&](const FitRow& row) { return left_aligned(row.device, name_width); });
  return format_rows(rows, {rank_column(rows), cards, batch_column(rows)}, figures);
}

bool has_own_row(const std::vector<const FitRow*>& rows) {
  return std::ranges::any_of(rows, [](const FitRow* row) { return row->methods.empty(); });
}

std::string format_method_table(const std::vector<const FitRow*>& rows) {
  std::vector<Column> figures = figures_of(rows);
  figures.push_back(column_of(rows, "vs.", has_own_row(rows) ? "as is" : "first",
                              [](const FitRow& row) { return fmt::format("{:.2f}x", row.relative_speed); }));
  figures.push_back(column_of(rows, "largest", "batch",
                              [](const FitRow& row) { return count_or_dash(row.largest_batch); }));
  figures.push_back(column_of(rows, "longest", "text",
                              [](const FitRow& row) { return count_or_dash(row.longest_sequence); }));
  return format_rows(rows, {rank_column(rows), batch_column(rows)}, figures);
}

// Explains the letters after the ranks, which mark rows of equal speed (ties), if there are any.
std::string format_ties(const std::vector<const FitRow*>& rows) {
  for (size_t i = 1; i < rows.size(); ++i) {
    if (rows[i]->tie == 0 || rows[i]->tie != rows[i - 1]->tie) continue;
    return wrapped(
        fmt::format(
            "rows with the same letter are a tie: they differ by less than {:.0f} %, the error "
            "of the estimates, from the fastest or the first of them, and the row that changes the run "
            "least comes first",
            100 * kEstimateError),
        kFitWidth, 4);
  }
  return {};
}

// Explains those words of the column "trains" (effect on training) that occur in these rows.
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
    add("rounded*, without fp32 masters of the weights");
  return wrapped(text + "; docs/COMBINATIONS.md describes each method", kFitWidth, 4);
}

std::string below_the_table(const std::vector<const FitRow*>& rows, const FitTableContext& context) {
  if (rows.empty()) return {};
  if (context.compares_cards) return format_ties(rows) + format_effects(rows);
  const std::string text = fmt::format(
      "vs. {}; largest batch: without accumulation; longest text: tokens that fit with this batch x acc",
      has_own_row(rows) ? "as is: speed relative to the run without further methods"
                        : "first: speed relative to the first row, because the run does not fit "
                          "without further methods");
  return format_ties(rows) + wrapped(text, kFitWidth, 4) + format_effects(rows);
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
    text += wrapped(line, kFitWidth, 4);
  }
  return text;
}

// Returns null for 0, which means that the number was not computed.
nlohmann::json count_or_null(int64_t count) {
  return count > 0 ? nlohmann::json(count) : nlohmann::json(nullptr);
}

}  // namespace

std::string fit_table(const FitReport& report, const FitTableContext& context) {
  const std::vector<const FitRow*> rows = chosen_rows(report, context);
  std::string text = wrapped(context.subject, kFitWidth) + "\n";
  text += context.compares_cards ? card_table(rows, context.epoch_samples) : format_method_table(rows);
  text += below_the_table(rows, context) + format_not_fitting(report, context);
  std::istringstream lines(report.refused);
  for (std::string line; std::getline(lines, line);) text += wrapped(line, kFitWidth, 4);
  text += wrapped(report.searched, kFitWidth, 4);
  if (!report.plan_only.empty()) text += wrapped(report.plan_only, kFitWidth, 4);
  text += context.compares_cards ? format_card_commands(rows, context) : format_commands(rows, context);
  return text + wrapped(fmt::format("{} plans, {:.0f} per second; speeds are estimates (docs/MEMORY.md)",
                                    report.num_plans, report.plans_per_s),
                        kFitWidth);
}

std::string fit_json(const FitReport& report, const FitTableContext& context) {
  nlohmann::json rows = nlohmann::json::array();
  for (const FitRow& row : report.rows) {
    rows.push_back({{"device", row.device},
                    {"methods", row.methods},
                    {"trains", effect_word(row)},
                    {"tie", row.tie},
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
  const nlohmann::json object{{"schema_version", 1},           {"subject", context.subject},
                              {"plans", report.num_plans},     {"plans_per_second", report.plans_per_s},
                              {"searched", report.searched},   {"to_fill_in", context.to_fill_in},
                              {"plan_only", report.plan_only}, {"rows", std::move(rows)}};
  return python_json(object, 2) + "\n";
}

}  // namespace plimsoll
