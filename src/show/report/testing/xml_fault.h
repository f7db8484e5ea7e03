// A check for tests that a text is well-formed XML: one root, tags that nest, quoted attributes, no stray characters.
// It supports only the parts of XML that Plimsoll writes: no comments, no CDATA, no DTD.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// Returns "" if the text is well-formed, otherwise a description of the first error with its position.
inline std::string xml_fault(std::string_view text) {
  std::vector<std::string> open;
  bool seen_root = false;
  const auto at = [](std::string_view what, size_t i) {
    return std::string(what) + " at byte " + std::to_string(i);
  };
  for (size_t i = 0; i < text.size();) {
    if (text[i] != '<') {
      if (text[i] == '>') return at("stray >", i);
      if (text[i] == '&') {
        const size_t end = text.find(';', i);
        const std::string_view name = text.substr(i + 1, end - i - 1);
        if (name != "amp" && name != "lt" && name != "gt" && name != "quot") return at("unknown entity", i);
      }
      if (open.empty() && text[i] != '\n') return at("text outside the root", i);
      ++i;
      continue;
    }
    // Finds the end of the tag. A '>' within a quoted value does not end it.
    bool quoted = false;
    size_t end = i + 1;
    while (end < text.size() && (quoted || text[end] != '>')) {
      if (text[end] == '"') quoted = !quoted;
      if (text[end] == '<') return at("'<' within a tag", end);
      ++end;
    }
    if (end == text.size()) return at("tag without end", i);
    std::string_view tag = text.substr(i + 1, end - i - 1);
    const bool closing = tag.starts_with('/');
    const bool empty = tag.ends_with('/');
    if (closing) tag.remove_prefix(1);
    if (empty) tag.remove_suffix(1);
    const std::string name(tag.substr(0, tag.find(' ')));
    if (name.empty()) return at("tag without name", i);
    if (closing) {
      if (open.empty() || open.back() != name) return at("</" + name + "> closes another tag", i);
      open.pop_back();
    } else {
      if (open.empty() && seen_root) return at("a second root", i);
      seen_root = true;
      // Reads the attributes name="value", each after one space.
      std::string_view rest = tag.substr(name.size());
      while (!rest.empty()) {
        const size_t equals = rest.find("=\"");
        if (rest[0] != ' ' || equals == std::string_view::npos || equals < 2)
          return at("broken attribute", i);
        const size_t close = rest.find('"', equals + 2);
        if (close == std::string_view::npos) return at("attribute without end", i);
        rest.remove_prefix(close + 1);
      }
      if (!empty) open.push_back(name);
    }
    i = end + 1;
  }
  if (!open.empty()) return "<" + open.back() + "> is never closed";
  return seen_root ? "" : "no root";
}

}  // namespace plimsoll
