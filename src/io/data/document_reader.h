// Reads the documents of a corpus, part by part, so that a text or JSONL file need not fit into memory. Thread-safe: a
// function of the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "io/data/data_columns.h"
#include "io/data/table_reader.h"
#include "io/data/text_split.h"

namespace plimsoll {

struct DocumentOptions {
  LineBreaks line_breaks = LineBreaks::kKeep;  // used for .txt
  QuoteRule quotes = QuoteRule::kRfc4180;      // used for CSV and TSV
  // The column of the documents. If absent, choose_chat_columns() and choose_document_column() select it.
  std::optional<std::string> column = {};
  bool reads_chats = false;  // true: rows may be conversations; false: their columns are read like any others
  int64_t part_bytes = int64_t{32} << 20;  // bytes of text per part; a document is never divided
  // Largest size in bytes of a file that is read at once, 0 for no limit.
  int64_t max_bytes = 0;
};

// Receives the documents of a file in order, in one or more parts. The rows of a part are texts or token ids.
using DocumentPart = std::function<void(const TextSplit& part)>;

// Reads a file and returns the columns of its documents. Each line of a .txt file (read_lines()) and each row of any other file is a
// document. .txt, .jsonl, .ndjson and the files that read_arrow() reads are read in parts; .csv, .tsv, .json and compressed files are
// read at once. Errors: as read_table(), read_arrow() and choose_document_column(), for every row; kBadData for a file without a
// document; kUsage for a folder and other formats.
ColumnChoice read_documents(const std::filesystem::path& path, const DocumentOptions& options,
                            const DocumentPart& visit);

// Returns true if a file is read in parts. Any other is read at once.
bool is_read_in_parts(const std::filesystem::path& path);

// Returns true if the extension of a path is that of a text, which may be compressed: .txt, .txt.gz.
bool is_plain_text(const std::filesystem::path& path);

}  // namespace plimsoll
