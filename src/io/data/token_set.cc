#include "io/data/token_set.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/problem_type.h"
#include "io/data/dataset.h"

namespace plimsoll {

TokenSet TokenSet::from_parts(std::vector<uint16_t> narrow_ids, std::vector<int32_t> wide_ids,
                              std::vector<uint8_t> types, std::vector<int64_t> offsets,
                              TruncationCount truncation) {
  PLIMSOLL_CHECK(!offsets.empty() && offsets.front() == 0);
  PLIMSOLL_CHECK(narrow_ids.empty() || wide_ids.empty());
  const auto total = static_cast<int64_t>(narrow_ids.size() + wide_ids.size());
  PLIMSOLL_CHECK(offsets.back() == total, "offsets end at {}, there are {} ids", offsets.back(), total);
  PLIMSOLL_CHECK(types.empty() || static_cast<int64_t>(types.size()) == total);
  TokenSet set;
  for (size_t i = 1; i < offsets.size(); ++i) {
    PLIMSOLL_CHECK(offsets[i] >= offsets[i - 1], "offset {} falls", i);
    set.longest_ = std::max(set.longest_, offsets[i] - offsets[i - 1]);
  }
  for (const uint16_t id : narrow_ids) {
    set.max_id_ = std::max<int64_t>(set.max_id_, id);
  }
  for (const int32_t id : wide_ids) {
    set.max_id_ = std::max<int64_t>(set.max_id_, id);
  }
  set.narrow_ = std::move(narrow_ids);
  set.wide_ = std::move(wide_ids);
  set.types_ = std::move(types);
  set.offsets_ = std::move(offsets);
  set.truncation_ = truncation;
  return set;
}

TokenSet TokenSet::of_length(int64_t num_rows, int64_t length, int64_t id_bytes) {
  TokenSet set;
  set.offsets_.reserve(static_cast<size_t>(num_rows) + 1);
  for (int64_t row = 0; row < num_rows; ++row) set.offsets_.push_back(set.offsets_.back() + length);
  set.longest_ = num_rows == 0 ? 0 : length;
  set.absent_bytes_ = set.num_tokens() * id_bytes;
  return set;
}

int64_t TokenSet::held_bytes() const {
  return absent_bytes_ +
         static_cast<int64_t>(narrow_.capacity() * sizeof(uint16_t) + wide_.capacity() * sizeof(int32_t) +
                              types_.capacity() + offsets_.capacity() * sizeof(int64_t));
}

std::vector<int32_t> TokenSet::lengths() const {
  std::vector<int32_t> lengths(static_cast<size_t>(num_rows()));
  for (int64_t row = 0; row < num_rows(); ++row) {
    lengths[static_cast<size_t>(row)] = narrow<int32_t>(length(row));
  }
  return lengths;
}

void TokenSet::copy_ids(int64_t row, int32_t* out) const {
  const auto begin = static_cast<size_t>(offsets_[static_cast<size_t>(row)]);
  const auto count = static_cast<size_t>(length(row));
  if (wide_.empty()) {
    std::copy_n(narrow_.begin() + static_cast<std::ptrdiff_t>(begin), count, out);
  } else {
    std::copy_n(wide_.begin() + static_cast<std::ptrdiff_t>(begin), count, out);
  }
}

void TokenSet::copy_types(int64_t row, int32_t* out) const {
  const auto count = static_cast<size_t>(length(row));
  if (types_.empty()) {
    std::fill_n(out, count, 0);
  } else {
    std::copy_n(types_.begin() + static_cast<std::ptrdiff_t>(offsets_[static_cast<size_t>(row)]), count, out);
  }
}

int64_t Dataset::held_bytes() const {
  int64_t text_bytes = static_cast<int64_t>(texts.capacity() * sizeof(std::vector<std::string>));
  for (const std::vector<std::string>& row : texts) {
    for (const std::string& text : row)
      text_bytes += static_cast<int64_t>(sizeof(std::string) + text.capacity());
  }
  return text_bytes + tokens.held_bytes() +
         static_cast<int64_t>((labels.classes.capacity() + word_starts.capacity()) * sizeof(int32_t) +
                              labels.values.capacity() * sizeof(float));
}

int64_t Dataset::num_labels(std::span<const int32_t> rows) const {
  int64_t count = 0;
  if (labels.is_next_token) {
    for (const int32_t row : rows) count += std::max<int64_t>(0, tokens.length(row) - 1);
    return count;
  }
  if (!labels.is_per_token) return std::ssize(rows);
  for (const int32_t row : rows) {
    count +=
        std::ranges::count_if(of_row(labels.classes, row), [](int32_t label) { return label != kNoLabel; });
  }
  return count;
}

}  // namespace plimsoll
