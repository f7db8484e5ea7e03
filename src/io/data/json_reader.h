// Reads JSON and JSONL into a Table. Thread-safe: pure functions.
//
// JSON: an array of objects, or an object whose "data" is one. JSONL: one object a line, empty lines skipped.
// The columns are the keys of the first object, in its order; a later object may leave keys out (kNull) or
// give them in another order; a key that the first object has not is ignored, since no column can be chosen
// by it.
//
// Each row is parsed by itself (simdjson), so that memory beside the table is the file and one row, and every
// error has a line. Values may be nested at most kMaxJsonDepth deep.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/data/data_table.h"
#include "io/data/text_file.h"

namespace plimsoll {

inline constexpr int64_t kMaxJsonDepth = 32;

// Errors (both): kBadData with file:line:column for a syntax error (NaN and Infinity are named), a row that
// is not an object, a key given twice, an empty object, nesting too deep, no rows.
Table read_json(const TextFile& file);
Table read_jsonl(const TextFile& file);

// True if a text that begins with an object is one object a line, false if the object is the whole document.
bool looks_like_jsonl(const TextFile& file);

// An item of a list.
struct JsonItem {
  CellKind kind = CellKind::kNull;
  std::string text;
};
// Nothing where the text is no list of JSON; a kList cell always is one.
std::optional<std::vector<JsonItem>> find_json_list(std::string_view text);

}  // namespace plimsoll
