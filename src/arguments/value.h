// The values of settings as text and as JSON, both ways, and the range of each.
//
// Knows one setting at a time; what settings mean for each other is resolve_arguments. Thread-safe: pure
// functions. `where` opens every error message: "--learning_rate", or "run.yaml:3: learning_rate".
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "arguments/argument_table.h"

namespace plimsoll {

// 'text' for a message, cut after 60 bytes.
std::string in_quotes(std::string_view text);

// yes/true/t/y/on/1 and no/false/f/n/off/0, in any case; anything else is no value.
std::optional<bool> bool_from_text(std::string_view text);

// Reads a value as the command line gives it. Errors: kUsage with the expected type and the text.
void set_from_text(Arguments& arguments, const Setting& setting, std::string_view text,
                   std::string_view where);
// Reads a value of a JSON document; null means the default. Errors: kUsage with the expected type and the
// type found.
void set_from_json(Arguments& arguments, const Setting& setting, const nlohmann::ordered_json& value,
                   std::string_view where);

// The value as the command line would give it; "" if not set.
std::string format_value(const Arguments& arguments, const Setting& setting);
// The value such that set_from_json reads it back; null if an optional is not set.
nlohmann::ordered_json value_json(const Arguments& arguments, const Setting& setting);

bool is_default(const Arguments& arguments, const Setting& setting);
// Copies one setting.
void assign(Arguments& to, const Arguments& from, const Setting& setting);

}  // namespace plimsoll
