// Named constants of an op: integers, numbers and words. They are sorted by name, so that two ops with the same
// attributes compare equal and print the same text. Thread-safe: values only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"

namespace plimsoll {

using AttributeValue = std::variant<int64_t, double, std::string>;

class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string_view, AttributeValue>> items) {
    for (const auto& [name, value] : items) set(name, value);
  }

  void set(std::string_view name, AttributeValue value) {
    auto it = items_.begin();
    while (it != items_.end() && it->first < name) ++it;
    if (it != items_.end() && it->first == name) {
      it->second = std::move(value);
    } else {
      items_.insert(it, {std::string(name), std::move(value)});
    }
  }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  // Requires: the attribute exists with that type.
  int64_t integer(std::string_view name) const { return get<int64_t>(name); }
  double number(std::string_view name) const { return get<double>(name); }
  const std::string& word(std::string_view name) const { return get<std::string>(name); }
  // Returns the integer, or `fallback` if the attribute is absent.
  int64_t integer_or(std::string_view name, int64_t fallback) const {
    const AttributeValue* value = find(name);
    return value == nullptr ? fallback : std::get<int64_t>(*value);
  }
  const std::vector<std::pair<std::string, AttributeValue>>& items() const { return items_; }
  friend bool operator==(const Attributes&, const Attributes&) = default;

 private:
  const AttributeValue* find(std::string_view name) const {
    for (const auto& [key, value] : items_) {
      if (key == name) return &value;
    }
    return nullptr;
  }
  template <typename T>
  const T& get(std::string_view name) const {
    const AttributeValue* value = find(name);
    PLIMSOLL_CHECK(value != nullptr, "attribute '{}' is missing", name);
    PLIMSOLL_CHECK(std::holds_alternative<T>(*value), "attribute '{}' has another type", name);
    return std::get<T>(*value);
  }

  std::vector<std::pair<std::string, AttributeValue>> items_;
};

}  // namespace plimsoll
