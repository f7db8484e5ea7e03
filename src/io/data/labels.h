// What the labels of a data set are, and their numbers. Thread-safe: pure functions and values.
//
// Inference, as Hugging Face's run_glue does it: all labels integers: classes, sorted as numbers; numbers
// with at least one float: regression; else classes, sorted as strings (by code point). Lists (JSON): lists
// of class names mean multi-label, lists of 0 and 1 one target a class (a multi-hot vector; label_lists.h has
// the rule that tells them from sets of the classes 0 and 1), or several regression targets when regression
// is asked for. In CSV, TSV and strings of JSON a multi-label cell, only when that problem type is asked for,
// holds class names separated by LabelOptions::delimiter, or begins with '[' and is such a list; an empty
// cell has no class.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/data/text_split.h"

#include "base/problem_type.h"

namespace plimsoll {

// Errors: kUsage for another word.
ProblemType parse_problem_type(std::string_view word);

struct LabelOptions {
  std::optional<ProblemType> problem;  // absent: inferred
  char delimiter = ',';                // between the labels of a multi-label cell
};

// Where the labels of a scheme come from: what a message about an unknown one calls them.
enum class LabelOrigin : uint8_t { kTrainingData, kModel, kTask };

struct LabelScheme {
  LabelOrigin origin = LabelOrigin::kTrainingData;
  ProblemType problem = ProblemType::kSingleLabel;
  std::vector<std::string> names;  // id2label: the class of id i; empty for regression and multi-hot vectors
  int64_t num_labels = 0;          // classes, or regression targets
  char delimiter = ',';
  bool integer_names = false;  // classes are integers: "07" is 7
  bool accepts_ids = false;    // a file may write the id of a class for its name (GLUE)
  // The id of class i when the model's config has an order of its own; else empty.
  std::vector<int64_t> ids;

  // The id of a class, or -1. Requires: classes have names.
  int64_t id_of(std::string_view name) const;
  // id2label as config.json writes it: names by id.
  std::vector<std::string> names_by_id() const;
};

// Labels of a split, ready for batches: `classes` for single-label problems, else `values`, num_labels of
// them a row.
struct Labels {
  std::vector<int32_t> classes;
  std::vector<float> values;
  int64_t width = 1;

  bool is_float() const { return !values.empty(); }
  bool empty() const { return classes.empty() && values.empty(); }
};

// A label that has no class: rows to predict. Losses and metrics skip it.
inline constexpr int32_t kNoLabel = -100;

// The scheme of the training split. Errors: kBadData with file:line for a missing, non-finite or mixed label,
// for fewer than one class, or when the labels are not what the problem type that was asked for needs.
LabelScheme infer_labels(const TextSplit& train, const LabelOptions& options = {});

// Classes in an order that is known beforehand, a model's or GLUE's. With integers, the file writes ids
// instead of names.
LabelScheme given_labels(std::vector<std::string> names, LabelOrigin origin = LabelOrigin::kModel);

// Takes the order of a model that was fine-tuned before (label2id of its config.json) if it has the same
// classes, compared without case; returns false and changes nothing otherwise.
bool take_model_order(LabelScheme& scheme, const std::vector<std::string>& model_names_by_id);

// Takes the list of a model that was fine-tuned before, if it has all classes of the scheme, compared without
// case, and more: a file may hold a part of them. Returns false and changes nothing otherwise.
bool take_model_list(LabelScheme& scheme, const std::vector<std::string>& model_names_by_id);

enum class LabelUse {
  kRequired,  // a label that the scheme has not is an error
  kOptional,  // to predict: -1 and empty cells become kNoLabel (values: NaN)
};

// Errors: kBadData with file:line for a label that the scheme has not (the known ones are listed), is
// missing, or is not a finite number where one is needed.
Labels encode_labels(const TextSplit& split, const LabelScheme& scheme, LabelUse use = LabelUse::kRequired);

// The share of the commonest class and its id, for the majority baseline and the warning about one-sided
// labels.
struct LabelBalance {
  std::vector<int64_t> counts;  // rows of each class
  int64_t majority = 0;
  double majority_share = 0.0;
};
// Requires: single-label.
LabelBalance label_balance(const Labels& labels, int64_t num_labels);

}  // namespace plimsoll
