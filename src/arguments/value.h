// Converts the values of settings to and from text and JSON.
//
// These functions handle one setting at a time; rules between settings are in resolve_arguments. Thread-safe:
// pure functions. Every error message starts with `where`: "--learning_rate", or "run.yaml:3: learning_rate".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "arguments/argument_table.h"
#include "plimsoll/arguments.h"

namespace plimsoll {

// Returns 'text' in quotes for a message, cut after 60 bytes.
std::string in_quotes(std::string_view text);

// Describes a JSON value in a message: "the number 5", "a list".
std::string describe_json(const nlohmann::ordered_json& value);

// Parses yes/true/t/y/on/1 and no/false/f/n/off/0 in upper or lower case. Returns nothing for any other word.
std::optional<bool> bool_from_text(std::string_view text);

// Reads a value in command-line form. Errors: kUsage; the message contains the expected type and the text.
void set_from_text(Arguments& arguments, const Setting& setting, std::string_view text,
                   std::string_view where);
// Reads a value of a JSON document; null means the default. Errors: kUsage; the message contains the expected
// and the actual type.
void set_from_json(Arguments& arguments, const Setting& setting, const nlohmann::ordered_json& value,
                   std::string_view where);

// Formats the value in command-line form; empty if it is not set.
std::string format_value(const Arguments& arguments, const Setting& setting);
// Returns the value in the form that set_from_json reads; null if an optional is not set.
nlohmann::ordered_json value_json(const Arguments& arguments, const Setting& setting);

bool is_default(const Arguments& arguments, const Setting& setting);
// Copies one setting.
void assign(Arguments& to, const Arguments& from, const Setting& setting);

// Checks that the value of a setting is within its range: an interval such as "[0, 1)" or choices "a|b|c".
// Thread-safe: pure functions.

// Checks the value of one setting. Errors: kUsage if it is outside the range or choices of the setting.
void check_range(const Arguments& arguments, const Setting& setting, std::string_view where);

// Layers of settings: the words of a command line or the keys of a file, before they are converted to values.
//
// Command lines are read in parse.cc and files in argument_file.h. Here both kinds of layers are applied, old names
// are translated, and later layers override earlier ones. Thread-safe: pure functions.

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
