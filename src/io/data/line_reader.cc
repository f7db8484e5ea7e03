#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "io/data/table_reader.h"

namespace plimsoll {
namespace {

void unify_line_breaks(std::string& text) {
  if (text.find('\r') == std::string::npos) return;
  size_t to = 0;
  for (size_t from = 0; from < text.size(); ++from) {
    if (text[from] != '\r') {
      text[to++] = text[from];
      continue;
    }
    if (from + 1 < text.size() && text[from + 1] == '\n') continue;
    text[to++] = '\n';
  }
  text.resize(to);
}

}  // namespace

Table read_lines(TextFile file, LineBreaks line_breaks) {
  const bool keeps = line_breaks == LineBreaks::kKeep;
  const uint64_t parts[] = {file.content_hash, keeps ? 1u : 0u};
  Table table(file.name, hash64(std::as_bytes(std::span(parts))), {"text"});
  unify_line_breaks(file.bytes);
  const auto num_breaks = std::ranges::count(file.bytes, '\n');
  std::vector<int64_t> ends;
  std::vector<int64_t> lines;
  ends.reserve(static_cast<size_t>(num_breaks) + 1);
  lines.reserve(static_cast<size_t>(num_breaks) + 1);
  for (size_t begin = 0; begin < file.bytes.size();) {
    begin = std::min(file.bytes.find('\n', begin), file.bytes.size() - 1) + 1;
    lines.push_back(file.first_line + static_cast<int64_t>(lines.size()));
    const bool has_break = file.bytes[begin - 1] == '\n';
    const auto num_dropped = keeps ? 0 : static_cast<int64_t>(ends.size()) + (has_break ? 1 : 0);
    ends.push_back(static_cast<int64_t>(begin) - num_dropped);
  }
  if (!keeps) std::erase(file.bytes, '\n');
  table.adopt(std::move(file.bytes), std::move(ends), std::move(lines), {});
  return table;
}

}  // namespace plimsoll
