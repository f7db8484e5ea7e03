// Reads JSON and JSONL into a Table. Thread-safe: pure functions.
//
// JSON: an array of objects, or an object whose "data" is such an array. JSONL: one object per line; empty
// lines are skipped. The columns are the keys of the first object in its order. A later object may omit keys
// (kNull) or have another order. A key that the first object does not have is ignored, because no column can
// be selected by it.
//
// Each row is parsed separately (simdjson), so the memory in addition to the table is the file and one row,
// and every error has a line. Values may be nested at most kMaxJsonDepth deep.
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

// Read a file. NaN, Infinity, numbers beyond 64 bits, half surrogate pairs and repeated keys give cells of the
// kinds kInvalid and kRepeated, which are errors only if their column is read. Errors: kBadData with
// file:line:column for another syntax error, a row that is not an object, an empty object, too deep nesting,
// and a file without rows.
Table read_json(const TextFile& file);
Table read_jsonl(const TextFile& file);

// Returns true if a text that begins with an object has one object per line, and false if the object is the
// whole document.
bool looks_like_jsonl(const TextFile& file);

// An item of a list.
struct JsonItem {
  CellKind kind = CellKind::kNull;
  std::string text;
};
// Parses a JSON list. Returns nothing if the text is not a JSON list. The text of a kList cell always is one.
std::optional<std::vector<JsonItem>> find_json_list(std::string_view text);

}  // namespace plimsoll
