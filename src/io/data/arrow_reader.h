// Reads Parquet files, Arrow files and streams, folders of Hugging Face's datasets (save_to_disk), and data sets in several Parquet
// files, as the hub has them (data/train-00000-of-00002.parquet), as typed tables, part by part, so
// that they need not fit into memory. It needs the libraries Arrow and Parquet of Apache Arrow, which are optional when Plimsoll is
// built; without them every function that reads throws kUsage with the way to convert the file. Thread-safe: functions of the file.
//
// Cells are those that a JSONL file with the same rows has: texts, integers, floats, booleans, nulls, and lists and structs as minified
// JSON. Dates, times and decimals are their texts. A value of any other type (binary, for example) can only be left unread. The line of
// a row is its number.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "io/data/data_table.h"

namespace plimsoll {

// Returns true if the libraries were found when Plimsoll was built.
bool has_arrow();

// Returns true for a file with the extension .parquet, .arrow or .feather, for a pattern of such Parquet files (train-*.parquet), for a
// folder that datasets' save_to_disk() wrote, and for a folder that has Parquet files, or whose folder `data` has.
bool is_arrow_data(const std::filesystem::path& path);

struct ArrowOptions {
  std::vector<std::string> columns = {};  // names of the columns to read, as far as they exist; empty: all
  int64_t part_bytes =
      int64_t{32} << 20;      // size of the cells at which a part ends; it has at least one batch of rows
  int64_t max_rows = -1;      // read only this number of rows, from the first on; -1: all
  uint64_t content_hash = 0;  // content hash of the tables; read_arrow_table() computes the hash itself
};

// Passes on the rows in one or more parts. Memory: a part, and the pages of a row group that are decoded. Errors: kBadData for data that is
// damaged or cut short, without rows, or with two columns of one name, for a file that cannot be opened, and for several files of which one is missing or has other columns; kUsage for a folder with several splits (the message names
// them), and if Plimsoll was built without Arrow.
void read_arrow(const std::filesystem::path& path, const ArrowOptions& options,
                const std::function<void(Table table)>& visit);

// Returns all rows, or the first ones, in one table. Errors: as read_arrow().
Table read_arrow_table(const std::filesystem::path& path, const ArrowOptions& options = {});

}  // namespace plimsoll
