#include "io/data/written_list.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "io/data/label_cells.h"

namespace plimsoll {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

std::string_view without_blanks(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Returns the bracket that closes this one, or 0 if the character opens none.
char closing_bracket(char open) {
  return open == '[' ? ']' : open == '(' ? ')' : open == '{' ? '}' : '\0';
}

// Reads a list in the notation that Python, NumPy or PyTorch prints, such as ['a', 'b'] or [0 1].
class ListParser {
 public:
  explicit ListParser(std::string_view text) : rest_(text) {}

  std::optional<std::vector<JsonItem>> read() && {
    std::optional<std::vector<JsonItem>> items = read_list();
    return rest_.empty() ? std::move(items) : std::nullopt;
  }

 private:
  void skip_blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(kBlanks), rest_.size())); }

  // Removes the text from the start of the rest. Returns false if the rest begins with another text.
  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }

  // Skips the letter before the quote of u'text' (Python 2) and b'text' (bytes).
  void skip_string_prefix() {
    const bool has_letter = rest_.starts_with('u') || rest_.starts_with('b');
    if (has_letter && rest_.size() > 1 && (rest_[1] == '\'' || rest_[1] == '"')) rest_.remove_prefix(1);
  }

  void skip_module() {
    for (const char* module : {"np.", "numpy.", "torch.", "jnp."}) {
      if (take(module)) return;
    }
  }

  std::optional<std::vector<JsonItem>> read_list() {
    if (!rest_.empty() && closing_bracket(rest_[0]) != '\0') return read_items();
    skip_module();
    const bool is_set = take("set(") || take("frozenset(");
    if (is_set && take(")")) return std::vector<JsonItem>();
    if (!is_set && !take("array(") && !take("tensor(")) return std::nullopt;
    if (rest_.empty() || closing_bracket(rest_[0]) == '\0') return std::nullopt;
    std::optional<std::vector<JsonItem>> items = read_items();
    while (items && take(",")) {  // an argument such as dtype=torch.float32
      const size_t end = rest_.find_first_of(",)");
      if (rest_.substr(0, end).find('=') == std::string_view::npos) return std::nullopt;
      rest_.remove_prefix(std::min(end, rest_.size()));
    }
    return take(")") ? std::move(items) : std::nullopt;
  }

  std::optional<std::vector<JsonItem>> read_items() {
    const char open = rest_[0];
    const char close = closing_bracket(open);
    rest_.remove_prefix(1);
    std::vector<JsonItem> items;
    bool has_comma = false;
    skip_blanks();
    while (!take({&close, 1})) {
      if (rest_.empty()) return std::nullopt;
      skip_string_prefix();
      std::optional<JsonItem> item = rest_[0] == '\'' || rest_[0] == '"' ? read_string() : read_scalar();
      if (!item) return std::nullopt;
      if (open == '{') item->kind = CellKind::kText;
      items.push_back(std::move(*item));
      const size_t before = rest_.size();
      skip_blanks();
      if (rest_.starts_with(close)) continue;
      if (take(",")) {
        has_comma = true;
        skip_blanks();
        if (rest_.starts_with(close) && open != '(') return std::nullopt;
      } else if (rest_.size() == before || open != '[') {
        return std::nullopt;  // the text is not a list: no comma follows this item, and in an array no blank
      }
    }
    if (open == '(' && !items.empty() && !has_comma) return std::nullopt;
    if (open == '{' && items.empty()) return std::nullopt;  // an empty dictionary
    return items;
  }

  std::optional<JsonItem> read_string() {
    const char quote = rest_[0];
    std::string text;
    for (size_t i = 1; i < rest_.size(); ++i) {
      if (rest_[i] == quote) {
        rest_.remove_prefix(i + 1);
        return JsonItem{CellKind::kText, std::move(text)};
      }
      if (rest_[i] == '\\' && ++i == rest_.size()) break;
      text += rest_[i];
    }
    return std::nullopt;
  }

  // Reads a number, True or False, and what NumPy prints for its own types: np.int64(1), np.str_('a'), np.True_.
  std::optional<JsonItem> read_scalar() {
    const size_t before = rest_.size();
    skip_module();
    const bool is_numpy = rest_.size() < before;
    const std::string_view word =
        rest_.substr(0, std::min(rest_.find_first_of(", \t\r\n[](){}"), rest_.size()));
    rest_.remove_prefix(word.size());
    if (!is_numpy) return value_of(word);
    if (word == "True_" || word == "False_") return value_of(word.substr(0, word.size() - 1));
    if (!take("(") || rest_.empty()) return std::nullopt;
    std::optional<JsonItem> item;
    if (rest_[0] == '\'' || rest_[0] == '"') {
      item = read_string();
    } else {
      const std::string_view number = rest_.substr(0, std::min(rest_.find(')'), rest_.size()));
      rest_.remove_prefix(number.size());
      item = value_of(number);
    }
    return take(")") ? std::move(item) : std::nullopt;
  }

  static std::optional<JsonItem> value_of(std::string_view word) {
    if (word == "True" || word == "False") {
      return JsonItem{CellKind::kBool, word == "True" ? "true" : "false"};
    }
    // Missing numbers, as pandas, NumPy, Python and JSON write them.
    for (const char* missing : {"nan", "NaN", "None", "null", "NA", "<NA>"}) {
      if (word == missing) return JsonItem{CellKind::kNull, std::string(word)};
    }
    if (as_integer(word)) return JsonItem{CellKind::kInteger, fmt::format("{}", *as_integer(word))};
    const std::optional<double> number = as_number(word);
    if (!number || !std::isfinite(*number)) return std::nullopt;
    return JsonItem{CellKind::kFloat, fmt::format("{}", *number)};
  }

  std::string_view rest_;
};

