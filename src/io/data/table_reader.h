// Reads a data file into a Table, in the format that its extension implies. Thread-safe: a pure function of
// the file.
#pragma once

#include <filesystem>

#include "io/data/csv_reader.h"
#include "io/data/data_table.h"

namespace plimsoll {

struct TableOptions {
  QuoteRule quotes = QuoteRule::kRfc4180;  // of CSV and TSV
  int64_t max_bytes = 0;                   // of a text that is decompressed; 0: no limit
};

// Reads a file: .csv is CSV; .tsv and .tab are tab-separated with CSV's quotes (csv_reader.h explains why);
// .jsonl and .ndjson are JSONL; .json is an array of objects, {"data": [...]}, or JSONL, since Hugging Face's
// "json" loader accepts all three; .conll, .conllu and .txt have one word per line (conll_reader.h). Errors: kUsage for another extension; kBadData as the readers.
// .gz or .zst may follow the extension.
Table read_table(const std::filesystem::path& path, const TableOptions& options = {});

// Returns true if read_table() knows the extension of a path.
bool is_data_file(const std::filesystem::path& path);

// Returns an upper estimate of the memory that was used to read the file of this table. CSV cells are moved
// together in place, and their positions are stored in vectors that double as they grow. JSON is copied out
// of its text into a text that doubles as well.
int64_t peak_reading_bytes(const Table& table);

}  // namespace plimsoll
