#include "io/data/data_columns.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "io/data/label_cells.h"
#include "io/data/table_reader.h"
#include "io/data/text_columns.h"
#include "io/data/text_file.h"

namespace plimsoll {
namespace {

// Returns the start of a message about the columns: the name of the file and, for JSON, the line of the first row, whose keys are the
// columns.
std::string place_of_columns(const Table& table) {
  if (!table.is_typed() || table.num_rows() == 0) return table.file_name();
  return fmt::format("{}:{}", table.file_name(), table.line(0));
}

std::string first_row_hint(const Table& table) {
  if (table.is_conll()) {
    return table.num_columns() == 1
               ? "\n  the lines of this file have one column: write a tag after each word, separated by a "
                 "tab or a blank"
               : "";
  }
  return table.is_typed()
             ? "\n  the keys of the first row are the columns: add the key there even if its value is empty"
             : "";
}

// Returns true if the name of the column looks like a value: if it is a number or a sentence, or if it occurs as a value in the column.
bool looks_like_value(const Table& table, int64_t column) {
  const std::string& name = table.columns()[static_cast<size_t>(column)];
  if (is_value_like(name)) return true;
  for (int64_t row = 0; row < std::min<int64_t>(table.num_rows(), 1000); ++row) {
    if (table.cell(row, column) == name) return true;
  }
  return false;
}

// Returns the first name in the header of a CSV file that looks like a value, or nothing.
std::optional<std::string> value_in_header(const Table& table) {
  if (table.is_typed()) return std::nullopt;
  for (int64_t column = 0; column < table.num_columns(); ++column) {
    if (looks_like_value(table, column)) return table.columns()[static_cast<size_t>(column)];
  }
  return std::nullopt;
}

// Returns a hint for the user about the most frequent reasons why a column is not found: another separator, or a file without a header.
std::string separator_hint(const Table& table) {
  if (table.is_typed()) return {};
  if (table.num_columns() == 1) {
    const std::string advice = separator_advice(table.columns()[0], table.delimiter());
    if (!advice.empty()) return "\n  " + advice;
  }
  const std::optional<std::string> value = value_in_header(table);
  if (!value) return {};
  return "\n  " + missing_header_advice(*value, table.num_columns());
}

void require_column(const Table& table, const std::string& name) {
  if (table.find_column(name) < 0) {
    std::string hint = first_row_hint(table) + separator_hint(table);
    if (hint.empty()) hint = "\n  --text_column_names and --label_column_name name the columns of this file";
    throw_error(ErrorCode::kBadData, "{}: expected a column '{}', found {}{}", place_of_columns(table), name,
                table.column_list(), hint);
  }
}

ColumnChoice named_columns(const Table& table, const ColumnOptions& options) {
  if (options.text.size() > 2) {
    throw_error(
        ErrorCode::kUsage,
        "{} text columns are given, but at most 2 (a text or a pair) are possible; leave the others out",
        options.text.size());
  }
  ColumnChoice choice;
  for (const std::string& name : options.text) {
    if (name == options.label) {
      throw_error(ErrorCode::kUsage,
                  "the column '{}' is given both as text and as label; choose another column for one of them",
                  name);
    }
    require_column(table, name);
  }
  choice.first = options.text[0];
  if (options.text.size() == 2) {
    choice.second = options.text[1];
  }
  return choice;
}

std::string quoted_list(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += fmt::format("{}'{}'", list.empty() ? "" : ", ", name);
  return list;
}

constexpr std::pair<const char*, const char*> kPairsOfTexts[] = {{"sentence1", "sentence2"},
                                                                 {"premise", "hypothesis"},
                                                                 {"question1", "question2"},
                                                                 {"question", "sentence"}};

[[noreturn]] void fail_ambiguous(const Table& table, const std::vector<std::string>& texts,
                                 const ColumnOptions& options) {
  const bool has_label = table.find_column(options.label) >= 0;
  if (const std::optional<std::string> value = value_in_header(table); value && !has_label) {
    throw_error(ErrorCode::kBadData, "{}: {}", table.file_name(),
                missing_header_advice(*value, table.num_columns()));
  }
  if (options.num_texts == 2 && texts.size() == 1) {
    throw_error(ErrorCode::kBadData,
                "{}: the model reads pairs of texts, but only the column '{}' is text; add the second text, "
                "or read single texts with --text_column_names {}",
                table.file_name(), texts[0], texts[0]);
  }
  throw_error(ErrorCode::kBadData,
              "{}: the texts could be in any of the columns {}: select {} with --text_column_names",
              table.file_name(), quoted_list(texts),
              options.num_texts == 1   ? "one"
              : options.num_texts == 2 ? "two"
                                       : "one, or two for pairs of texts,");
}

// Refuses a table of one column if its header and all its rows contain another separator, such as a semicolon. Otherwise each whole row
// would be read as one text.
void refuse_other_separators(const Table& table) {
  if (table.is_typed() || table.num_columns() != 1 || table.num_rows() == 0) return;
  const std::string advice = separator_advice(table.columns()[0], table.delimiter());
  if (advice.empty()) return;
  for (int64_t row = 0; row < std::min<int64_t>(table.num_rows(), 100); ++row) {
    if (other_separator(table.cell(row, 0), table.delimiter()).empty()) return;
  }
  throw_error(ErrorCode::kBadData, "{}: {}", table.file_name(), advice);
}

// Returns the reasons why columns are not read, in parentheses, or an empty string if all columns but the label are read.
std::string reasons_for_ignoring(const TextColumns& found, const ColumnChoice& choice) {
  std::vector<std::string> reasons;
  const auto add = [&](const std::vector<std::string>& names, const char* one, const char* several) {
    if (!names.empty()) reasons.push_back(quoted_list(names) + (names.size() == 1 ? one : several));
  };
  add(found.others, " is not text", " are not text");
  add(found.label_copies, " is a form of the label", " are forms of the label");
  std::vector<std::string> unread = found.texts;
  std::erase_if(unread,
                [&](const std::string& name) { return name == choice.first || name == choice.second; });
  add(unread, " is not read", " are not read");
  return reasons.empty() ? "" : fmt::format(" ({})", fmt::join(reasons, ", "));
}

// Selects one or two of the columns that can be texts. The pairs of GLUE are selected even if one of their texts follows from the label, as
// it may in a small file. Errors: those of fail_ambiguous().
ColumnChoice choose_texts(const Table& table, const TextColumns& found, const ColumnOptions& options) {
  ColumnChoice choice;
  const std::vector<std::string>& texts = found.texts;
  const auto has = [&](const char* name) {
    return std::ranges::count(texts, name) + std::ranges::count(found.label_copies, name) > 0;
  };
  for (const auto& [first, second] : kPairsOfTexts) {
    if (options.num_texts == 1 || !has(first) || !has(second)) continue;
    choice.first = first;
    choice.second = second;
    return choice;
  }
  const std::string main =
      texts.size() > 1 && options.num_texts != 2 ? find_main_text(table, texts) : std::string();
  if (!main.empty()) {
    choice.first = main;
    return choice;
  }
  if (texts.size() > 2 || (options.num_texts && options.num_texts != texts.size())) {
    fail_ambiguous(table, texts, options);
  }
  choice.first = texts[0];
  if (texts.size() == 2) choice.second = texts[1];
  return choice;
}

ColumnChoice inferred_columns(const Table& table, const ColumnOptions& options) {
  refuse_other_separators(table);
  const TextColumns found = find_text_columns(table, options.label);
  if (found.texts.empty()) {
    const std::string copies = found.label_copies.empty()
                                   ? ""
                                   : fmt::format(" ({} {} of the label)", quoted_list(found.label_copies),
                                                 found.label_copies.size() == 1 ? "is a form" : "are forms");
    throw_error(ErrorCode::kBadData,
                "{}: expected a text column in addition to the label '{}', found {}{}; put the texts into "
                "columns such as sentence, or sentence1 and sentence2, or select them with "
                "--text_column_names{}{}",
                place_of_columns(table), options.label, table.column_list(), copies, first_row_hint(table),
                separator_hint(table));
  }
  ColumnChoice choice = choose_texts(table, found, options);
  const bool is_named_pair = choice.second && std::ranges::any_of(kPairsOfTexts, [&](const auto& pair) {
                               return choice.first == pair.first && choice.second == pair.second;
                             });
  if (is_named_pair) return choice;
  const std::string ignored = reasons_for_ignoring(found, choice);
  if (choice.second) {
    choice.note = fmt::format(
        "{}: each text is a pair of the columns '{}' and '{}'{}; choose other columns, or one column, with "
        "--text_column_names",
        table.file_name(), choice.first, *choice.second, ignored);
  } else if (!ignored.empty()) {
    choice.note = fmt::format(
        "{}: the texts are those of the column '{}'{}; choose others with "
        "--text_column_names",
        table.file_name(), choice.first, ignored);
  }
  return choice;
}

}  // namespace

void require_label_column(const Table& table, const std::string& label) {
  if (table.find_column(label) >= 0) return;
  throw_error(ErrorCode::kBadData,
              "{}: no column is called '{}', from which labels are read; the columns are {}. Rename the "
              "column with the "
              "labels, or select it with --label_column_name{}{}",
              place_of_columns(table), label, table.column_list(), first_row_hint(table),
              separator_hint(table));
}

std::string check_header(const Table& table, const ColumnOptions& options) {
  if (table.is_typed() || !options.text.empty() || table.find_column(options.label) >= 0) return {};
  const auto names_a_text = [&](const char* name) { return table.find_column(name) >= 0; };
  if (names_a_text("text") || std::ranges::any_of(kPairsOfTexts, [&](const auto& pair) {
        return names_a_text(pair.first) || names_a_text(pair.second);
      })) {
    return {};
  }
  if (const std::optional<std::string> value = value_in_header(table)) {
    throw_error(ErrorCode::kBadData,
                "{}: {}; if the first row does name the columns, select the text columns with "
                "--text_column_names",
                table.file_name(), missing_header_advice(*value, table.num_columns()));
  }
  if (table.num_columns() != 1 || table.columns()[0].find(' ') == std::string::npos) return {};
  return fmt::format(
      "{}: the first row ('{}') is read as the name of the column; if it is a text, write a name, such as "
      "text, as the first line",
      table.file_name(), excerpt(table.columns()[0]));
}

namespace {

// Refuses a JSON file that is one object with a list of rows per split of the data, such as {"train": [...], "test": [...]}.
void refuse_splits_in_one_row(const Table& table) {
  if (!table.is_typed() || table.is_conll() || table.num_rows() != 1) return;
  std::string rows;
  for (int64_t column = 0; column < table.num_columns(); ++column) {
    if (table.kind(0, column) != CellKind::kList) return;
    const std::vector<JsonItem> items = find_json_list(table.cell(0, column)).value();
    if (!items.empty() && items[0].kind != CellKind::kObject) return;
    if (!items.empty()) rows = table.columns()[static_cast<size_t>(column)];
  }
  if (rows.empty()) return;
  throw_error(
      ErrorCode::kBadData,
      "{}: the file is one object with lists of rows in {}, but one object per row is expected; write "
      "each list into a file of its own",
      table.file_name(), table.column_list());
}

// Refuses a JSON file that stores a table by columns instead of rows. pandas' DataFrame.to_json writes an object per column by default,
// and a Python dictionary of lists becomes a list per column. Such a file would be read as a single row.
void refuse_columns_as_rows(const Table& table, const ColumnOptions& options) {
  if (!table.is_typed() || table.is_conll() || table.num_rows() != 1 || !options.tagging.empty()) return;
  std::optional<size_t> length;
  bool are_objects = true;
  bool are_lists =
      table.num_columns() >= 2 && table.find_column("tokens") < 0 && table.find_column("words") < 0;
  for (int64_t column = 0; column < table.num_columns(); ++column) {
    are_objects = are_objects && table.kind(0, column) == CellKind::kObject;
    are_lists = are_lists && table.kind(0, column) == CellKind::kList;
    if (!are_lists) continue;
    const size_t size = find_json_list(table.cell(0, column)).value().size();
    are_lists = size >= 2 && length.value_or(size) == size;
    length = size;
  }
  if (!are_objects && !are_lists) return;
  throw_error(ErrorCode::kBadData,
              "{}: the file has {} for each of {}, but one object per row is expected\n  write rows with "
              "pandas' DataFrame.to_json(path, orient='records', lines=True)",
              table.file_name(), are_objects ? "an object" : "a list", table.column_list());
}

// Returns the columns if the rows of the table are token ids.
std::optional<ColumnChoice> choose_id_columns(const Table& table, const ColumnOptions& options) {
  const int64_t ids = table.find_column("input_ids");
  const bool is_selected =
      options.text.empty() || (options.text.size() == 1 && options.text[0] == "input_ids");
  if (ids < 0 || table.num_rows() == 0 || !is_selected || !options.tagging.empty()) return std::nullopt;
  if (!table.is_typed()) {
    const auto items = find_json_list(table.cell(0, ids));
    if (!items || items->empty() || (*items)[0].kind != CellKind::kInteger) return std::nullopt;
    throw_error(
        ErrorCode::kBadData,
        "{}: the column 'input_ids' has lists of token ids, which a CSV file contains as text; write JSON "
        "Lines, {{\"input_ids\": [2, 5, 3], \"label\": 1}}, or select a column of texts with "
        "--text_column_names",
        table.file_name());
  }
  ColumnChoice choice;
  choice.has_ids = true;
  choice.first = "input_ids";
  const bool is_default = options.label == ColumnOptions{}.label && table.find_column(options.label) < 0;
  choice.label = is_default && table.find_column("labels") >= 0 ? "labels" : options.label;
  const int64_t label = table.find_column(choice.label);
  choice.has_label = label >= 0;
  if (table.kind(0, ids) != CellKind::kList || !choice.has_label || table.kind(0, label) != CellKind::kList) {
    return choice;
  }
  const size_t num_ids = find_json_list(table.cell(0, ids)).value().size();
  if (num_ids >= 2 && num_ids == find_json_list(table.cell(0, label)).value().size()) {
    throw_error(
        ErrorCode::kBadData,
        "{}: the column '{}' has one label per token of 'input_ids', but only a language model reads such "
        "labels: give --problem_type causal_lm. To classify words, give rows with a list of words and a list "
        "of tags, such as {{\"tokens\": [\"EU\"], \"ner_tags\": [\"B-ORG\"]}}",
        place_of_columns(table), choice.label);
  }
  return choice;
}

}  // namespace

std::optional<ColumnChoice> choose_chat_columns(const Table& table, const std::optional<std::string>& named) {
  if (table.num_rows() == 0) return std::nullopt;
  const auto has_messages = [&](const std::string& name) {
    const int64_t column = table.find_column(name);
    if (column < 0 || table.kind(0, column) != CellKind::kList) return false;
    const std::vector<JsonItem> items = find_json_list(table.cell(0, column)).value();
    return !items.empty() && items[0].kind == CellKind::kObject;
  };
  const auto has_text = [&](const std::string& name) {
    const int64_t column = table.find_column(name);
    return column >= 0 && table.kind(0, column) == CellKind::kText;
  };
  ColumnChoice choice;
  for (const std::string& name :
       named ? std::vector{*named} : std::vector<std::string>{"messages", "conversations"}) {
    if (!has_messages(name)) continue;
    choice.chat = ChatColumns::kMessages;
    choice.first = name;
    return choice;
  }
  if (named) return std::nullopt;
  const std::string prompt = "prompt", completion = "completion";
  if (has_messages(prompt) && has_messages(completion)) choice.chat = ChatColumns::kPromptMessages;
  if (has_text(prompt) && has_text(completion)) choice.chat = ChatColumns::kPromptText;
  if (choice.chat == ChatColumns::kNone) return std::nullopt;
  choice.first = prompt;
  choice.second = completion;
  return choice;
}

ColumnChoice choose_document_column(const Table& table, const std::optional<std::string>& named) {
  ColumnChoice choice;
  if (named) {
    require_column(table, *named);
    choice.first = *named;
  }
  const int64_t ids = table.find_column("input_ids");
  choice.has_ids = ids >= 0 && table.num_rows() > 0 && table.kind(0, ids) == CellKind::kList &&
                   named.value_or("input_ids") == "input_ids";
  if (named || choice.has_ids) {
    if (!choice.has_ids) return choice;
    choice.first = "input_ids";
    choice.may_have_token_labels = true;
    const int64_t labels = table.find_column("labels");
    choice.has_token_labels = labels >= 0 && table.kind(0, labels) == CellKind::kList;
    if (choice.has_token_labels) choice.label = "labels";
    return choice;
  }
  if (table.find_column("text") >= 0) {
    choice.first = "text";
    return choice;
  }
  const std::vector<std::string> texts = find_text_columns(table, {}).texts;
  if (!texts.empty()) {
    choice.first = find_main_text(table, texts);
    if (choice.first.empty()) choice.first = texts[0];
  }
  if (std::string note = check_header(table, {}); !note.empty()) choice.note = std::move(note);
  if (choice.first.empty()) {
    throw_error(ErrorCode::kBadData,
                "{}: no column has texts: expected a column 'text', or one that --text_column_names selects, "
                "found {}{}{}",
                place_of_columns(table), table.column_list(), first_row_hint(table), separator_hint(table));
  }
  if (table.num_columns() > 1) {
    choice.note = fmt::format(
        "{}: the documents are the texts of the column '{}'; choose another with --text_column_names",
        table.file_name(), choice.first);
  }
  return choice;
}

std::vector<std::string> token_id_columns(const ColumnChoice& columns) {
  std::vector<std::string> names = {columns.first, "token_type_ids", "attention_mask", "position_ids"};
  if (columns.may_have_token_labels) names.emplace_back("labels");
  return names;
}

ColumnChoice choose_columns(const Table& table, const ColumnOptions& options) {
  if (const std::optional<ColumnChoice> ids = choose_id_columns(table, options)) return *ids;
  refuse_splits_in_one_row(table);
  refuse_columns_as_rows(table, options);
  if (const std::optional<ColumnChoice> words = choose_word_columns(table, options)) return *words;
  ColumnChoice choice =
      options.text.empty() ? inferred_columns(table, options) : named_columns(table, options);
  choice.label = options.label;
  choice.has_label = table.find_column(options.label) >= 0;
  return choice;
}

}  // namespace plimsoll
