// Reads a data file into a Table by its extension. Thread-safe: a pure function of the file.
#pragma once

#include <filesystem>

#include "io/data/table.h"

namespace plimsoll {

// .csv: CSV. .tsv and .tab: tab-separated with CSV's quotes (csv_reader.h says why). .jsonl and .ndjson:
// JSONL. .json: an array of objects, {"data": [...]}, or JSONL, as Hugging Face's "json" loader takes all
// three. Errors: kUsage for another extension; kBadData as the readers.
Table read_table(const std::filesystem::path& path);

}  // namespace plimsoll
