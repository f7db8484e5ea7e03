// Reads Parquet files, Arrow files and streams, folders that Hugging Face's library `datasets` wrote with save_to_disk(), and data sets
// that consist of several Parquet files, as on Hugging Face's hub (data/train-00000-of-00002.parquet). The rows are returned as a
// sequence of typed tables, so that a file need not fit into memory. It needs the libraries Arrow and Parquet of Apache Arrow, which are
// optional when Plimsoll is built; without them every function that reads throws kUsage with a message that tells how to convert the
// file. Thread-safe: the functions only read files.
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

// Returns true for a file with the extension .parquet, .arrow or .feather, for a pattern such as train-*.parquet, for a folder that was
// written by save_to_disk() of Hugging Face's library `datasets`, and for a folder that contains Parquet files itself or in its subfolder
// `data`.
bool is_arrow_data(const std::filesystem::path& path);

struct ArrowOptions {
  // Names of the columns to read; names that the file lacks are ignored; empty: all columns.
  std::vector<std::string> columns = {};
  // The rows are returned in several tables. A table is complete when its cells contain at least this number of bytes.
  int64_t part_bytes = int64_t{32} << 20;
  int64_t max_rows = -1;  // maximum number of rows to read, beginning with the first; -1 for all
  // Content hash that the tables get; ignored by read_arrow_table(), which computes it.
  uint64_t content_hash = 0;
};

// Reads the rows in order and calls visit(table) with one table after another until all rows were passed. Memory: one of these tables,
// and the decoded pages of a row group. Errors: kBadData for data that is damaged or cut short, without rows, or with two columns of one
// name, for a file that cannot be opened, and for several files of which one is missing or has other columns; kUsage for a folder with
// several splits (the message names them), and if Plimsoll was built without Arrow.
void read_arrow(const std::filesystem::path& path, const ArrowOptions& options,
                const std::function<void(Table table)>& visit);

// Returns all rows, or the first max_rows rows, in one table. Errors: those of read_arrow().
Table read_arrow_table(const std::filesystem::path& path, const ArrowOptions& options = {});

}  // namespace plimsoll
