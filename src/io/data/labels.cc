#include "io/data/labels.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "io/data/label_cells.h"
#include "io/data/label_lists.h"
#include "io/data/text_file.h"
#include "io/data/written_list.h"

namespace plimsoll {
namespace {

// Returns the type of a label, from which the problem type is inferred if the user requests none.
CellKind scalar_kind(const TextSplit& split, int64_t row) {
  const CellKind kind = split.label_kind(row);
  if (kind != CellKind::kText || split.table().is_typed()) {
    return kind;
  }
  if (as_integer(split.label(row)).has_value()) {
    return CellKind::kInteger;
  }
  return as_number(split.label(row)).has_value() ? CellKind::kFloat : CellKind::kText;
}

void sort_names(std::vector<std::string>& names, bool as_integers) {
  if (as_integers) {
    std::sort(names.begin(), names.end(),
              [](const std::string& a, const std::string& b) { return *as_integer(a) < *as_integer(b); });
  } else {
    std::sort(names.begin(), names.end());
  }
  names.erase(std::unique(names.begin(), names.end()), names.end());
}

LabelScheme infer_regression(const TextSplit& train) {
  LabelScheme scheme;
  scheme.kind = LabelKind::kNumbers;
  for (int64_t row = 0; row < train.num_rows(); ++row) {
    int64_t width = 1;
    if (is_label_missing(train, row)) {
      fail_at_row(train, row, "this row has no label; add it, or remove the row");
    }
    if (is_label_list(train, row)) {
      const std::vector<JsonItem> items = label_items(train, row, ",");
      width = static_cast<int64_t>(items.size());
      for (const JsonItem& item : items) {
        finite_number(train, row, item.text);
      }
    } else {
      finite_number(train, row, train.label(row));
    }
    if (row == 0) {
      scheme.num_labels = width;
    }
    if (width != scheme.num_labels || width == 0) {
      fail_at_row(train, row,
                  fmt::format("this label has {}, but that of the first row has {}", counted(width, "number"),
                              scheme.num_labels));
    }
  }
  return scheme;
}

LabelScheme infer_multi_label(const TextSplit& train, const std::string& delimiter) {
  LabelScheme scheme;
  scheme.kind = LabelKind::kClasses;
  scheme.delimiter = delimiter;
  for (int64_t row = 0; row < train.num_rows(); ++row) {
    if (train.label_kind(row) == CellKind::kNull) {
      fail_at_row(train, row, "this row has no label\n  if it belongs to no class, write an empty list");
    }
  }
  LabelLists lists = survey_lists(train, delimiter);
  if (lists.names.empty()) {
    throw_error(ErrorCode::kBadData, "{}: no row has a label", train.table().file_name());
  }
  if (lists.are_vectors()) {
    require_vectors(train, delimiter);
    scheme.num_labels = static_cast<int64_t>(lists.width);
    return scheme;
  }
  scheme.names = std::move(lists.names);
  scheme.integer_names = lists.all_integers;
  for (std::string& name : scheme.names) {
    name = class_name(name, scheme.integer_names);
  }
  sort_names(scheme.names, scheme.integer_names);
  scheme.num_labels = static_cast<int64_t>(scheme.names.size());
  return scheme;
}

LabelScheme infer_classes(const TextSplit& train, bool integers) {
  LabelScheme scheme;
  scheme.integer_names = integers;
  std::unordered_map<std::string, bool> seen;
  for (int64_t row = 0; row < train.num_rows(); ++row) {
    if (is_label_missing(train, row)) {
      fail_at_row(train, row, "this row has no label; add it, or remove the row");
    }
    if (train.label_kind(row) == CellKind::kList || train.label_kind(row) == CellKind::kObject) {
      fail_at_row(train, row,
                  fmt::format("the label is {}, but one class per row is expected: {}",
                              cell_kind_name(train.label_kind(row)), excerpt(train.label(row))));
    }
    if (integers && !as_integer(train.label(row))) {
      fail_at_row(train, row,
                  fmt::format("the label {} is too large for a class", excerpt(train.label(row))));
    }
    if (seen.emplace(class_name(train.label(row), integers), true).second && seen.size() > 100000) {
      throw_error(ErrorCode::kBadData,
                  "{}: the column '{}' has more than 100000 different labels: check that it is the column of "
                  "the labels, or select another with --label_column_name",
                  train.table().file_name(), train.table().column_list());
    }
  }
  for (const auto& [name, unused] : seen) {
    scheme.names.push_back(name);
  }
  sort_names(scheme.names, integers);
  scheme.num_labels = static_cast<int64_t>(scheme.names.size());
  return scheme;
}

// Refuses a list that NumPy or PyTorch has shortened when it was printed, such as [0 0 0 ... 0 0 1].
void refuse_shortened_list(const TextSplit& train, int64_t row) {
  const std::string_view label = train.label(row);
  if (opening_of_list(label).empty() || label.find("...") == std::string_view::npos) return;
  fail_at_row(
      train, row,
      fmt::format("the label was shortened when it was printed, so its values are lost: {}\n  write the "
                  "labels again as lists (.tolist()), or call np.set_printoptions(threshold=sys.maxsize) "
                  "or torch.set_printoptions(profile='full') first",
                  excerpt(label)));
}

struct LabelKinds {
  bool any_list = false;
  bool any_float = false;
  bool all_integers = true;
  // True if every label is a text that is a list (written_list.h), unless each is a single name in brackets, such as [POS].
  bool all_written_lists = false;
  bool all_dictionaries = false;  // true if every label is a text that is a dictionary
};

// Examines the labels in one pass and returns which kinds of values occur. Errors: kBadData if a JSON file has both numbers and other
// values as labels.
LabelKinds survey(const TextSplit& train) {
  LabelKinds kinds;
  std::optional<bool> first_numeric;
  int64_t num_labels = 0;
  int64_t num_written_lists = 0;
  int64_t num_names_in_brackets = 0;
  int64_t num_dictionaries = 0;
  int64_t first_line = 0;
  for (int64_t row = 0; row < train.num_rows(); ++row) {
    if (is_label_missing(train, row)) {
      continue;
    }
    const CellKind kind = scalar_kind(train, row);
    ++num_labels;
    if (kind == CellKind::kText && is_bracketed(train.label(row))) {
      const std::string_view label = train.label(row);
      refuse_shortened_list(train, row);
      const bool is_call = label.back() == ')' && !opening_of_list(label).empty();
      num_written_lists += is_call || find_written_list(label) ? 1 : 0;
      num_names_in_brackets += is_name_in_brackets(label) ? 1 : 0;
      num_dictionaries += is_written_dictionary(label) ? 1 : 0;
    }
    kinds.any_list = kinds.any_list || kind == CellKind::kList;
    kinds.any_float = kinds.any_float || kind == CellKind::kFloat;
    kinds.all_integers = kinds.all_integers && kind == CellKind::kInteger;
    const bool numeric = kind == CellKind::kInteger || kind == CellKind::kFloat;
    if (!first_numeric.has_value()) {
      first_numeric = numeric;
      first_line = train.line(row);
    }
    if (train.table().is_typed() && numeric != *first_numeric) {
      fail_at_row(
          train, row,
          fmt::format("the label '{}' is {}, but that of line {} is {}; write all labels as numbers, or all "
                      "as text",
                      excerpt(train.label(row)), cell_kind_name(kind), first_line,
                      *first_numeric ? "a number" : "not a number"));
    }
  }
  kinds.all_written_lists =
      num_labels > 0 && num_written_lists == num_labels && num_names_in_brackets < num_labels;
  kinds.all_dictionaries = num_labels > 0 && num_dictionaries == num_labels;
  return kinds;
}

// Returns true if every label is a number. A CSV column with other labels contains the names of classes.
bool all_numbers(const TextSplit& train) {
  for (int64_t row = 0; row < train.num_rows(); ++row) {
    const CellKind kind = scalar_kind(train, row);
    if (!is_label_missing(train, row) && kind != CellKind::kInteger && kind != CellKind::kFloat) {
      return false;
    }
  }
  return true;
}

std::string lower(std::string text) {
  for (char& letter : text) {
    letter = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  }
  return text;
}

}  // namespace

int64_t LabelScheme::id_of(std::string_view name) const {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) {
      return ids.empty() ? static_cast<int64_t>(i) : ids[i];
    }
  }
  return -1;
}

