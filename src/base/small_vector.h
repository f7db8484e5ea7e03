// A list of few elements, such as the operands of an op: up to N of them are stored in the object itself, so that most lists need no
// memory of their own. Otherwise it is used as std::vector. Thread-safety: as std::vector.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <ranges>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"

namespace plimsoll {

template <typename T, size_t N>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T> && N > 0, "elements are copied as bytes");

 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  SmallVector() = default;
  SmallVector(size_t count, const T& value) { resize(count, value); }
  SmallVector(std::initializer_list<T> elements) { assign(elements.begin(), elements.end()); }
  SmallVector(const std::vector<T>& elements) {
    assign(elements.begin(), elements.end());
  }  // NOLINT: converts implicitly, because the elements are the same
  template <std::input_iterator Iterator>
  SmallVector(Iterator first, Iterator last) {
    assign(first, last);
  }
  SmallVector(const SmallVector& other) { assign(other.begin(), other.end()); }
  SmallVector(SmallVector&& other) noexcept { take(other); }
  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this != &other) take(other);
    return *this;
  }
  ~SmallVector() = default;

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return large_ ? large_.get() : small_; }
  const T* data() const { return large_ ? large_.get() : small_; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T& front() { return *data(); }
  const T& front() const { return *data(); }
  T& back() { return data()[size_ - 1]; }
  const T& back() const { return data()[size_ - 1]; }

  void reserve(size_t count) {
    if (count > capacity_) grow(count);
  }
  void clear() { size_ = 0; }
  void push_back(const T& value) {
    // copies the value first, because it may be an element of this list, and growing moves the elements
    const T added = value;
    if (size_ == capacity_) grow(size_t{2} * capacity_);
    data()[size_++] = added;
  }
  void pop_back() { --size_; }
  void resize(size_t count, const T& value = T()) {
    const T added = value;
    reserve(count);
    if (count > size_) std::fill(end(), data() + count, added);
    size_ = static_cast<uint32_t>(count);
  }
  template <std::input_iterator Iterator>
  void assign(Iterator first, Iterator last) {
    clear();
    if constexpr (std::forward_iterator<Iterator>) reserve(static_cast<size_t>(std::distance(first, last)));
    for (; first != last; ++first) push_back(*first);
  }
  // Inserts the elements of [first, last). Requires: they are not elements of this list.
  template <std::forward_iterator Iterator>
  T* insert(const T* at, Iterator first, Iterator last) {
    const auto offset = static_cast<size_t>(at - data());
    const auto count = static_cast<size_t>(std::distance(first, last));
    reserve(size_ + count);
    T* place = data() + offset;
    std::move_backward(place, end(), end() + count);
    std::copy(first, last, place);
    size_ += static_cast<uint32_t>(count);
    return place;
  }
  T* insert(const T* at, const T& value) {
    const T added = value;
    return insert(at, &added, &added + 1);
  }
  T* insert(const T* at, std::initializer_list<T> added) { return insert(at, added.begin(), added.end()); }
  T* erase(const T* first, const T* last) {
    T* place = data() + (first - data());
    const T* rest = last;
    std::copy(rest, std::as_const(*this).end(), place);
    size_ -= static_cast<uint32_t>(last - first);
    return place;
  }
  T* erase(const T* at) { return erase(at, at + 1); }

  friend bool operator==(const SmallVector& a, const SmallVector& b) { return std::ranges::equal(a, b); }

 private:
  void grow(size_t count) {
    const size_t capacity = std::max(count, size_t{2} * capacity_);
    PLIMSOLL_CHECK(capacity <= UINT32_MAX, "a SmallVector can hold at most 2^32 - 1 elements, but needs {}",
                   capacity);
    auto larger = std::make_unique_for_overwrite<T[]>(capacity);
    std::copy(begin(), end(), larger.get());
    large_ = std::move(larger);
    capacity_ = static_cast<uint32_t>(capacity);
  }
  void take(SmallVector& other) {
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, uint32_t{N});
    large_ = std::move(other.large_);
    if (!large_) std::copy(other.small_, other.small_ + size_, small_);
  }

  uint32_t size_ = 0;
  uint32_t capacity_ = N;
  std::unique_ptr<T[]> large_;  // memory of the elements; null while they fit into small_
  T small_[N];
};

}  // namespace plimsoll