// Reads [a, b], a list of names without quotes that end at commas. Returns nothing if an item is empty or contains a bracket or quote, and
// if none of several words is followed by a comma, as in [a b].
std::optional<std::vector<JsonItem>> read_names(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return std::nullopt;
  text = text.substr(1, text.size() - 2);
  if (text.find_first_of("[](){}'\"\\") != std::string_view::npos) return std::nullopt;
  std::vector<JsonItem> items;
  while (true) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view item = without_blanks(text.substr(0, end));
    if (item.empty()) return std::nullopt;
    items.push_back({CellKind::kText, std::string(item)});
    if (end == text.size()) break;
    text.remove_prefix(end + 1);
  }
  const bool is_sentence = items.size() == 1 && items[0].text.find_first_of(kBlanks) != std::string::npos;
  return is_sentence ? std::nullopt : std::optional(std::move(items));
}

}  // namespace

std::optional<std::vector<JsonItem>> find_written_list(std::string_view text) {
  text = without_blanks(text);
  if (!is_bracketed(text)) return std::nullopt;
  std::optional<std::vector<JsonItem>> items = text[0] == '[' ? find_json_list(text) : std::nullopt;
  if (!items) items = ListParser(text).read();
  return items ? std::move(items) : read_names(text);
}

std::string_view opening_of_list(std::string_view text) {
  text = without_blanks(text);
  if (text.starts_with('[')) return text.substr(0, 1);
  for (const std::string_view module : {"", "np.", "numpy.", "torch.", "jnp."}) {
    if (!text.starts_with(module)) continue;
    for (const std::string_view function : {"array(", "tensor(", "set(", "frozenset("}) {
      if (text.substr(module.size()).starts_with(function))
        return text.substr(0, module.size() + function.size());
    }
  }
  return {};
}

bool is_bracketed(std::string_view text) {
  text = without_blanks(text);
  if (text.size() < 2) return false;
  if (closing_bracket(text[0]) != '\0') return text.back() == closing_bracket(text[0]);
  return text.back() == ')' && !opening_of_list(text).empty();
}

bool is_written_dictionary(std::string_view text) {
  text = without_blanks(text);
  return is_bracketed(text) && text[0] == '{' && text.find(':') != std::string_view::npos;
}

bool is_name_in_brackets(std::string_view text) {
  text = without_blanks(text);
  if (find_json_list(text) || ListParser(text).read()) return false;
  const std::optional<std::vector<JsonItem>> names = read_names(text);
  return names && names->size() == 1;
}

}  // namespace plimsoll
