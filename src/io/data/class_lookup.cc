#include "io/data/labels.h"

#include <cmath>

#include "base/check.h"
#include "io/data/label_cells.h"
#include "io/data/text_file.h"

namespace plimsoll {
namespace {

// Returns true if the name is a number other than the id of its class, as in id2label {"0": "1", "1": "2"}.
bool is_another_number(const std::string& name, int64_t id) {
  const std::optional<double> number = as_number(name);
  return number && std::isfinite(*number) && *number != static_cast<double>(id);
}

// Returns the value of a number or of true and false in a form that is equal for equal values, and an empty string for other texts.
std::string canonical_value(std::string_view text) {
  if (const std::optional<int64_t> whole = as_whole_number(text)) return fmt::format("{}", *whole);
  if (const std::optional<double> number = as_number(text)) return fmt::format("{}", *number);
  for (const char* truth : {"true", "True", "TRUE"}) {
    if (text == truth) return "true";
  }
  for (const char* falsehood : {"false", "False", "FALSE"}) {
    if (text == falsehood) return "false";
  }
  return {};
}

}  // namespace

ClassLookup::ClassLookup(const LabelScheme& scheme) : scheme_(scheme) {
  // Maps names to ids. The result is the same as that of scheme.id_of(), which searches a list and would take hours for a million names.
  ids_.reserve(scheme.names.size());
  for (size_t i = 0; i < scheme.names.size(); ++i) {
    const int64_t id = scheme.ids.empty() ? static_cast<int64_t>(i) : scheme.ids[i];
    ids_.emplace(scheme.names[i], narrow<int32_t>(id));
    if (const std::string value = canonical_value(scheme.names[i]); !value.empty()) {
      const auto [found, is_new] = ids_by_value_.emplace(value, narrow<int32_t>(id));
      if (!is_new) found->second = kNoLabel;
    }
    if (!ambiguous_ && is_another_number(scheme.names[i], id)) ambiguous_ = id;
  }
}

std::optional<int32_t> ClassLookup::find_id(std::string_view text) const {
  const std::optional<int64_t> id = scheme_.accepts_ids ? as_whole_number(text) : std::nullopt;
  if (!id || *id < 0 || *id >= scheme_.num_labels) return std::nullopt;
  return find_name(scheme_.names[static_cast<size_t>(*id)]);
}

std::optional<int32_t> ClassLookup::find_name(const std::string& name) const {
  const auto found = ids_.find(name);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<int32_t> ClassLookup::find_equal(std::string_view text) const {
  const auto found = ids_by_value_.find(canonical_value(text));
  return found == ids_by_value_.end() || found->second == kNoLabel ? std::nullopt
                                                                   : std::optional(found->second);
}

std::optional<int32_t> ClassLookup::find(std::string_view text) const {
  if (scheme_.integer_names && as_integer(text).has_value()) {
    return find_name(class_name(text, true));
  }
  std::optional<int32_t> named = find_name(std::string(text));
  // If numbers could be names or ids, only the text of a name decides.
  const bool is_unclear = scheme_.accepts_ids && ambiguous_;
  if (!named && !is_unclear) named = find_equal(text);
  // If the names of some classes are numbers other than their ids, only names are accepted. For example, if the classes 0 and 1 have the
  // names '1' and '2', the label 1 is the name of class 0. If ids were accepted too, the label 0 would also mean class 0.
  return named || ambiguous_ ? named : find_id(text);
}

std::string ClassLookup::known() const {
  std::string list;
  for (size_t i = 0; i < scheme_.names.size() && i < 10; ++i) {
    list += fmt::format("{}'{}'", i == 0 ? "" : ", ", excerpt(scheme_.names[i]));
  }
  if (scheme_.names.size() > 10) {
    list += fmt::format(" and {} more", scheme_.names.size() - 10);
  }
  return list;
}

std::string ClassLookup::describe_unseen(const std::string& label) const {
  if (ambiguous_ && find_id(label)) {
    return fmt::format(
        "the label '{}' is the id of a class, not a name, and the names of the classes are other numbers "
        "(id {} has the name '{}'), so it is unclear which class the label means; the names are {}\n  write "
        "these names as labels, or correct id2label in the model's config.json",
        label, *ambiguous_, excerpt(scheme_.names_by_id()[static_cast<size_t>(*ambiguous_)]), known());
  }
  switch (scheme_.origin) {
    case LabelOrigin::kTrainingData:
      return fmt::format(
          "the label '{}' is not in the training data, which has {}\n  correct the row, or add rows with "
          "this label to the training file",
          label, known());
    case LabelOrigin::kModel:
      return fmt::format(
          "the label '{}' is not one of the model's labels, {}\n  correct the row, or use a model that was "
          "trained with this label",
          label, known());
    case LabelOrigin::kTask:
      return fmt::format(
          "the label '{}' is not one of the task's labels, {}\n  correct the row, or omit --task_name if the "
          "data is not GLUE's",
          label, known());
  }
  return {};
}

void ClassLookup::fail_unseen(const TextSplit& split, int64_t row, std::string_view label) const {
  fail_at_row(split, row, describe_unseen(excerpt(label)));
}

}  // namespace plimsoll
