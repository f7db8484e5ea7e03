// Converts the values of settings to and from text and JSON.
//
// These functions handle one setting at a time; rules between settings are in resolve_arguments. Thread-safe: pure
// functions. Every error message starts with the parameter `where`, which names the setting: "--learning_rate", or
// "run.yaml:3: learning_rate".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "arguments/argument_table.h"
#include "plimsoll/arguments.h"

namespace plimsoll {

// Returns the text in single quotes for a message, cut after 60 bytes.
std::string in_quotes(std::string_view text);

// Describes a JSON value in a message: "the number 5", "a list".
std::string describe_json(const nlohmann::ordered_json& value);

// Parses yes/true/t/y/on/1 and no/false/f/n/off/0 in upper or lower case. Returns nothing for any other word.
std::optional<bool> bool_from_text(std::string_view text);

// Sets a setting to a value that is written as on the command line. Errors: kUsage; the message contains the expected
// type and the text.
void set_from_text(Arguments& arguments, const Setting& setting, std::string_view text,
                   std::string_view where);
// Sets a setting to a value of a JSON document; null means the default. Errors: kUsage; the message contains the
// expected and the actual type.
void set_from_json(Arguments& arguments, const Setting& setting, const nlohmann::ordered_json& value,
                   std::string_view where);

// Formats the value as on the command line; empty if it is not set.
std::string format_value(const Arguments& arguments, const Setting& setting);
// Returns the value in the form that set_from_json reads; null if an optional is not set.
nlohmann::ordered_json value_json(const Arguments& arguments, const Setting& setting);

bool is_default(const Arguments& arguments, const Setting& setting);
// Copies the value of one setting.
void assign(Arguments& to, const Arguments& from, const Setting& setting);

// The function below checks that the value of a setting is within its range: an interval such as "[0, 1)" or choices
// "a|b|c". Thread-safe: a pure function.

// Checks the value of one setting. Errors: kUsage if it is outside the range or choices of the setting.
void check_range(const Arguments& arguments, const Setting& setting, std::string_view where);

// Layers of settings. A layer contains the settings of one source, such as a command line or a file, before they are
// converted to values.
//
// parse.cc reads command lines and argument_file.h reads files. The function below applies both kinds of layers: it
// translates old names and lets later layers override earlier ones. Thread-safe: pure functions.

struct Assignment {
  std::string name;              // name of the setting as it was written, with underscores
  std::string where;             // start of error messages: "--learning_rate" or "run.yaml:3: learning_rate"
  nlohmann::ordered_json value;  // a text as on the command line if `is_text`, otherwise any JSON value
  bool is_text = false;
  std::string place = {};  // file and line, such as "run.yaml:3"; empty for the command line
};

// Applies one layer on top of the existing settings. If a layer contains a setting under its current and an old name,
// the value of the current name is used. If a name occurs twice, the last one is used, with a warning. Errors: kUsage
// for unknown names and invalid values.
void apply_layer(const std::vector<Assignment>& layer, ParseResult& result);

}  // namespace plimsoll
