#include "io/data/token_set.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "io/data/text_file.h"

namespace plimsoll {
namespace {

class TokenRowReader {
 public:
  TokenRowReader(const Table& table, int64_t id_column, int64_t type_column, int64_t mask_column)
      : table_(table), id_column_(id_column), type_column_(type_column), mask_column_(mask_column) {}

  TokenRows read() && {
    for (row_ = 0; row_ < table_.num_rows(); ++row_) read_row();
    return std::move(result_);
  }

 private:
  const std::string& name(int64_t column) const { return table_.columns()[static_cast<size_t>(column)]; }

  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw_at_line(table_.file_name(), table_.line(row_), "{}",
                  fmt::format(format, std::forward<Args>(args)...));
  }

  // Reads a list of integers between 0 and `largest`. The cell is minified JSON.
  void read_list(int64_t column, int64_t largest, std::vector<int64_t>& values) const {
    values.clear();
    const CellKind kind = table_.kind(row_, column);
    if (is_unreadable(kind)) fail_unreadable(table_, row_, column);
    if (kind != CellKind::kList) {
      fail("expected a list of integers in column '{}', found {}", name(column), cell_kind_name(kind));
    }
    std::string_view rest = table_.cell(row_, column);
    rest = rest.substr(1, rest.size() - 2);
    while (!rest.empty()) {
      const std::string_view item = rest.substr(0, std::min(rest.find(','), rest.size()));
      int64_t value = 0;
      const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), value);
      if (error != std::errc() || end != item.data() + item.size() || value < 0 || value > largest) {
        fail("entry {} of column '{}' is {}, but an integer from 0 to {} is expected", values.size() + 1,
             name(column), excerpt(item), largest);
      }
      values.push_back(value);
      rest.remove_prefix(std::min(item.size() + 1, rest.size()));
    }
  }

  void require_length(int64_t column, size_t size) const {
    if (size == ids_.size()) return;
    fail("the row has {} in '{}', but {} in '{}'", counted(ids_.size(), "id"), name(id_column_),
         counted(size, "value"), name(column));
  }

  void read_row() {
    read_list(id_column_, std::numeric_limits<int32_t>::max(), ids_);
    if (type_column_ >= 0) {
      read_list(type_column_, std::numeric_limits<uint8_t>::max(), types_);
      require_length(type_column_, types_.size());
    }
    if (mask_column_ >= 0) {
      read_list(mask_column_, 1, mask_);
      require_length(mask_column_, mask_.size());
    }
    for (size_t i = 0; i < ids_.size(); ++i) {
      if (mask_column_ >= 0 && mask_[i] == 0) continue;
      result_.ids.push_back(static_cast<int32_t>(ids_[i]));
      if (type_column_ >= 0) result_.types.push_back(static_cast<uint8_t>(types_[i]));
    }
    const auto end = static_cast<int64_t>(result_.ids.size());
    if (end == result_.offsets.back()) fail("the row has no tokens in '{}'; remove it", name(id_column_));
    result_.offsets.push_back(end);
  }

  const Table& table_;
  const int64_t id_column_;
  const int64_t type_column_;
  const int64_t mask_column_;
  int64_t row_ = 0;
  std::vector<int64_t> ids_;  // the ids of this row
  std::vector<int64_t> types_;
  std::vector<int64_t> mask_;
  TokenRows result_;
};

}  // namespace

int64_t TokenRows::held_bytes() const {
  return static_cast<int64_t>(ids.capacity() * sizeof(int32_t) + types.capacity() +
                              offsets.capacity() * sizeof(int64_t));
}

TokenRows read_token_rows(const Table& table, int64_t id_column, int64_t type_column, int64_t mask_column) {
  return TokenRowReader(table, id_column, type_column, mask_column).read();
}

TokenSet take_tokens(const TokenRows& rows, const std::vector<int64_t>& wanted, int64_t max_length) {
  PLIMSOLL_CHECK(max_length >= 1);
  std::vector<int32_t> ids;
  std::vector<uint8_t> types;
  std::vector<int64_t> offsets = {0};
  TruncationCount truncation;
  for (const int64_t row : wanted) {
    const int64_t begin = rows.offsets[static_cast<size_t>(row)];
    const int64_t length = rows.offsets[static_cast<size_t>(row) + 1] - begin;
    const int64_t kept = std::min(length, max_length);
    truncation.rows += kept < length ? 1 : 0;
    truncation.tokens += length - kept;
    for (int64_t i = 0; i < kept; ++i) {
      const auto from = static_cast<size_t>(begin + (i + 1 == kept ? length - 1 : i));
      ids.push_back(rows.ids[from]);
      if (!rows.types.empty()) types.push_back(rows.types[from]);
    }
    offsets.push_back(static_cast<int64_t>(ids.size()));
  }
  if (std::ranges::all_of(types, [](uint8_t type) { return type == 0; })) types.clear();
  const bool is_wide = std::ranges::any_of(ids, [](int32_t id) { return id > 0xFFFF; });
  if (is_wide)
    return TokenSet::from_parts({}, std::move(ids), std::move(types), std::move(offsets), truncation);
  return TokenSet::from_parts({ids.begin(), ids.end()}, {}, std::move(types), std::move(offsets), truncation);
}

}  // namespace plimsoll
