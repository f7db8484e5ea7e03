// Which columns of a data file a model was trained on, kept as two keys of its config.json under the names of
// the settings, text_column_names and label_column_name: evaluation and prediction then read the same ones.
// Hugging Face carries keys that it does not know. Thread-safe: values and pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

struct TrainedColumns {
  std::vector<std::string> text;  // one or two; empty: not known
  std::string label;              // "": not known
};

// The columns that a config.json names. Keys of an unexpected type are ignored: they are somebody else's.
TrainedColumns trained_columns(std::string_view config_json);

// The text with these columns; without the keys where they are not known. "" stays as it is if there is
// nothing to say. Requires: the text is "" or an object of JSON.
std::string with_trained_columns(const std::string& config_json, const TrainedColumns& columns);

}  // namespace plimsoll
