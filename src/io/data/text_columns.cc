#include "io/data/text_columns.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "io/data/label_cells.h"

namespace plimsoll {
namespace {

// Returns true for the name of an index column written by pandas, which has no name in the file. It is never
// meant as text, and run_glue fails on it.
bool is_unnamed(std::string_view column) {
  return column.starts_with("Unnamed: ");
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower) {
    letter = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  }
  return lower;
}

template <size_t N>
bool is_any_of(std::string_view name, const std::string_view (&names)[N]) {
  return std::ranges::find(names, name) != std::end(names);
}

bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}

bool is_letter(char letter) {
  return std::isalpha(static_cast<unsigned char>(letter)) != 0 || static_cast<unsigned char>(letter) >= 0x80;
}

bool has_blank(std::string_view cell) {
  const size_t first = cell.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return false;
  const size_t last = cell.find_last_not_of(" \t\r\n");
  return cell.substr(first, last - first).find_first_of(" \t\r\n") != std::string_view::npos;
}

// Returns true for numbers with signs, such as dates, times, prices and percentages: the cell contains a digit, and its words are only
// names of months, days and time zones, "AM" or the T and Z of ISO 8601.
bool is_date_or_amount(std::string_view cell) {
  constexpr std::string_view kWords[] = {
      "jan",      "feb",    "mar",       "apr",     "may",      "jun",      "jul",       "aug",      "sep",
      "sept",     "oct",    "nov",       "dec",     "january",  "february", "march",     "april",    "june",
      "july",     "august", "september", "october", "november", "december", "mon",       "tue",      "wed",
      "thu",      "fri",    "sat",       "sun",     "monday",   "tuesday",  "wednesday", "thursday", "friday",
      "saturday", "sunday", "am",        "pm",      "t",        "z",        "utc",       "gmt",      "est",
      "edt",      "cst",    "cdt",       "mst",     "mdt",      "pst",      "pdt",       "cet",      "cest",
      "usd",      "eur",    "gbp",       "\u20ac",  "\u00a3",   "\u00a5"};
  bool has_digit = false;
  while (!cell.empty()) {
    if (!is_letter(cell[0])) {
      has_digit = has_digit || is_digit(cell[0]);
      cell.remove_prefix(1);
      continue;
    }
    const auto end = std::ranges::find_if_not(cell, is_letter);
    const std::string word = lower_case(std::string_view(cell.begin(), end));
    if (!is_any_of(word, kWords)) return false;
    cell.remove_prefix(word.size());
  }
  return has_digit;
}

bool is_url_or_address(std::string_view cell) {
  if (has_blank(cell)) return false;
  for (const char* start : {"http://", "https://", "ftp://", "www."}) {
    if (cell.starts_with(start)) return true;
  }
  const size_t at = cell.find('@');
  return at != std::string_view::npos && at > 0 && cell.find('.', at) != std::string_view::npos;
}

// Returns true for a hash in hexadecimal digits or a UUID.
bool is_hash(std::string_view cell) {
  const auto is_hex = [](char letter) {
    return std::isxdigit(static_cast<unsigned char>(letter)) != 0 || letter == '-';
  };
  return cell.size() >= 16 && std::ranges::all_of(cell, is_hex) && std::ranges::any_of(cell, is_digit);
}

// Returns true for the name of a file, such as "images/7.jpg".
bool is_file_name(std::string_view cell) {
  const size_t dot = cell.rfind('.');
  if (has_blank(cell) || dot == std::string_view::npos || dot == 0) return false;
  const std::string_view ending = cell.substr(dot + 1);
  return ending.size() >= 2 && ending.size() <= 5 && is_letter(ending[0]) &&
         std::ranges::all_of(
             ending, [](char letter) { return std::isalnum(static_cast<unsigned char>(letter)) != 0; });
}

bool is_metadata_value(std::string_view cell) {
  return is_date_or_amount(cell) || is_url_or_address(cell) || is_hash(cell) || is_file_name(cell);
}

