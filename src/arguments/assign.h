// Layers of settings: the words of a command line or the keys of a file, before they are converted to values.
//
// Command lines are read in parse.cc and files in argument_file.h. This is where both meet, where old names are
// translated, and where later layers override earlier ones. Thread-safe: pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plimsoll/arguments.h"

namespace plimsoll {

struct Assignment {
  std::string name;              // name as written, with underscores
  std::string where;             // start of messages: "--learning_rate" or "run.yaml:3: learning_rate"
  nlohmann::ordered_json value;  // a text in command-line form if `is_text`
  bool is_text = false;
  std::string place = {};  // "run.yaml:3"; empty for the command line
};

// Applies one layer on top of the existing settings. Within a layer a current name overrides an old one. If a
// name occurs twice, the last one is used, with a warning. Errors: kUsage for unknown names and invalid
// values.
void apply_layer(const std::vector<Assignment>& layer, ParseResult& result);

}  // namespace plimsoll