std::vector<std::string> LabelScheme::names_by_id() const {
  if (ids.empty()) {
    return names;
  }
  std::vector<std::string> by_id(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    by_id[static_cast<size_t>(ids[i])] = names[i];
  }
  return by_id;
}

LabelScheme infer_labels(const TextSplit& train, const LabelOptions& options) {
  PLIMSOLL_CHECK(train.num_rows() >= 1);
  if (!train.has_label()) {
    throw_error(ErrorCode::kBadData,
                "{}: expected a label column, found {}\n  select it with --label_column_name",
                train.table().file_name(), train.table().column_list());
  }
  train.require_readable_labels();
  if (options.kind == LabelKind::kNumbers) {
    return infer_regression(train);
  }
  if (options.kind == LabelKind::kClasses || (!options.kind && options.has_delimiter)) {
    return infer_multi_label(train, options.delimiter);
  }
  const LabelKinds kinds = survey(train);
  if (options.kind == LabelKind::kClass) {
    return infer_classes(train, kinds.all_integers);
  }
  if (kinds.any_list || kinds.all_written_lists) {
    return infer_multi_label(train, options.delimiter);
  }
  if (kinds.all_dictionaries) {
    int64_t row = 0;
    while (is_label_missing(train, row)) ++row;
    fail_dictionary(train, row);
  }
  return kinds.any_float && all_numbers(train) ? infer_regression(train)
                                               : infer_classes(train, kinds.all_integers);
}