// Names of columns which, if their cells are single words, describe a row instead of being its text.
bool is_metadata_name(std::string_view lower) {
  constexpr std::string_view kNames[] = {
      "lang",       "language",   "locale", "split", "fold",     "subset",     "partition", "url",
      "uri",        "link",       "href",   "date",  "time",     "datetime",   "timestamp", "created",
      "created_at", "updated_at", "year",   "month", "day",      "file",       "filename",  "file_name",
      "filepath",   "file_path",  "path",   "price", "currency", "source_file"};
  return is_any_of(lower, kNames);
}

// Names of columns which describe a row even if their cells have several words, such as "New York".
bool is_descriptive_name(std::string_view lower) {
  constexpr std::string_view kNames[] = {"author",   "authors",   "user",     "username", "user_name",
                                         "location", "place",     "city",     "country",  "region",
                                         "source",   "publisher", "domain",   "platform", "genre",
                                         "gender",   "tags",      "keywords", "category", "section"};
  return is_metadata_name(lower) || is_any_of(lower, kNames);
}

// Usual names of the column of texts.
bool is_text_name(std::string_view lower) {
  constexpr std::string_view kNames[] = {
      "text",      "texts",      "sentence", "sentence1",   "sentence2", "sentences",
      "premise",   "hypothesis", "question", "question1",   "question2", "answer",
      "context",   "review",     "reviews",  "comment",     "comments",  "content",
      "body",      "tweet",      "message",  "document",    "article",   "passage",
      "utterance", "query",      "post",     "description", "abstract",  "title",
      "headline",  "summary",    "phrase",   "statement",   "paragraph", "dialogue"};
  return is_any_of(lower, kNames) || lower.ends_with("_text");
}

// Returns true if the name is that of the label with an ending for another form of it: "labels", "label_text", "label-coarse", "sentiment_name".
// After "label" itself every separate ending is one.
bool is_name_of_label(std::string_view column, std::string_view label) {
  constexpr std::string_view kEndings[] = {"",       "s",       "text", "name",   "names",    "str",
                                           "string", "code",    "desc", "coarse", "fine",     "orig",
                                           "raw",    "encoded", "num",  "int",    "original", "description"};
  const std::string lower = lower_case(column);
  for (const std::string& start : {lower_case(label), std::string("label")}) {
    if (start.empty() || !lower.starts_with(start)) continue;
    std::string_view ending = std::string_view(lower).substr(start.size());
    const bool is_separate = !ending.empty() && !is_letter(ending[0]);
    if (is_separate) ending.remove_prefix(1);
    if (is_any_of(ending, kEndings) || (is_separate && start == "label")) return true;
  }
  return false;
}

// Returns true if each label always occurs with the same value of the column and the column has several values. Equal texts in all rows of
// a label are impossible in practice if the labels repeat, which is required: on average, each label occurs twice.
bool follows_from_label(const Table& table, int64_t column, int64_t label) {
  if (label < 0) return false;
  std::unordered_map<std::string_view, std::string_view> value_of;
  std::unordered_set<std::string_view> values;
  for (int64_t row = 0; row < table.num_rows(); ++row) {
    const std::string_view value = table.cell(row, column);
    if (value_of.emplace(table.cell(row, label), value).first->second != value) return false;
    values.insert(value);
  }
  return values.size() >= 2 && 2 * std::ssize(value_of) <= table.num_rows();
}

enum class CellsOf { kNoText, kMetadata, kText };

// Returns what the cells of a column are. Numbers, true, false and empty cells are not texts: Hugging Face's loader gives a column of these
// alone a numeric type, and Hugging Face's tokenizers refuse numbers.
CellsOf examine_cells(const Table& table, int64_t column) {
  CellsOf found = CellsOf::kNoText;
  for (int64_t row = 0; row < table.num_rows(); ++row) {
    if (table.kind(row, column) != CellKind::kText) continue;
    const std::string_view cell = table.cell(row, column);
    const bool is_value = as_number(cell).has_value() || cell.empty() || cell == "True" || cell == "False" ||
                          cell == "TRUE" || cell == "FALSE" || cell == "true" || cell == "false";
    if (is_value && !table.is_typed()) continue;
    // In a typed file, "7" in quotes is a text.
    if (is_value || !is_metadata_value(cell)) return CellsOf::kText;
    found = CellsOf::kMetadata;
  }
  return found;
}

