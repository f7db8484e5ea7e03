// Converts the values of settings to and from text and JSON.
//
// These functions handle one setting at a time; rules between settings are in resolve_arguments. Thread-safe:
// pure functions. Every error message starts with `where`: "--learning_rate", or "run.yaml:3: learning_rate".
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "arguments/argument_table.h"

namespace plimsoll {

// Returns 'text' in quotes for a message, cut after 60 bytes.
std::string in_quotes(std::string_view text);

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

}  // namespace plimsoll
