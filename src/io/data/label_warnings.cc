#include "io/data/labels.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "io/data/label_cells.h"
#include "io/data/text_file.h"
#include "io/data/written_list.h"

namespace plimsoll {
namespace {

// The index of the first row with a label of each form: a number, a word, a list, or anything but a list.
struct LabelForms {
  std::optional<int64_t> number;
  std::optional<int64_t> word;
  std::optional<int64_t> list;
  std::optional<int64_t> no_list;
  std::map<std::string, int64_t, std::less<>> first_rows;  // the first row of each class
};

LabelForms find_forms(const TextSplit& train) {
  LabelForms forms;
  const auto set_first = [](std::optional<int64_t>& first, int64_t row) {
    if (!first) first = row;
  };
  for (int64_t row = 0; row < train.num_rows(); ++row) {
    if (is_label_missing(train, row) || train.label_kind(row) != CellKind::kText) continue;
    const std::string_view label = train.label(row);
    if (!forms.first_rows.contains(label)) forms.first_rows.emplace(label, row);
    set_first(as_number(label) ? forms.number : forms.word, row);
    set_first(find_written_list(label) ? forms.list : forms.no_list, row);
  }
  return forms;
}

std::vector<std::string_view> parts_of(std::string_view label, std::string_view delimiter) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = std::min(label.find(delimiter), label.size());
    std::string_view part = label.substr(0, end);
    part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
    part = part.substr(0, part.find_last_not_of(' ') + 1);
    parts.push_back(part);
    if (end == label.size()) return parts;
    label.remove_prefix(end + delimiter.size());
  }
}

// Returns the first row whose label contains the delimiter, if the labels look like sets of classes: no label with the delimiter has an
// empty part before, between or after delimiters, and more than half of the parts of these labels are also a part of a different label or a
// whole label. Labels in brackets are ignored: a delimiter inside brackets would separate "(0" from "1)".
std::optional<int64_t> find_set(const LabelForms& forms, std::string_view delimiter) {
  std::map<std::string_view, int64_t> num_labels_with;
  std::vector<std::vector<std::string_view>> sets;
  std::optional<int64_t> first;
  for (const auto& [label, row] : forms.first_rows) {
    if (is_bracketed(label)) continue;
    const std::vector<std::string_view> parts = parts_of(label, delimiter);
    for (const std::string_view part : std::set(parts.begin(), parts.end())) ++num_labels_with[part];
    if (parts.size() < 2) continue;
    if (std::ranges::find(parts, std::string_view()) != parts.end()) return std::nullopt;
    sets.push_back(parts);
    first = std::min(first.value_or(row), row);
  }
  int64_t num_parts = 0;
  int64_t num_shared = 0;
  for (const auto& parts : sets) {
    for (const std::string_view part : parts) {
      ++num_parts;
      num_shared += num_labels_with[part] > 1 ? 1 : 0;
    }
  }
  return !sets.empty() && 2 * num_shared > num_parts ? first : std::nullopt;
}

std::string place(const TextSplit& train, int64_t row) {
  return fmt::format("{}:{}", train.table().file_name(), train.line(row));
}

// Returns the index of the first row whose label is not an integer, or that of the last row if there is none. In JSON, 1.0 is a float.
int64_t first_float(const TextSplit& train) {
  const auto is_integer = [&](int64_t row) {
    return train.table().is_typed() ? train.label_kind(row) == CellKind::kInteger
                                    : as_integer(train.label(row)).has_value();
  };
  int64_t row = 0;
  while (row + 1 < train.num_rows() && is_integer(row)) ++row;
  return row;
}

// Returns the text of a label as in the file. A table that was read from JSON stores the float 1.0 as "1", so ".0" is appended.
std::string written_number(const TextSplit& train, int64_t row) {
  const bool is_float = train.label_kind(row) == CellKind::kFloat && as_integer(train.label(row));
  return excerpt(train.label(row)) + (is_float ? ".0" : "");
}

// Returns the parts of the first label if all labels are vectors of 0 and 1 without brackets: each has the same number of parts, and at
// least one contains a number twice, which a set of classes does not.
std::optional<std::vector<std::string_view>> find_bare_vector(const LabelForms& forms,
                                                              std::string_view delimiter) {
  std::optional<std::vector<std::string_view>> first;
  bool any_repeat = false;
  for (const auto& [label, row] : forms.first_rows) {
    std::vector<std::string_view> parts = parts_of(label, delimiter);
    const auto num_zeros = std::ranges::count(parts, "0");
    const auto num_ones = std::ranges::count(parts, "1");
    if (parts.size() < 2 || num_zeros + num_ones != std::ssize(parts)) return std::nullopt;
    any_repeat = any_repeat || num_zeros > 1 || num_ones > 1;
    if (first && first->size() != parts.size()) return std::nullopt;
    if (!first) first = std::move(parts);
  }
  return any_repeat ? first : std::nullopt;
}

void warn_of_sets(const TextSplit& train, const LabelForms& forms, std::vector<std::string>& warnings) {
  for (const std::string_view delimiter : {" ", "||", "|", "#", ";", ","}) {
    const auto vector = find_bare_vector(forms, delimiter);
    if (!vector) continue;
    const auto& [label, row] = *forms.first_rows.begin();
    warnings.push_back(
        fmt::format("{}: the label '{}' is read as one class, but looks like a vector with one target per "
                    "class; for a multi-label task write it as a list, [{}]",
                    place(train, row), excerpt(label), fmt::join(*vector, ", ")));
    return;
  }
  for (const std::string_view delimiter : {"||", "|", "#", ";", ","}) {
    const std::optional<int64_t> row = find_set(forms, delimiter);
    if (!row) continue;
    warnings.push_back(
        fmt::format("{}: the label '{}' is read as one class, but looks like several labels; for a "
                    "multi-label task give --label_delimiter '{}'",
                    place(train, *row), excerpt(train.label(*row)), delimiter));
    return;
  }
}

}  // namespace

std::vector<std::string> label_warnings(const TextSplit& train, const LabelScheme& scheme,
                                        bool is_kind_given) {
  std::vector<std::string> warnings;
  if (scheme.kind == LabelKind::kNumbers && !is_kind_given && train.num_rows() > 0) {
    const int64_t row = first_float(train);
    warnings.push_back(
        fmt::format("{}: the labels are numbers that are not all integers ({}), so the model learns a "
                    "regression; for classes give --problem_type single_label_classification",
                    place(train, row), written_number(train, row)));
  }
  if (scheme.kind != LabelKind::kClass) return warnings;
  const LabelForms forms = find_forms(train);
  if (forms.number && forms.word && !train.table().is_typed()) {
    warnings.push_back(
        fmt::format("{}: the label '{}' is a word, but the label of line {} is a number ('{}'): both are "
                    "read as names of classes",
                    place(train, *forms.word), excerpt(train.label(*forms.word)), train.line(*forms.number),
                    excerpt(train.label(*forms.number))));
  }
  if (forms.list && forms.no_list) {
    warnings.push_back(
        fmt::format("{}: the label '{}' is a list, but the label of line {} ('{}') is not: both are read as "
                    "names of classes; for sets of classes give --problem_type multi_label_classification",
                    place(train, *forms.list), excerpt(train.label(*forms.list)), train.line(*forms.no_list),
                    excerpt(train.label(*forms.no_list))));
  }
  warn_of_sets(train, forms, warnings);
  return warnings;
}

}  // namespace plimsoll