bool has_several_words(const Table& table, int64_t column) {
  for (int64_t row = 0; row < table.num_rows(); ++row) {
    if (has_blank(table.cell(row, column))) return true;
  }
  return false;
}

// Returns true if the values of the column are those of a category: on average, each occurs ten times or more.
bool has_few_values(const Table& table, int64_t column) {
  std::unordered_set<std::string_view> values;
  for (int64_t row = 0; row < table.num_rows(); ++row) {
    values.insert(table.cell(row, column));
    if (10 * std::ssize(values) > table.num_rows()) return false;
  }
  return true;
}

}  // namespace

TextColumns find_text_columns(const Table& table, const std::string& label) {
  TextColumns found;
  std::vector<std::string> metadata;
  std::vector<std::string> values;  // columns without texts that are not row indexes
  const int64_t label_column = table.find_column(label);
  for (int64_t column = 0; column < table.num_columns(); ++column) {
    const std::string& name = table.columns()[static_cast<size_t>(column)];
    if (name == label) continue;
    if (is_index_name(name)) {
      found.others.push_back(name);
      continue;
    }
    const CellsOf cells = examine_cells(table, column);
    if (cells == CellsOf::kNoText) {
      found.others.push_back(name);
      values.push_back(name);
      continue;
    }
    const std::string lower = lower_case(name);
    if (is_name_of_label(name, label) || follows_from_label(table, column, label_column)) {
      found.label_copies.push_back(name);
    } else if (cells == CellsOf::kMetadata ||
               (is_metadata_name(lower) && !has_several_words(table, column))) {
      found.others.push_back(name);
      metadata.push_back(name);
    } else {
      found.texts.push_back(name);
    }
  }
  // In a small file, the rows of a label can have the same text by chance, so a column with a usual name of a text is read nevertheless.
  if (found.texts.empty()) {
    const auto is_named = [&](const std::string& name) {
      return is_text_name(lower_case(name)) && !is_name_of_label(name, label);
    };
    std::ranges::copy_if(found.label_copies, std::back_inserter(found.texts), is_named);
    std::erase_if(found.label_copies, is_named);
  }
  // If no column contains texts, the only column of metadata is the text, for example the URLs in a data set of URLs. If there is none
  // either, and only one column is neither a row index nor the label, this column is the text, although its values are numbers.
  std::vector<std::string>& instead = metadata.empty() ? values : metadata;
  if (found.texts.empty() && instead.size() == 1) {
    std::erase(found.others, instead[0]);
    found.texts = std::move(instead);
  }
  return found;
}

std::string find_main_text(const Table& table, const std::vector<std::string>& texts) {
  std::string main;
  for (const std::string& name : texts) {
    const std::string lower = lower_case(name);
    const int64_t column = table.find_column(name);
    if (is_text_name(lower)) {
      if (!main.empty() || !has_several_words(table, column)) return {};
      main = name;
    } else if (!is_descriptive_name(lower) && has_several_words(table, column) &&
               !has_few_values(table, column)) {
      return {};
    }
  }
  return main;
}

bool is_index_name(std::string_view column) {
  constexpr std::string_view kNames[] = {
      "id",         "ids",    "idx",  "index", "guid",    "uuid",  "uid",
      "rowid",      "#",      "no.",  "s.no",  "level_0", "",      "__index_level_0__",
      "qid",        "pid",    "sid",  "cid",   "docid",   "key",   "row",
      "row_number", "rownum", "hash", "md5",   "sha1",    "sha256"};
  const std::string lower = lower_case(column);
  if (is_unnamed(column) || is_any_of(lower, kNames)) return true;
  for (const char* end : {"_id", "-id", " id", ".id", "_idx", "_index", "_uuid", "_guid", "_hash", "_key"}) {
    if (lower.ends_with(end)) return true;
  }
  // Names such as "PhraseId" and "tweetID" are recognized because a lower-case letter precedes "Id" or "ID". Words such as "paid" and
  // "GRID" do not match.
  const size_t size = column.size();
  return size > 2 && (column.ends_with("Id") || column.ends_with("ID")) && column[size - 3] >= 'a' &&
         column[size - 3] <= 'z';
}

}  // namespace plimsoll
