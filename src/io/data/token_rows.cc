#include "io/data/token_set.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/problem_type.h"
#include "base/units.h"
#include "io/data/text_file.h"

namespace plimsoll {
namespace {

// Returns the length of the first entry of a list, given as the JSON text from this entry to the last one. The entry may contain commas,
// because it may itself be a list, an object or a text.
size_t entry_length(std::string_view rest) {
  int depth = 0;
  bool in_text = false;
  for (size_t i = 0; i < rest.size(); ++i) {
    const char c = rest[i];
    if (in_text && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_text = !in_text;
    } else if (!in_text && (c == '[' || c == '{')) {
      ++depth;
    } else if (!in_text && (c == ']' || c == '}')) {
      --depth;
    } else if (!in_text && depth == 0 && c == ',') {
      return i;
    }
  }
  return rest.size();
}

class TokenRowReader {
 public:
  TokenRowReader(const Table& table, const TokenColumns& columns) : table_(table), columns_(columns) {}

  TokenRows read() && {
    if (columns_.labels >= 0) result_.type_use = TypeUse::kTrained;
    result_.states_types = columns_.types >= 0;
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

  // Reads a cell that is a list of integers, each of which is between 0 and `largest` or equal to `other`. The text of the cell is
  // minified JSON.
  void read_list(int64_t column, int64_t largest, std::vector<int64_t>& values, int64_t other = 0) const {
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
      const bool is_number = error == std::errc() && end == item.data() + item.size();
      if (!is_number || ((value < 0 || value > largest) && value != other)) {
        fail("entry {} of column '{}' is {}, but an integer from 0 to {}{} is expected", values.size() + 1,
             name(column), excerpt(rest.substr(0, entry_length(rest))), largest,
             other == 0 ? "" : fmt::format(", or {},", other));
      }
      values.push_back(value);
      rest.remove_prefix(std::min(item.size() + 1, rest.size()));
    }
  }

  void require_length(int64_t column, size_t size) const {
    if (size == ids_.size()) return;
    fail("the row has {} in '{}', but {} in '{}'", counted(ids_.size(), "id"), name(columns_.ids),
         counted(size, "value"), name(column));
  }

  // Returns 1 if the label of token i is its own id, which means that the token is trained, and 0 if it has no label. Any other label is
  // an error.
  uint8_t trained(size_t i) const {
    if (columns_.types >= 0 && types_[i] != 0) {
      fail(
          "entry {} of column '{}' is {}, but the tokens of a language model with labels have the type 0; "
          "remove the column",
          i + 1, name(columns_.types), types_[i]);
    }
    if (labels_[i] == kNoLabel) return 0;
    if (labels_[i] == ids_[i]) return 1;
    fail(
        "entry {} of column '{}' is {}, but the id in '{}' is {}: a label is the id of its token, or {} for "
        "a token that is not "
        "trained",
        i + 1, name(columns_.labels), labels_[i], name(columns_.ids), ids_[i], kNoLabel);
  }

  // Checks that padding is only at the ends of the row: Plimsoll removes it, but cannot hide a token between others.
  void require_padding_at_ends() const {
    const auto first = std::ranges::find(mask_, 1);
    const auto last = std::find(mask_.rbegin(), mask_.rend(), 1).base();
    const auto hole = first < last ? std::find(first, last, 0) : last;
    if (hole == last) return;
    fail(
        "entry {} of column '{}' is 0 between tokens with 1, but Plimsoll leaves out padding only at the two "
        "ends of a row; write 1, or remove the token from all lists of the row",
        hole - mask_.begin() + 1, name(columns_.mask));
  }

  // Checks that the positions of the tokens, without padding, follow one by one, and begin at the same number in every row.
  void check_positions() {
    const std::string& column = name(columns_.positions);
    std::optional<int64_t> expected = result_.first_position;
    const bool is_first = !expected.has_value();
    for (size_t i = 0; i < positions_.size(); ++i) {
      if (columns_.mask >= 0 && mask_[i] == 0) continue;
      if (!expected) expected = result_.first_position = positions_[i];
      if (positions_[i] != *expected) {
        fail(
            "entry {} of column '{}' is {}, but {} is expected{}: Plimsoll counts the tokens of a row one by "
            "one, without padding; remove the column to use these positions",
            i + 1, column, positions_[i], *expected,
            !is_first && *expected == *result_.first_position ? ", as in the first row" : "");
      }
      ++*expected;
    }
  }

  void read_row() {
    read_list(columns_.ids, std::numeric_limits<int32_t>::max(), ids_);
    if (columns_.types >= 0) {
      read_list(columns_.types, std::numeric_limits<uint8_t>::max(), types_);
      require_length(columns_.types, types_.size());
    }
    if (columns_.mask >= 0) {
      read_list(columns_.mask, 1, mask_);
      require_length(columns_.mask, mask_.size());
      require_padding_at_ends();
      const bool is_padded = !mask_.empty() && mask_.front() == 0;
      if (is_padded && result_.first_left_padded < 0) result_.first_left_padded = row_;
    }
    if (columns_.positions >= 0) {
      read_list(columns_.positions, std::numeric_limits<int32_t>::max(), positions_);
      require_length(columns_.positions, positions_.size());
      check_positions();
    }
    if (columns_.labels >= 0) {
      read_list(columns_.labels, std::numeric_limits<int32_t>::max(), labels_, kNoLabel);
      require_length(columns_.labels, labels_.size());
    }
    for (size_t i = 0; i < ids_.size(); ++i) {
      if (columns_.mask >= 0 && mask_[i] == 0) continue;
      result_.ids.push_back(static_cast<int32_t>(ids_[i]));
      if (columns_.labels >= 0) {
        result_.types.push_back(trained(i));
      } else if (columns_.types >= 0) {
        result_.types.push_back(static_cast<uint8_t>(types_[i]));
      }
    }
    const auto end = static_cast<int64_t>(result_.ids.size());
    if (end == result_.offsets.back()) fail("the row has no tokens in '{}'; remove it", name(columns_.ids));
    result_.offsets.push_back(end);
  }

  const Table& table_;
  const TokenColumns columns_;
  int64_t row_ = 0;
  std::vector<int64_t> ids_;  // the token ids of the current row; the lists below belong to the same row
  std::vector<int64_t> types_;
  std::vector<int64_t> mask_;
  std::vector<int64_t> positions_;
  std::vector<int64_t> labels_;
  TokenRows result_;
};

}  // namespace

int64_t TokenRows::held_bytes() const {
  return static_cast<int64_t>(ids.capacity() * sizeof(int32_t) + types.capacity() +
                              offsets.capacity() * sizeof(int64_t));
}

TokenRows read_token_rows(const Table& table, const TokenColumns& columns) {
  return TokenRowReader(table, columns).read();
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
  const bool marks_trained = rows.type_use == TypeUse::kTrained;
  if (!marks_trained && std::ranges::all_of(types, [](uint8_t type) { return type == 0; })) types.clear();
  const auto with_use = [&](TokenSet set) {
    set.set_type_use(rows.type_use);
    return set;
  };
  const bool is_wide = std::ranges::any_of(ids, [](int32_t id) { return id > 0xFFFF; });
  if (is_wide)
    return with_use(
        TokenSet::from_parts({}, std::move(ids), std::move(types), std::move(offsets), truncation));
  return with_use(
      TokenSet::from_parts({ids.begin(), ids.end()}, {}, std::move(types), std::move(offsets), truncation));
}

}  // namespace plimsoll
