// An optional value that is stored in shared, immutable memory. It is meant for a member that only few objects have, because it
// takes just a pointer in all others. Copies share the value. Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <utility>

namespace plimsoll {

template <typename T>
class SharedOptional {
 public:
  SharedOptional() = default;
  SharedOptional(T value)
      : value_(std::make_shared<const T>(std::move(value))) {}  // NOLINT: as std::optional
  SharedOptional(const std::optional<T>& value)                 // NOLINT: the same value
      : value_(value ? std::make_shared<const T>(*value) : nullptr) {}

  explicit operator bool() const { return value_ != nullptr; }
  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_.get(); }
  friend bool operator==(const SharedOptional& a, const SharedOptional& b) {
    return a.value_ == b.value_ || (a.value_ && b.value_ && *a == *b);
  }

 private:
  std::shared_ptr<const T> value_;
};

}  // namespace plimsoll
