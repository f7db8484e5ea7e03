#include "labelled_text.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <stdexcept>

namespace plimsoll::demo {

std::vector<LabelledText> read_rows(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be opened");
  std::vector<LabelledText> rows;
  std::string line;
  if (!std::getline(file, line) || line != "sentence\tlabel") {
    throw std::runtime_error(path + ":1: the header is not 'sentence<TAB>label'");
  }
  for (long number = 2; std::getline(file, line); ++number) {
    const size_t tab = line.find('\t');
    if (tab == std::string::npos || line.find('\t', tab + 1) != std::string::npos) {
      throw std::runtime_error(path + ":" + std::to_string(number) + ": the line has not two fields");
    }
    rows.push_back({line.substr(0, tab), line.substr(tab + 1)});
  }
  return rows;
}

void write_text(const std::string& path, std::string_view content) {
  std::ofstream file(path, std::ios::binary);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  if (!file) throw std::runtime_error(path + ": cannot be written");
}

void write_rows(const std::string& path, std::span<const LabelledText> rows) {
  std::string content = "sentence\tlabel\n";
  for (const LabelledText& row : rows) content += row.text + "\t" + row.label + "\n";
  write_text(path, content);
}

Options::Options(int argc, char** argv, std::span<const std::string_view> known) {
  for (int i = 1; i < argc; i += 2) {
    const std::string_view word = argv[i];
    if (std::ranges::find(known, word) == known.end()) {
      throw std::runtime_error("unknown option: " + std::string(word));
    }
    if (i + 1 == argc) throw std::runtime_error(std::string(word) + " needs a value");
    values_.emplace_back(word, argv[i + 1]);
  }
}

std::string Options::optional(std::string_view name, std::string_view fallback) const {
  for (const auto& [key, value] : values_) {
    if (key == name) return value;
  }
  return std::string(fallback);
}

std::string Options::required(std::string_view name) const {
  std::string value = optional(name, "");
  if (value.empty()) throw std::runtime_error(std::string(name) + " is needed");
  return value;
}

long Options::number(std::string_view name, long fallback) const {
  const std::string text = optional(name, std::to_string(fallback));
  long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) {
    throw std::runtime_error(std::string(name) + " is '" + text + "', not a whole number of 0 or more");
  }
  return value;
}

}  // namespace plimsoll::demo
