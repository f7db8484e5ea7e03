// Rows of text with a label, and the tab-separated files that hold them: a header "sentence<TAB>label", then
// a row a line. Not a general reader: fields hold no tabs, quotes or line ends, because make_dataset wrote
// them. Values; thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::demo {

struct LabelledText {
  std::string text;
  std::string label;
};

// Errors: std::runtime_error with file and line when the file cannot be read or a line has not two fields.
std::vector<LabelledText> read_rows(const std::string& path);
void write_rows(const std::string& path, std::span<const LabelledText> rows);

// Writes the whole of `content`. Errors: std::runtime_error with the path.
void write_text(const std::string& path, std::string_view content);

// The values of "--name value" pairs, by name. Errors: std::runtime_error for anything but the names of
// `known`.
class Options {
 public:
  Options(int argc, char** argv, std::span<const std::string_view> known);
  // Errors: std::runtime_error when the name was not given.
  std::string required(std::string_view name) const;
  std::string optional(std::string_view name, std::string_view fallback) const;
  // Errors: std::runtime_error when the value is no whole number of 0 or more.
  long number(std::string_view name, long fallback) const;

 private:
  std::vector<std::pair<std::string, std::string>> values_;
};

}  // namespace plimsoll::demo
