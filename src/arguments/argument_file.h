// Settings in JSON and YAML, as layers of assignments. Thread-safe: pure functions but for reading the file
// named.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "arguments/assign.h"

namespace plimsoll {

// Whether a word names a file of settings by its ending: .json, .yaml or .yml.
bool is_argument_file(std::string_view word);

// Reads a file by its ending. Errors: kUsage if it cannot be read, is over 16 MiB, or is not one object of
// settings.
std::vector<Assignment> read_argument_file(const std::string& path);

// Whether a text has lines that a user can look up. One that a program wrote, or a part of a larger file, has
// none.
enum class SourceLines { kSay, kOmit };

// The same for text; `name` and the line open every message. Objects may nest at most 32 deep.
std::vector<Assignment> read_argument_json(std::string_view text, std::string_view name, SourceLines lines);
std::vector<Assignment> read_argument_yaml(const std::string& text, std::string_view name);

}  // namespace plimsoll
