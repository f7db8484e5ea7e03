// The columns of a data file that a model was trained on. They are stored as keys of its config.json under the names
// of the settings, text_column_names, label_column_name and label_delimiter, so that evaluation and prediction read the same columns.
// Hugging Face keeps keys that it does not know. Thread-safe: values and pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

struct TrainedColumns {
  std::vector<std::string> text;     // one or two; empty: not known
  std::string label;                 // "": not known
  std::string label_delimiter = {};  // between the labels of a multi-label cell; "": not known
};

// Returns the columns that a config.json names. Keys of an unexpected type are ignored, since another program wrote them.
TrainedColumns trained_columns(std::string_view config_json);

// Returns the text with these columns, or without the keys if the columns are not known. "" is returned as "" in that
// case. Requires: the text is "" or a JSON object.
std::string with_trained_columns(const std::string& config_json, const TrainedColumns& columns);

}  // namespace plimsoll