LabelScheme given_labels(std::vector<std::string> names, LabelOrigin origin) {
  LabelScheme scheme;
  scheme.origin = origin;
  scheme.names = std::move(names);
  scheme.num_labels = static_cast<int64_t>(scheme.names.size());
  scheme.accepts_ids = true;
  return scheme;
}

bool take_model_list(LabelScheme& scheme, const std::vector<std::string>& model_names_by_id) {
  if (scheme.names.empty() || scheme.names.size() >= model_names_by_id.size()) {
    return false;
  }
  std::vector<std::string> names = model_names_by_id;
  std::vector<bool> taken(names.size());
  for (const std::string& name : scheme.names) {
    const auto found = std::find_if(names.begin(), names.end(),
                                    [&](const std::string& other) { return lower(other) == lower(name); });
    if (found == names.end() || taken[static_cast<size_t>(found - names.begin())]) {
      return false;
    }
    taken[static_cast<size_t>(found - names.begin())] = true;
    // Takes the spelling of the name from the data. In the model's list, the same name may have other upper and lower case letters.
    *found = name;
  }
  const auto is_integer = [](const std::string& name) { return as_integer(name).has_value(); };
  scheme.integer_names = scheme.integer_names && std::all_of(names.begin(), names.end(), is_integer);
  scheme.names = std::move(names);
  scheme.ids.clear();
  scheme.num_labels = static_cast<int64_t>(scheme.names.size());
  scheme.origin = LabelOrigin::kModel;
  return true;
}

bool take_model_order(LabelScheme& scheme, const std::vector<std::string>& model_names_by_id) {
  if (scheme.names.empty() || model_names_by_id.size() != scheme.names.size()) {
    return false;
  }
  std::vector<int64_t> ids;
  for (const std::string& name : scheme.names) {
    int64_t id = -1;
    for (size_t i = 0; i < model_names_by_id.size(); ++i) {
      id = lower(model_names_by_id[i]) == lower(name) ? static_cast<int64_t>(i) : id;
    }
    if (id < 0 || std::find(ids.begin(), ids.end(), id) != ids.end()) {
      return false;
    }
    ids.push_back(id);
  }
  scheme.ids = std::move(ids);
  return true;
}

}  // namespace plimsoll
