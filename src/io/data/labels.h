// Determines the labels of a data set and converts them to numbers. Thread-safe: pure functions and values.
//
// Inference works as in Hugging Face's run_glue. If all labels are integers, they are classes sorted as
// numbers. If they are numbers and at least one is a float, the task is regression. Otherwise they are
// classes sorted as strings (by code point). In JSON, lists of class names mean multi-label. Lists of 0 and 1
// mean one target per class (a multi-hot vector; label_lists.h defines how they are distinguished from sets
// of the classes 0 and 1), or several regression targets if regression is requested. In CSV, TSV and JSON
// strings, a multi-label cell exists if sets of classes are requested, if a delimiter is chosen, or if every
// label is a list as JSON, Python or NumPy writes it. It contains class names separated by
// LabelOptions::delimiter, or begins with '[' and is such a list; an empty cell has no class.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/problem_type.h"
#include "io/data/masking.h"
#include "io/data/text_split.h"

namespace plimsoll {

struct LabelOptions {
  std::optional<LabelKind> kind;  // if absent, inferred from the labels
  std::string delimiter = ",";    // separates the labels in a multi-label cell
  bool has_delimiter = false;     // the delimiter was chosen by the user, so that cells are sets of classes
};

// The source of a scheme's labels, named in messages about unknown labels.
enum class LabelOrigin : uint8_t { kTrainingData, kModel, kTask };

struct LabelScheme {
  LabelOrigin origin = LabelOrigin::kTrainingData;
  LabelKind kind = LabelKind::kClass;
  std::vector<std::string> names =
      {};                  // id2label: name of each id; empty for regression and multi-hot vectors
  int64_t num_labels = 0;  // number of classes or regression targets
  std::string delimiter = ",";
  bool integer_names = false;  // classes are integers: "07" means 7
  // A file may contain the id of a class instead of its name (GLUE), unless the name of a class is another number.
  bool accepts_ids = false;
  // The id of class i if the model's configuration defines its own order, otherwise empty.
  std::vector<int64_t> ids = {};

  // Returns the id of a class, or -1. Requires: the classes have names.
  int64_t id_of(std::string_view name) const;
  // Returns id2label as in config.json: names in the order of their ids.
  std::vector<std::string> names_by_id() const;
};

// The labels of a split, ready for batches. kClass: `classes` has one entry per row. kClassPerToken: `classes` has one entry per
// token. kNextToken and kMaskedToken: `classes` and `values` are empty, because the token ids are the labels; with kNextToken
// they count from `first_targets` on. Any other kind: `values` has num_labels entries per row.
struct Labels {
  std::vector<int32_t> classes;
  bool is_per_token = false;
  bool is_next_token = false;
  std::optional<TokenMasking> masking = {};  // if set, the labels are the tokens that masking hides
  // With is_next_token, per row: the position of the first token that counts as a label. Empty: 1, since nothing precedes token 0.
  std::vector<int32_t> first_targets;
  std::vector<float> values;
  int64_t width = 1;

  int64_t first_target(int32_t row) const {
    return first_targets.empty() ? 1 : std::max(1, first_targets[static_cast<size_t>(row)]);
  }
  bool is_float() const { return !values.empty(); }
  bool empty() const { return classes.empty() && values.empty() && !is_next_token && !masking; }
};

// Infers the label scheme from the labels of the training split. Errors: kBadData with file:line for a label that is missing, not
// finite, or of another form than the labels before it (a list and a number, for example), if there are no classes, or if the
// labels are not of the requested kind.
LabelScheme infer_labels(const TextSplit& train, const LabelOptions& options = {});

// Creates a scheme from the names of classes in a known order, those of a model or of a GLUE task. Labels that are integers are then ids,
// as accepts_ids states.
LabelScheme given_labels(std::vector<std::string> names, LabelOrigin origin = LabelOrigin::kModel);

// Takes the order of a model that was fine-tuned before (label2id in its config.json) if it has the same
// classes, compared without case. Otherwise returns false and changes nothing.
bool take_model_order(LabelScheme& scheme, const std::vector<std::string>& model_names_by_id);

// Takes the label list of a model that was fine-tuned before if it contains all classes of the scheme,
// compared without case, and more, because a file may contain only some of the classes. Otherwise returns
// false and changes nothing.
bool take_model_list(LabelScheme& scheme, const std::vector<std::string>& model_names_by_id);

enum class LabelUse {
  kRequired,  // an unknown label is an error
  kOptional,  // used for prediction: -1 and empty cells become kNoLabel (values: NaN)
};

// Encodes the labels of a split. Errors: kBadData with file:line for an unknown label (the message lists the
// known ones), a missing label, and a value that is not a finite number where one is required.
Labels encode_labels(const TextSplit& split, const LabelScheme& scheme, LabelUse use = LabelUse::kRequired);

// The most frequent class and its share, for the majority baseline and the warning about unbalanced labels.
struct LabelBalance {
  std::vector<int64_t> counts;  // number of rows per class
  int64_t majority = 0;
  double majority_share = 0.0;
};
// Counts the classes. Requires: single-label.
LabelBalance label_balance(const Labels& labels, int64_t num_labels);

// Finds the id of a class by its text in a file. For label_encoding.cc and word_labels.cc. Thread-safe after
// construction; refers to the scheme.

class ClassLookup {
 public:
  // Creates the table of known classes, once per split. The scheme must outlive the lookup.
  explicit ClassLookup(const LabelScheme& scheme);

  // Returns the id of a class by its name or, if the scheme accepts ids, by its id. Returns nothing for an unknown class,
  // and for an id if the name of some class is another number: such a file is read by names only.
  std::optional<int32_t> find(std::string_view text) const;
  // Throws kBadData with the file:line of the row; the message lists the known classes.
  [[noreturn]] void fail_unseen(const TextSplit& split, int64_t row, std::string_view label) const;

 private:
  std::optional<int32_t> find_name(const std::string& name) const;
  std::optional<int32_t> find_id(std::string_view text) const;
  std::string known() const;
  std::string describe_unseen(const std::string& label) const;

  const LabelScheme& scheme_;
  std::unordered_map<std::string, int32_t> ids_;
  std::optional<int64_t> ambiguous_;  // the id of the first class whose name is a number other than its id
};

// Finds labels of a training split that are probably not meant as they are read. Thread-safe: pure functions.

// Returns complete sentences with file and line, for classes from a column of text (CSV, TSV or JSON strings):
//  1. numbers and words in one column, which all become names;
//  2. some labels that are lists, among others that are not;
//  3. labels such as a#b and a|b, whose parts occur in other labels.
// Also tells that a regression was inferred, because the labels are numbers and at least one is a float.
// Requires: the scheme is that of this split. `is_kind_given`: the problem type was requested, not inferred.
std::vector<std::string> label_warnings(const TextSplit& train, const LabelScheme& scheme,
                                        bool is_kind_given);

}  // namespace plimsoll
