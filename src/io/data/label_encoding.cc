// Implements the part of labels.h that converts label cells to ids and values.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "io/data/label_cells.h"
#include "io/data/label_lists.h"
#include "io/data/labels.h"
#include "io/data/text_file.h"

namespace plimsoll {
namespace {

Labels encode_classes(const TextSplit& split, const LabelScheme& scheme, LabelUse use) {
  const ClassLookup lookup(scheme);
  Labels labels;
  labels.classes.reserve(static_cast<size_t>(split.num_rows()));
  for (int64_t row = 0; row < split.num_rows(); ++row) {
    if (is_label_missing(split, row)) {
      if (use == LabelUse::kRequired) {
        fail_at_row(split, row, "this row has no label; add it, or remove the row");
      }
      labels.classes.push_back(kNoLabel);
      continue;
    }
    const std::optional<int32_t> id = lookup.find(split.label(row));
    const bool unlabelled = use == LabelUse::kOptional && as_integer(split.label(row)) == -1;
    if (!id.has_value() && !unlabelled) {
      lookup.fail_unseen(split, row, split.label(row));
    }
    labels.classes.push_back(id.value_or(kNoLabel));
  }
  return labels;
}

Labels encode_sets(const TextSplit& split, const LabelScheme& scheme, LabelUse use) {
  const ClassLookup lookup(scheme);
  Labels labels;
  labels.width = scheme.num_labels;
  labels.values.assign(static_cast<size_t>(split.num_rows() * labels.width), 0.0f);
  for (int64_t row = 0; row < split.num_rows(); ++row) {
    if (split.label_kind(row) == CellKind::kNull && use == LabelUse::kOptional) {
      std::fill_n(labels.values.begin() + row * labels.width, labels.width,
                  std::numeric_limits<float>::quiet_NaN());
      continue;
    }
    if (split.label_kind(row) == CellKind::kNull) {
      fail_at_row(split, row, "this row has no label\n  if it belongs to no class, write an empty list");
    }
    for (const JsonItem& item : label_items(split, row, scheme.delimiter)) {
      const std::optional<int32_t> id = lookup.find(item.text);
      if (!id.has_value()) {
        lookup.fail_unseen(split, row, item.text);
      }
      labels.values[static_cast<size_t>(row * labels.width + *id)] = 1.0f;
    }
  }
  return labels;
}

Labels encode_values(const TextSplit& split, const LabelScheme& scheme, LabelUse use) {
  Labels labels;
  labels.width = scheme.num_labels;
  labels.values.reserve(static_cast<size_t>(split.num_rows() * labels.width));
  for (int64_t row = 0; row < split.num_rows(); ++row) {
    if (is_label_missing(split, row)) {
      if (use == LabelUse::kRequired) {
        fail_at_row(split, row, "this row has no label; add it, or remove the row");
      }
      labels.values.insert(labels.values.end(), static_cast<size_t>(labels.width),
                           std::numeric_limits<float>::quiet_NaN());
      continue;
    }
    std::vector<JsonItem> items = {{split.label_kind(row), std::string(split.label(row))}};
    if (is_label_list(split, row)) {
      items = label_items(split, row, scheme.delimiter);
    }
    if (static_cast<int64_t>(items.size()) != labels.width) {
      fail_at_row(
          split, row,
          fmt::format("this label has {}, but each label of the {} has {}", counted(items.size(), "number"),
                      scheme.origin == LabelOrigin::kTrainingData ? "training data" : "model", labels.width));
    }
    for (const JsonItem& item : items) {
      const double value = finite_number(split, row, item.text);
      if (scheme.kind == LabelKind::kClasses && value != 0.0 && value != 1.0) {
        fail_at_row(split, row, fmt::format("a multi-label target must be 0 or 1, found {}", item.text));
      }
      labels.values.push_back(static_cast<float>(value));
    }
  }
  return labels;
}

// Returns true if the file uses vectors of 0 and 1 instead of the names or ids of a model's own label list.
// The model may have been trained with vectors, but its configuration does not say so.
bool writes_vectors(const TextSplit& split, const LabelScheme& scheme) {
  return scheme.accepts_ids && scheme.id_of("0") < 0 && scheme.id_of("1") < 0 &&
         survey_lists(split, scheme.delimiter).are_vectors();
}

}  // namespace

Labels encode_labels(const TextSplit& split, const LabelScheme& scheme, LabelUse use) {
  if (!split.has_label()) {
    if (use == LabelUse::kOptional) {
      return {};
    }
    throw_error(ErrorCode::kBadData, "{}: expected a label column, found {}", split.table().file_name(),
                split.table().column_list());
  }
  split.require_readable_labels();
  if (scheme.kind == LabelKind::kClass) {
    return encode_classes(split, scheme, use);
  }
  return scheme.kind == LabelKind::kClasses && !scheme.names.empty() && !writes_vectors(split, scheme)
             ? encode_sets(split, scheme, use)
             : encode_values(split, scheme, use);
}

LabelBalance label_balance(const Labels& labels, int64_t num_labels) {
  LabelBalance balance;
  balance.counts.assign(static_cast<size_t>(num_labels), 0);
  int64_t total = 0;
  for (const int32_t id : labels.classes) {
    if (id >= 0) {
      ++balance.counts[static_cast<size_t>(id)];
      ++total;
    }
  }
  for (int64_t id = 0; id < num_labels; ++id) {
    if (balance.counts[static_cast<size_t>(id)] > balance.counts[static_cast<size_t>(balance.majority)]) {
      balance.majority = id;
    }
  }
  if (total > 0) {
    balance.majority_share = static_cast<double>(balance.counts[static_cast<size_t>(balance.majority)]) /
                             static_cast<double>(total);
  }
  return balance;
}

}  // namespace plimsoll
