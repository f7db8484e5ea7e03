// Named constants of an op: integers, floating-point numbers and strings. They are sorted by name, so that two ops with the same attributes
// compare equal and print the same text. Copies of an op share one list of attributes, and set() gives an op a list of its own, because
// passes often copy ops and rarely change their attributes. Thread-safe: values only.
#pragma once

#include <cstdint>
#include <memory>
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
  using Items = std::vector<std::pair<std::string, AttributeValue>>;

  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string_view, AttributeValue>> items) {
    auto list = std::make_shared<Items>();
    list->reserve(items.size());
    for (const auto& [name, value] : items) set(*list, name, value);
    items_ = std::move(list);
  }

  void set(std::string_view name, AttributeValue value) {
    auto list = items_ ? std::make_shared<Items>(*items_) : std::make_shared<Items>();
    set(*list, name, std::move(value));
    items_ = std::move(list);
  }
  // Removes the attribute if it exists.
  void erase(std::string_view name) {
    if (!has(name)) return;
    auto list = std::make_shared<Items>(*items_);
    std::erase_if(*list, [&](const auto& item) { return item.first == name; });
    items_ = std::move(list);
  }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  // integer(), number() and word() return the value of an attribute. Requires: the attribute exists and has the type that the function
  // returns.
  int64_t integer(std::string_view name) const { return get<int64_t>(name); }
  double number(std::string_view name) const { return get<double>(name); }
  const std::string& word(std::string_view name) const { return get<std::string>(name); }
  // Returns the integer, or `fallback` if the attribute is absent.
  int64_t integer_or(std::string_view name, int64_t fallback) const {
    const AttributeValue* value = find(name);
    return value == nullptr ? fallback : std::get<int64_t>(*value);
  }
  const Items& items() const {
    static const Items none;
    return items_ ? *items_ : none;
  }
  friend bool operator==(const Attributes& a, const Attributes& b) {
    return a.items_ == b.items_ || a.items() == b.items();
  }

 private:
  const AttributeValue* find(std::string_view name) const {
    if (!items_) return nullptr;
    for (const auto& [key, value] : *items_) {
      if (key == name) return &value;
    }
    return nullptr;
  }
  template <typename T>
  const T& get(std::string_view name) const {
    const AttributeValue* value = find(name);
    PLIMSOLL_CHECK(value != nullptr, "the op must have the attribute '{}', but it is missing", name);
    PLIMSOLL_CHECK(std::holds_alternative<T>(*value),
                   "the attribute '{}' of the op has another type than the caller asks for", name);
    return std::get<T>(*value);
  }
  static void set(Items& items, std::string_view name, AttributeValue value) {
    auto it = items.begin();
    while (it != items.end() && it->first < name) ++it;
    if (it != items.end() && it->first == name) {
      it->second = std::move(value);
    } else {
      items.insert(it, {std::string(name), std::move(value)});
    }
  }

  std::shared_ptr<const Items> items_;  // null if the op has no attributes
};

}  // namespace plimsoll
