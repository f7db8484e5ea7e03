#include "io/data/token_set.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/problem_type.h"
#include "io/data/dataset.h"

namespace plimsoll {

namespace {

constexpr int64_t kNoRows[] = {0};

// The ids and types of a token set whose data is in memory, not in a mapped file.
struct HeldTokens {
  std::vector<uint16_t> narrow_ids;
  std::vector<int32_t> wide_ids;
  std::vector<uint8_t> types;
};

template <typename Id>
int64_t largest_of(std::span<const Id> ids) {
  return ids.empty() ? 0 : int64_t{*std::ranges::max_element(ids)};
}

void check_arrays(const TokenArrays& arrays) {
  const std::span<const int64_t> offsets = arrays.offsets;
  PLIMSOLL_CHECK(!offsets.empty() && offsets.front() == 0);
  PLIMSOLL_CHECK(arrays.narrow_ids.empty() || arrays.wide_ids.empty());
  const auto total = static_cast<int64_t>(arrays.narrow_ids.size() + arrays.wide_ids.size());
  PLIMSOLL_CHECK(offsets.back() == total, "the last offset must be the number of token ids, {1}, but is {0}",
                 offsets.back(), total);
  PLIMSOLL_CHECK(arrays.types.empty() || static_cast<int64_t>(arrays.types.size()) == total);
}

}  // namespace

TokenSet::TokenSet() {
  arrays_.offsets = kNoRows;
}

void TokenSet::find_longest() {
  const std::span<const int64_t> offsets = arrays_.offsets;
  longest_ = 0;
  for (size_t i = 1; i < offsets.size(); ++i) {
    PLIMSOLL_CHECK(offsets[i] >= offsets[i - 1],
                   "the offsets of the rows must not decrease, but the one with the index {} is smaller than "
                   "the one before it",
                   i);
    longest_ = std::max(longest_, offsets[i] - offsets[i - 1]);
  }
}

void TokenSet::set_rows(std::vector<int64_t> offsets) {
  const auto held = std::make_shared<const std::vector<int64_t>>(std::move(offsets));
  arrays_.offsets = *held;
  offsets_bytes_ = static_cast<int64_t>(held->capacity() * sizeof(int64_t));
  offsets_ = held;
  find_longest();
}

TokenSet TokenSet::from_parts(std::vector<uint16_t> narrow_ids, std::vector<int32_t> wide_ids,
                              std::vector<uint8_t> types, std::vector<int64_t> offsets,
                              TruncationCount truncation) {
  const auto held = std::make_shared<const HeldTokens>(
      HeldTokens{std::move(narrow_ids), std::move(wide_ids), std::move(types)});
  TokenSet set;
  set.ids_ = held;
  set.arrays_ = {
      .narrow_ids = held->narrow_ids, .wide_ids = held->wide_ids, .types = held->types, .offsets = {}};
  set.ids_bytes_ = static_cast<int64_t>(held->narrow_ids.capacity() * sizeof(uint16_t) +
                                        held->wide_ids.capacity() * sizeof(int32_t) + held->types.capacity());
  set.set_rows(std::move(offsets));
  check_arrays(set.arrays_);
  set.max_id_ = std::max(largest_of(set.arrays_.narrow_ids), largest_of(set.arrays_.wide_ids));
  set.truncation_ = truncation;
  return set;
}

TokenSet TokenSet::from_mapped(MappedTokens tokens, TruncationCount truncation) {
  check_arrays(tokens.arrays);
  TokenSet set;
  set.mapping_ = std::move(tokens.file);
  set.arrays_ = tokens.arrays;
  set.find_longest();
  set.mapped_bytes_ =
      static_cast<int64_t>(tokens.arrays.narrow_ids.size_bytes() + tokens.arrays.wide_ids.size_bytes() +
                           tokens.arrays.types.size_bytes() + tokens.arrays.offsets.size_bytes());
  set.max_id_ = tokens.max_id;
  set.truncation_ = truncation;
  return set;
}

TokenSet TokenSet::with_rows(std::vector<int64_t> offsets) const {
  const auto total = static_cast<int64_t>(arrays_.narrow_ids.size() + arrays_.wide_ids.size());
  PLIMSOLL_CHECK(!offsets.empty() && offsets.front() >= 0 && offsets.back() <= total,
                 "the rows of a token set must be within its {} tokens, but their offsets are not", total);
  TokenSet set = *this;
  set.mapped_bytes_ -=
      offsets_ == nullptr && mapped_bytes_ > 0 ? static_cast<int64_t>(arrays_.offsets.size_bytes()) : 0;
  set.set_rows(std::move(offsets));
  return set;
}

TokenSet TokenSet::copied() const {
  const auto begin = static_cast<size_t>(arrays_.offsets.front());
  const auto count = static_cast<size_t>(num_tokens());
  const auto part_of = [&](const auto& values) {
    const auto part = values.empty() ? values : values.subspan(begin, count);
    return std::vector(part.begin(), part.end());
  };
  std::vector<int64_t> offsets(arrays_.offsets.begin(), arrays_.offsets.end());
  for (int64_t& offset : offsets) offset -= arrays_.offsets.front();
  TokenSet set = from_parts(part_of(arrays_.narrow_ids), part_of(arrays_.wide_ids), part_of(arrays_.types),
                            std::move(offsets), truncation_);
  set.type_use_ = type_use_;
  return set;
}

void TokenSet::set_type_use(TypeUse use) {
  PLIMSOLL_CHECK(has_types() || num_tokens() == 0 || use == TypeUse::kSegments);
  type_use_ = use;
}

void TokenJoiner::add(const TokenSet& part) {
  if (!part.is_narrow() && !is_wide_) {
    is_wide_ = true;
    wide_ids_.assign(narrow_ids_.begin(), narrow_ids_.end());
    narrow_ids_ = {};
  }
  if (!is_wide_) {
    narrow_ids_.insert(narrow_ids_.end(), part.narrow_ids().begin(), part.narrow_ids().end());
  } else {
    wide_ids_.insert(wide_ids_.end(), part.narrow_ids().begin(), part.narrow_ids().end());
    wide_ids_.insert(wide_ids_.end(), part.wide_ids().begin(), part.wide_ids().end());
  }
  if (part.has_types()) types_.resize(static_cast<size_t>(offsets_.back()), 0);
  types_.insert(types_.end(), part.types().begin(), part.types().end());
  const int64_t begin = offsets_.back();
  for (const int64_t offset : part.offsets().subspan(1)) offsets_.push_back(begin + offset);
  if (!types_.empty()) types_.resize(static_cast<size_t>(offsets_.back()), 0);
  truncation_.rows += part.truncation().rows;
  truncation_.tokens += part.truncation().tokens;
  type_use_ = part.type_use();
}

TokenSet TokenJoiner::finish() && {
  narrow_ids_.shrink_to_fit();
  wide_ids_.shrink_to_fit();
  types_.shrink_to_fit();
  offsets_.shrink_to_fit();
  TokenSet set = TokenSet::from_parts(std::move(narrow_ids_), std::move(wide_ids_), std::move(types_),
                                      std::move(offsets_), truncation_);
  set.set_type_use(type_use_);
  return set;
}

int64_t TokenJoiner::held_bytes() const {
  return static_cast<int64_t>(narrow_ids_.capacity() * sizeof(uint16_t) +
                              wide_ids_.capacity() * sizeof(int32_t) + types_.capacity() +
                              offsets_.capacity() * sizeof(int64_t));
}

bool TokenSet::operator==(const TokenSet& other) const {
  return std::ranges::equal(arrays_.narrow_ids, other.arrays_.narrow_ids) &&
         std::ranges::equal(arrays_.wide_ids, other.arrays_.wide_ids) &&
         std::ranges::equal(arrays_.types, other.arrays_.types) &&
         std::ranges::equal(arrays_.offsets, other.arrays_.offsets) && truncation_ == other.truncation_ &&
         type_use_ == other.type_use_;
}

TokenSet TokenSet::of_length(int64_t num_rows, int64_t length, int64_t id_bytes) {
  std::vector<int64_t> offsets(static_cast<size_t>(num_rows) + 1);
  for (int64_t row = 0; row <= num_rows; ++row) offsets[static_cast<size_t>(row)] = row * length;
  TokenSet set;
  set.set_rows(std::move(offsets));
  set.ids_bytes_ = set.num_tokens() * id_bytes;
  return set;
}

std::vector<int32_t> TokenSet::lengths() const {
  std::vector<int32_t> lengths(static_cast<size_t>(num_rows()));
  for (int64_t row = 0; row < num_rows(); ++row) {
    lengths[static_cast<size_t>(row)] = narrow<int32_t>(length(row));
  }
  return lengths;
}

void TokenSet::copy_ids(int64_t row, int32_t* out) const {
  const auto begin = static_cast<size_t>(arrays_.offsets[static_cast<size_t>(row)]);
  const auto count = static_cast<size_t>(length(row));
  if (is_narrow()) {
    std::ranges::copy(arrays_.narrow_ids.subspan(begin, count), out);
  } else {
    std::ranges::copy(arrays_.wide_ids.subspan(begin, count), out);
  }
}

void TokenSet::copy_types(int64_t row, int32_t* out) const {
  const auto begin = static_cast<size_t>(arrays_.offsets[static_cast<size_t>(row)]);
  const auto count = static_cast<size_t>(length(row));
  if (has_types()) {
    std::ranges::copy(arrays_.types.subspan(begin, count), out);
  } else {
    std::fill_n(out, count, 0);
  }
}

std::vector<int32_t> Dataset::row_lengths() const {
  if (packed.empty()) return tokens.lengths();
  std::vector<int32_t> lengths(static_cast<size_t>(num_rows()), 0);
  for (int64_t row = 0; row < num_rows(); ++row) {
    for (const int32_t sequence : packed.of(row))
      lengths[static_cast<size_t>(row)] += narrow<int32_t>(tokens.length(sequence));
  }
  return lengths;
}

std::vector<int32_t> Dataset::row_sequences() const {
  std::vector<int32_t> counts(packed.empty() ? 0 : static_cast<size_t>(num_rows()));
  for (size_t row = 0; row < counts.size(); ++row)
    counts[row] = narrow<int32_t>(packed.of(static_cast<int64_t>(row)).size());
  return counts;
}

int64_t Dataset::held_bytes() const {
  int64_t text_bytes = static_cast<int64_t>(texts.capacity() * sizeof(std::vector<std::string>));
  for (const std::vector<std::string>& row : texts) {
    for (const std::string& text : row)
      text_bytes += static_cast<int64_t>(sizeof(std::string) + text.capacity());
  }
  return text_bytes + tokens.held_bytes() +
         static_cast<int64_t>(packed.offsets.capacity() * sizeof(int64_t) +
                              packed.sequences.capacity() * sizeof(int32_t)) +
         static_cast<int64_t>(
             (labels.classes.capacity() + labels.first_targets.capacity() + word_starts.capacity()) *
                 sizeof(int32_t) +
             labels.values.capacity() * sizeof(float));
}

int64_t Dataset::num_labels(std::span<const int32_t> rows, int64_t epoch) const {
  int64_t count = 0;
  if (labels.is_next_token && tokens.type_use() == TypeUse::kTrained) {
    each_sequence(rows, [&](int32_t sequence) {
      const auto begin = static_cast<size_t>(tokens.offsets()[static_cast<size_t>(sequence)]);
      const auto types = tokens.types().subspan(begin, static_cast<size_t>(tokens.length(sequence)));
      if (!types.empty()) count += std::ranges::count(types.subspan(1), 1);
    });
    return count;
  }
  if (labels.is_next_token) {
    each_sequence(rows, [&](int32_t sequence) {
      count += std::max<int64_t>(0, tokens.length(sequence) - labels.first_target(sequence));
    });
    return count;
  }
  if (labels.masking) {
    each_sequence(rows, [&](int32_t sequence) {
      const auto id_at = [&](size_t i) { return tokens.id(sequence, static_cast<int64_t>(i)); };
      for_each_hidden(*labels.masking, {epoch, sequence}, static_cast<size_t>(tokens.length(sequence)), id_at,
                      [&](size_t) { ++count; });
    });
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
