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

// The kinds of inputs that rows may have.
enum class RowInput : uint8_t { kText, kPair, kWords, kIds };

// The treatment of ids beyond max_seq_length.
enum class LongIds : uint8_t { kCut, kRefuse };

// Everything that reading rows depends on.
struct RowRules {
  std::string name;  // name of the rows in messages: "train", "batch"
  int64_t max_seq_length = 0;
  int num_threads = 1;
  LongIds long_ids = LongIds::kCut;
  int64_t vocab_size = 0;
  int64_t type_vocab_size = 0;  // 0: the model ignores token types
  LabelKind label_kind = LabelKind::kClass;
  int64_t num_labels = 0;
  std::optional<int32_t> end_token = {};     // appended to the tokens of each text
  std::optional<TokenMasking> masking = {};  // used by kMaskedToken
  LabelUse label_use = LabelUse::kRequired;  // kOptional: all rows have a label, or none
  // Returns the encoder for rows with this input. Throws the reason if there is none.
  std::function<const TextEncoder&(RowInput input)> encoder;
};

// Calls source's functions for its first `max_rows` rows, or for all. Errors: kBadData if there are none; the exceptions of the program.
std::vector<DataRow> read_rows(const DataRows& source, const std::string& name,
                               std::optional<int64_t> max_rows);

// Returns the kind of input that all rows have. Errors: kBadData, naming the row, if the kind differs between rows, or if a row
// has no input or several.
RowInput input_of_rows(const std::vector<DataRow>& rows, const std::string& name);

// Returns the tokens and labels. The truncation of the tokens counts texts and ids that were cut. Requires: at least one
// row. Errors: kBadData, naming the row, for inputs as input_of_rows(), ids and types outside the model's tables, lists
// of different lengths, and labels that do not fit the rules; those of the encoder.
Dataset make_dataset(const std::vector<DataRow>& rows, const RowRules& rules);

// Returns the kind of labels that the rows have, if the task is not known otherwise: rows of values are a regression, unless the
// labels have names. `input`: the kind of input of the rows.
LabelKind label_kind_of(const std::vector<DataRow>& rows, RowInput input, bool has_label_names);

// Returns the number of labels that follows from the rows: the largest class + 1, or the number of values per row; 0 if the rows
// have no labels.
int64_t num_labels_of(const std::vector<DataRow>& rows);

}  // namespace plimsoll
