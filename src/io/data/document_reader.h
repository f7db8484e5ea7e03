// Reads the documents of a corpus, part by part, so that a text or JSONL file need not fit into memory. Thread-safe: the functions only
// read files.
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
  LineBreaks line_breaks = LineBreaks::kKeep;  // kKeep: a document in a .txt file contains its line break
  QuoteRule quotes = QuoteRule::kRfc4180;      // rule for the quotes in CSV and TSV files
  // The column of the documents. If absent, choose_chat_columns() and choose_document_column() select it.
  std::optional<std::string> column = {};
  // True if rows may be conversations; false if columns with conversations are treated like all other columns.
  bool reads_chats = false;
  // The number of bytes of text that are read as one part of a file. A document is never divided.
  int64_t part_bytes = int64_t{32} << 20;
  // The maximum size in bytes of a file that cannot be read in parts; 0 for no limit.
  int64_t max_bytes = 0;
};

// A function that receives the documents of a file, in order, in one or more parts. The rows of a part are texts or lists of token ids.
using DocumentPart = std::function<void(const TextSplit& part)>;

// Reads a file and returns the columns of its documents. Each line of a .txt file (read_lines()) and each row of any other file is a
// document. .txt, .jsonl, .ndjson and the files that read_arrow() reads are read in parts; .csv, .tsv, .json and compressed files are
// read into memory as a whole. Errors: those of read_table(), read_arrow() and choose_document_column(); kBadData for a file without a
// document; kUsage for a folder and other formats.
ColumnChoice read_documents(const std::filesystem::path& path, const DocumentOptions& options,
                            const DocumentPart& visit);

// Returns true if the file is read in parts, and false if it is read into memory as a whole.
bool is_read_in_parts(const std::filesystem::path& path);

// Returns true if the path has the extension of a text file, which may be compressed: .txt, .txt.gz.
bool is_plain_text(const std::filesystem::path& path);

}  // namespace plimsoll
