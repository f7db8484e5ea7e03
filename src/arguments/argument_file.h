// Reads settings in JSON and YAML as layers of assignments. A layer is one source of settings, such as a file, which
// overrides the layers before it. Thread-safe: pure functions except for reading the named file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "arguments/value.h"

namespace plimsoll {

// Returns true if the word names a file of settings, that is, ends in .json, .yaml or .yml.
bool is_argument_file(std::string_view word);

// Returns the text of a file. Messages start with `name`. Errors: kUsage if it cannot be read, is larger than 16 MiB, or is
// compressed or another kind of file.
std::string read_argument_text(const std::string& path, std::string_view name);

// Reads a file in the format that its name implies. Errors: kUsage if it cannot be read, is larger than 16
// MiB, or is not a single object of settings.
std::vector<Assignment> read_argument_file(const std::string& path);

// Selects whether messages contain line numbers. They are omitted for a text that a program wrote or that is part of a
// larger file, because a user cannot look up its lines.
enum class SourceLines { kSay, kOmit };

// Reads settings from a text. Every message starts with `name` and the line. Objects may be nested at most 32
// deep.
std::vector<Assignment> read_argument_json(std::string_view text, std::string_view name, SourceLines lines);
std::vector<Assignment> read_argument_yaml(const std::string& text, std::string_view name);

}  // namespace plimsoll
