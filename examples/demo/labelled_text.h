// Rows of text with a label, and the tab-separated files that contain them: a header "sentence<TAB>label", then one row
// per line. The reader supports only files that make_dataset wrote, whose fields contain no tabs, quotes or line ends.
// Thread-safe: values.
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

// Reads the rows. Errors: std::runtime_error with file and line if the file cannot be read or a line does not
// have two fields.
std::vector<LabelledText> read_rows(const std::string& path);
void write_rows(const std::string& path, std::span<const LabelledText> rows);

// Writes `content` to a file. Errors: std::runtime_error with the path.
void write_text(const std::string& path, std::string_view content);

// Parses "--name value" pairs of a command line. Errors: std::runtime_error for names that are not in `known`.
class Options {
 public:
  Options(int argc, char** argv, std::span<const std::string_view> known);
  // Returns the value of an option. Errors: std::runtime_error if it was not given.
  std::string required(std::string_view name) const;
  std::string optional(std::string_view name, std::string_view fallback) const;
  // Returns the value of an option, or `fallback` if it was not given. Errors: std::runtime_error if the value is not an integer
  // of at least 0.
  long number(std::string_view name, long fallback) const;

 private:
  std::vector<std::pair<std::string, std::string>> values_;
};

}  // namespace plimsoll::demo
