// Determines the labels of a data set and converts them to numbers. Thread-safe: pure functions and values.
//
// Inference works as in Hugging Face's run_glue. If all labels are integers, they are classes sorted as numbers. If they are numbers and
// at least one is a float, the task is regression. Otherwise they are classes sorted as strings (by code point). In JSON, lists of class
// names mean multi-label. Lists of 0 and 1 mean one target per class (a multi-hot vector; label_lists.h defines how they are
// distinguished from sets of the classes 0 and 1), or several regression targets if regression is requested. In CSV, TSV and JSON
// strings, a cell is read as a set of classes if multi-label is requested, if a delimiter is chosen, or if every label is a list in the
// notation of JSON, Python, NumPy or PyTorch (written_list.h). Such a cell contains class names separated by LabelOptions::delimiter, or a
// list; an empty cell is an empty set.
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
  std::optional<LabelKind> kind;  // if absent, the problem type is inferred from the labels
  std::string delimiter = ",";    // separates the labels in a multi-label cell
  bool has_delimiter = false;     // true if the user chose the delimiter; every cell is then a set of classes
};

// The source of the class names; messages about unknown labels mention it.
enum class LabelOrigin : uint8_t { kTrainingData, kModel, kTask };

struct LabelScheme {
  LabelOrigin origin = LabelOrigin::kTrainingData;
  LabelKind kind = LabelKind::kClass;
  std::vector<std::string> names =
      {};                  // id2label: the name of each class; empty for regression and multi-hot vectors
  int64_t num_labels = 0;  // number of classes or regression targets
  std::string delimiter = ",";
  bool integer_names = false;  // class names are integers and compared by value: "07" means 7
  // True if a label may be the id of a class instead of its name, as in GLUE's files. Ids are nevertheless refused if the name of a class
  // is a number other than its id.
  bool accepts_ids = false;
  // ids[i] is the id of class i, if the configuration of the model defines its own order; otherwise the list is empty.
  std::vector<int64_t> ids = {};

  // Returns the id of the class with this name, or -1 if there is none. Requires: the classes have names.
  int64_t id_of(std::string_view name) const;
  // Returns id2label as in the config.json of a model: the names in the order of their ids.
  std::vector<std::string> names_by_id() const;
};

// The labels of a split. For kClass, `classes` has one entry per row; for kClassPerToken, one per token. For kNextToken and kMaskedToken
// `classes` and `values` are empty, because the token ids are the labels; with kNextToken the tokens of a row before the position in
// `first_targets` are excluded from the loss. For any other kind, `values` has num_labels entries per row.
struct Labels {
  std::vector<int32_t> classes;
  bool is_per_token = false;
  bool is_next_token = false;
  std::optional<TokenMasking> masking = {};  // if set, the labels are the original ids of the masked tokens
  // If is_next_token: for each row, the position of the first token that counts as a label. If empty, this is position 1 in every row,
  // because no token precedes the token at position 0.
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

// Creates a scheme from the class names of a model or of a GLUE task, in the order of their ids. The scheme also accepts ids as labels;
// see accepts_ids.
LabelScheme given_labels(std::vector<std::string> names, LabelOrigin origin = LabelOrigin::kModel);

// Changes the ids of the classes to those of a model that was fine-tuned before (label2id in its config.json), if the model has the same
// classes apart from upper and lower case. Otherwise returns false and changes nothing.
bool take_model_order(LabelScheme& scheme, const std::vector<std::string>& model_names_by_id);

// Replaces the classes of the scheme by those of a model that was fine-tuned before, if the model has all of them, apart from upper and
// lower case, and further ones: the training file may contain only some of the model's classes. Otherwise returns false and changes
// nothing.
bool take_model_list(LabelScheme& scheme, const std::vector<std::string>& model_names_by_id);

enum class LabelUse {
  kRequired,  // for training: an unknown label is an error
  // for prediction: the label -1 and empty cells become kNoLabel, or NaN if labels are real numbers
  kOptional,
};

// Encodes the labels of a split. Errors: kBadData with file:line for an unknown label (the message lists the
// known ones), a missing label, and a value that is not a finite number where one is required.
Labels encode_labels(const TextSplit& split, const LabelScheme& scheme, LabelUse use = LabelUse::kRequired);

// The most frequent class and its share of the rows. The share is the accuracy of a model that always predicts this class; if it is large,
// the user is warned that the labels are unbalanced.
struct LabelBalance {
  std::vector<int64_t> counts;  // number of rows per class
  int64_t majority = 0;
  double majority_share = 0.0;
};
// Counts the rows of each class. Requires: every row has one class.
LabelBalance label_balance(const Labels& labels, int64_t num_labels);

// Finds the id of a class by the text of a label. It is used by label_encoding.cc and word_labels.cc only. Thread-safe after
// construction; refers to the scheme.

class ClassLookup {
 public:
  // Creates the hash table of the known classes, which takes time linear in their number. The scheme must outlive the lookup.
  explicit ClassLookup(const LabelScheme& scheme);

  // Returns the id of the class with this name or, if the scheme accepts ids, this id. Returns nothing for an unknown class. Numbers, and
  // true and false, are compared by value if no name is equal as text: 0.0 is the class 0, and true in a JSON file the class True of a CSV
  // file. Ids are not accepted if the name of a class is a number other than its id, because such labels would be ambiguous.
  std::optional<int32_t> find(std::string_view text) const;
  // Throws kBadData with the file:line of the row; the message lists the known classes.
  [[noreturn]] void fail_unseen(const TextSplit& split, int64_t row, std::string_view label) const;

 private:
  std::optional<int32_t> find_name(const std::string& name) const;
  std::optional<int32_t> find_id(std::string_view text) const;
  std::optional<int32_t> find_equal(std::string_view text) const;
  std::string known() const;
  std::string describe_unseen(const std::string& label) const;

  const LabelScheme& scheme_;
  std::unordered_map<std::string, int32_t> ids_;
  // The ids of the classes whose names are numbers or truth values, by canonical_value() of class_lookup.cc; kNoLabel if names of two
  // classes have the same value.
  std::unordered_map<std::string, int32_t> ids_by_value_;
  std::optional<int64_t> ambiguous_;  // the id of the first class whose name is a number other than its id
};

// Finds labels of a training split that were probably meant in another way than they are interpreted. Thread-safe: pure functions.

// Returns warnings as complete sentences with file and line. For classes in a column of text (CSV, TSV or JSON strings), it warns about:
//  1. numbers and words in one column, which are all interpreted as class names;
//  2. some labels that are lists, among others that are not;
//  3. labels such as a#b and a|b, whose parts occur in other labels;
//  4. vectors of 0 and 1 without brackets, such as 1 0 1.
// Also reports if regression was inferred because the labels are numbers and at least one is a float. Requires: the scheme is that of this
// split. `is_kind_given` is true if the user requested the problem type.
std::vector<std::string> label_warnings(const TextSplit& train, const LabelScheme& scheme,
                                        bool is_kind_given);

}  // namespace plimsoll
