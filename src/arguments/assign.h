// Layers of settings: the words of a command line or the keys of a file, before they become values.
//
// Not the reader of command lines (parse.cc) or of files (argument_file.h): this is where both
// meet, where old names are translated and where later layers win. Thread-safe: pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plimsoll/arguments.h"

namespace plimsoll {

struct Assignment {
  std::string name;              // as written, with underscores
  std::string where;             // opens messages: "--learning_rate" or "run.yaml:3: learning_rate"
  nlohmann::ordered_json value;  // a text as on the command line if `is_text`
  bool is_text = false;
  std::string place = {};  // "run.yaml:3", or "" on the command line
};

// Writes one layer over what is there. Within a layer a current name wins over an old one, and the last of
// two equal names wins, with a warning. Errors: kUsage for unknown names and bad values.
void apply_layer(const std::vector<Assignment>& layer, ParseResult& result);

}  // namespace plimsoll
