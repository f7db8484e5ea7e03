// Reads a data file into a Table by its extension. Thread-safe: a pure function of the file.
#pragma once

#include <filesystem>

#include "io/data/data_table.h"

namespace plimsoll {

// .csv: CSV. .tsv and .tab: tab-separated with CSV's quotes (csv_reader.h says why). .jsonl and .ndjson:
// JSONL. .json: an array of objects, {"data": [...]}, or JSONL, as Hugging Face's "json" loader takes all
// three. Errors: kUsage for another extension; kBadData as the readers.
Table read_table(const std::filesystem::path& path);

// The most that reading its file into this table held at once, an estimate from above: CSV is compacted where
// it was read and its places are listed in vectors that double as they grow; JSON is copied out of its text,
// into a text that doubles as well.
int64_t peak_reading_bytes(const Table& table);

}  // namespace plimsoll
