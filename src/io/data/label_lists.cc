#include "io/data/label_lists.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/units.h"
#include "io/data/label_cells.h"
#include "io/data/text_file.h"

namespace plimsoll {
namespace {

constexpr const char* kWhatToWrite =
    "\n  lists of 0 and 1 are read as vectors here, with one target per class; put the names of classes 0 "
    "and 1 in quotes: [\"0\", \"1\"]";

bool is_target(const JsonItem& item) {
  const std::optional<double> value = as_number(item.text);
  return item.kind != CellKind::kText && (value == 0.0 || value == 1.0);
}

void drop_repeats(std::vector<std::string>& names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
}

// Refuses a label without brackets that consists of 0 and 1 only and repeats one of them, such as 1,0,0. A label without brackets is a set
// of class names, in which no class occurs twice, so this one was probably meant as a vector of targets.
void refuse_bare_vector(const TextSplit& split, int64_t row, const std::vector<JsonItem>& items) {
  if (is_label_list(split, row)) return;
  std::vector<std::string> names;
  for (const JsonItem& item : items) {
    if (item.kind != CellKind::kText || (item.text != "0" && item.text != "1")) return;
    names.push_back(item.text);
  }
  drop_repeats(names);
  if (names.size() == items.size()) return;
  fail_at_row(split, row,
              fmt::format("the label contains a class twice: {}\n  write a vector of 0 and 1, with one "
                          "target per class, as a list: [0, 1, 0]",
                          excerpt(split.label(row))));
}

}  // namespace

bool LabelLists::are_vectors() const {
  if (any_float || any_repeat) return true;
  return all_binary && (any_descending || (equal_widths && width >= 2));
}

LabelLists survey_lists(const TextSplit& split, std::string_view delimiter) {
  LabelLists lists;
  bool is_first = true;
  for (int64_t row = 0; row < split.num_rows(); ++row) {
    if (split.label_kind(row) == CellKind::kNull) continue;
    const std::vector<JsonItem> items = label_items(split, row, delimiter);
    refuse_bare_vector(split, row, items);
    if (std::exchange(is_first, false)) lists.width = items.size();
    lists.equal_widths = lists.equal_widths && items.size() == lists.width;
    const bool is_binary = std::all_of(items.begin(), items.end(), is_target);
    lists.all_binary = lists.all_binary && is_binary;
    if (is_binary && items.size() >= 2) {
      const bool ascends = *as_number(items[0].text) < *as_number(items[1].text);
      lists.any_repeat = lists.any_repeat || items.size() > 2 || items[0].text == items[1].text;
      lists.any_descending = lists.any_descending || !ascends;
    }
    for (const JsonItem& item : items) {
      lists.any_float = lists.any_float || item.kind == CellKind::kFloat || item.kind == CellKind::kBool;
      lists.all_integers = lists.all_integers && as_integer(item.text).has_value();
      lists.names.push_back(item.text);
    }
    if (lists.names.size() > 4096) drop_repeats(lists.names);
  }
  drop_repeats(lists.names);
  return lists;
}

void require_vectors(const TextSplit& split, std::string_view delimiter) {
  std::optional<size_t> width;
  int64_t first_line = 0;
  for (int64_t row = 0; row < split.num_rows(); ++row) {
    const std::vector<JsonItem> items = label_items(split, row, delimiter);
    if (!width.has_value()) {
      width = items.size();
      first_line = split.line(row);
    }
    if (items.size() != *width) {
      fail_at_row(split, row,
                  fmt::format("the label is a list of {}, but that of line {} has {}: {}{}",
                              counted(items.size(), "number"), first_line, *width, excerpt(split.label(row)),
                              kWhatToWrite));
    }
    // If a list has another value, its numbers may have been read as texts, so the numbers 0 and 1 are named last.
    const auto is_other = [](const JsonItem& item) {
      const std::optional<double> value = as_number(item.text);
      return value != 0.0 && value != 1.0;
    };
    auto wrong = std::ranges::find_if(items, is_other);
    if (wrong == items.end())
      wrong = std::ranges::find_if(items, [](const JsonItem& item) { return !is_target(item); });
    if (wrong == items.end()) continue;
    fail_at_row(split, row,
                fmt::format("a list of 0 and 1 contains '{}': {}{}", excerpt(wrong->text),
                            excerpt(split.label(row)), kWhatToWrite));
  }
}

}  // namespace plimsoll
