// Converts rows that a program passes in memory (include/plimsoll/data.h) to a data set. Pure functions, apart from calling the program's
// DataRows; thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/problem_type.h"
#include "io/data/dataset.h"
#include "io/data/text_encoder.h"
#include "plimsoll/data.h"

namespace plimsoll {

// The kinds of input: a text, a pair of texts, a list of words, or a list of token ids.
enum class RowInput : uint8_t { kText, kPair, kWords, kIds };

// Specifies if a list of ids that is longer than max_seq_length is truncated or refused.
enum class LongIds : uint8_t { kCut, kRefuse };

// The settings with which rows are converted.
struct RowRules {
  std::string name;  // name of the data in error messages, such as "train" or "batch"
  int64_t max_seq_length = 0;
  int num_threads = 1;
  LongIds long_ids = LongIds::kCut;
  int64_t vocab_size = 0;
  int64_t type_vocab_size = 0;  // number of token types; 0 if the model ignores token types
  bool refuses_types =
      false;  // true if transformers computes something from token types that Plimsoll does not
  LabelKind label_kind = LabelKind::kClass;
  int64_t num_labels = 0;
  std::optional<int32_t> end_token = {};     // id that is appended to the tokens of each text
  std::optional<TokenMasking> masking = {};  // which tokens are masked; only for LabelKind::kMaskedToken
  LabelUse label_use = LabelUse::kRequired;  // with kOptional, either all rows or no rows have a label
  // Returns the encoder for rows with this kind of input. Throws an error with the reason if such rows cannot be encoded.
  std::function<const TextEncoder&(RowInput input)> encoder;
};

// Reads the first `max_rows` rows, or all rows, by calling the functions of `source`. Errors: kBadData if there are no rows; exceptions
// of the program's functions are passed on.
std::vector<DataRow> read_rows(const DataRows& source, const std::string& name,
                               std::optional<int64_t> max_rows);

// Returns the kind of input that all rows have. Errors: kBadData if the kind differs between rows, or if a row has no input or several;
// the message names the row.
RowInput input_of_rows(const std::vector<DataRow>& rows, const std::string& name);

// Tokenizes the rows and returns the data set. The data set counts how many texts and lists of ids were truncated. Requires: at least one
// row. Errors: kBadData, with a message that names the row, in the cases of input_of_rows(), for ids and token types that the model does
// not have, lists of different lengths, and labels that do not fit label_kind and num_labels; also the errors of the encoder.
Dataset make_dataset(const std::vector<DataRow>& rows, const RowRules& rules);

// Infers the kind of labels from the rows, for a task that is not known otherwise. Rows with `values` are a regression, or multi-label if
// the labels have names. `input` is the result of input_of_rows().
LabelKind label_kind_of(const std::vector<DataRow>& rows, RowInput input, bool has_label_names);

// Returns the number of labels: the largest class + 1, or the number of values per row; 0 if the rows have no labels.
int64_t num_labels_of(const std::vector<DataRow>& rows);

}  // namespace plimsoll
