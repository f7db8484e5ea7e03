#include "graph/ir/shape.h"

#include <charconv>
#include <limits>

namespace plimsoll {
namespace {

std::optional<int64_t> parse_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<Symbol> parse_symbol(std::string_view text) {
  if (text == "T") return Symbol::kTokens;
  if (text == "B") return Symbol::kSequences;
  if (text == "L") return Symbol::kLabels;
  return std::nullopt;
}

}  // namespace

std::string format_dim(const Dim& dim) {
  if (dim.is_constant()) return std::to_string(dim.offset);
  std::string text = dim.factor == 1 ? "" : std::to_string(dim.factor) + "*";
  text += dim.symbol == Symbol::kTokens ? "T" : dim.symbol == Symbol::kSequences ? "B" : "L";
  if (dim.divisor != 1) text += "/" + std::to_string(dim.divisor);
  if (dim.offset != 0) text += "+" + std::to_string(dim.offset);
  return text;
}

std::optional<Dim> parse_dim(std::string_view text) {
  if (const auto constant = parse_number(text)) return Dim(*constant);
  int64_t factor = 1;
  int64_t offset = 0;
  if (const size_t star = text.find('*'); star != std::string_view::npos) {
    const auto number = parse_number(text.substr(0, star));
    if (!number) return std::nullopt;
    factor = *number;
    text.remove_prefix(star + 1);
  }
  if (const size_t plus = text.find('+'); plus != std::string_view::npos) {
    const auto number = parse_number(text.substr(plus + 1));
    if (!number) return std::nullopt;
    offset = *number;
    text = text.substr(0, plus);
  }
  int64_t divisor = 1;
  if (const size_t slash = text.find('/'); slash != std::string_view::npos) {
    const auto number = parse_number(text.substr(slash + 1));
    if (!number || *number < 1 || *number > std::numeric_limits<int32_t>::max()) return std::nullopt;
    divisor = *number;
    text = text.substr(0, slash);
  }
  const auto symbol = parse_symbol(text);
  if (!symbol || (divisor != 1 && *symbol != Symbol::kTokens)) return std::nullopt;
  Dim dim(factor, *symbol, offset);
  dim.divisor = static_cast<int32_t>(divisor);
  return dim;
}

bool Shape::depends_on_bucket() const {
  for (const Dim& dim : dims()) {
    if (!dim.is_constant()) return true;
  }
  return false;
}

std::string format_shape(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) {
    if (i > 0) text += ",";
    text += format_dim(shape[i]);
  }
  return text + "]";
}

}  // namespace plimsoll
