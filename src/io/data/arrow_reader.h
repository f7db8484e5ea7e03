// Reads Parquet files, Arrow files and streams, folders of Hugging Face's datasets (save_to_disk), and data sets in several Parquet
// files, as the hub has them (data/train-00000-of-00002.parquet), as typed tables, part by part, so that they need not fit into memory.
// It needs the libraries Arrow and Parquet of Apache Arrow, which are optional when Plimsoll is built; without them every function that
// reads throws kUsage with the way to convert the file. Thread-safe: the functions only read files.
//
// The cells are those of a JSONL file with the same rows: texts, integers, floats, booleans, nulls, and lists and structs as minified
// JSON. Dates, times and decimals are written as text. A column of any other type (binary, for example) cannot be read and must not be
// selected. Table::line() returns the number of the row.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "io/data/data_table.h"

namespace plimsoll {

// Returns true if Plimsoll was built with Arrow and Parquet.
bool has_arrow();

// Returns true for a file with the extension .parquet, .arrow or .feather, for a pattern of such Parquet files (train-*.parquet), for a
// folder that datasets' save_to_disk() wrote, and for a folder that has Parquet files, or whose folder `data` has.
bool is_arrow_data(const std::filesystem::path& path);

struct ArrowOptions {
  // Names of the columns to read; names that the file lacks are ignored; empty: all columns.
  std::vector<std::string> columns = {};
  // A part ends when its cells have this number of bytes. It has at least one batch of rows.
  int64_t part_bytes = int64_t{32} << 20;
  int64_t max_rows = -1;      // read only this number of rows, from the first on; -1: all
  uint64_t content_hash = 0;  // content hash of the tables; read_arrow_table() computes the hash itself
};

// Calls visit(table) for the rows in one or more parts, in order. Memory: a part, and the pages of a row group that are decoded. Errors:
// kBadData for data that is damaged or cut short, without rows, or with two columns of one name, for a file that cannot be opened, and
// for several files of which one is missing or has other columns; kUsage for a folder with several splits (the message names them), and
// if Plimsoll was built without Arrow.
void read_arrow(const std::filesystem::path& path, const ArrowOptions& options,
                const std::function<void(Table table)>& visit);

// Returns all rows, or the first ones, in one table. Errors: as read_arrow().
Table read_arrow_table(const std::filesystem::path& path, const ArrowOptions& options = {});

}  // namespace plimsoll
