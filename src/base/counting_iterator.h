// An iterator over a text that counts the bytes that it has passed. The JSON library reports a position only for errors that it
// finds itself. With this count, Plimsoll's own error messages about a JSON text can also contain a position. Thread-safety: a
// value; the caller owns the count.
#pragma once

#include <cstddef>
#include <iterator>

namespace plimsoll {

class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, size_t* num_taken) : at_(at), num_taken_(num_taken) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*num_taken_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) { return a.at_ == b.at_; }

 private:
  const char* at_;
  size_t* num_taken_;
};

}  // namespace plimsoll
