// Declares the readers of data files. read_table() chooses the format by the extension of the file; the other functions read one format
// each. Thread-safe: pure functions of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/data/data_table.h"
#include "io/data/text_file.h"

namespace plimsoll {

// Reads CSV (RFC 4180) and tab-separated text into a Table. Thread-safe: pure functions.
//
// Quoting. QuoteRule::kRfc4180 is the rule for .csv and for generic .tsv, as in pandas and thus in Hugging
// Face's "csv" loader with delimiter="\t". A field that begins with a quote ends at the next quote
// that is not doubled. It may contain delimiters and line ends, and two quotes in it mean one. A quote inside a field that
// does not begin with one is an ordinary character. Text after a closing quote continues the field, as in
// pandas: "Great" film is the text Great film; the table then has a warning. A quoted field that looks like
// several rows, because an unpaired quote began it, also has a warning. QuoteRule::kNone is the rule for the
// files of the GLUE tasks and for --quoting none: quotes are ordinary characters (the sentences contain
// unpaired ones), and a field ends at the next delimiter or line end.
//
// Lines end with LF, CRLF or a single CR. Empty lines between rows are skipped, as in pandas.

enum class QuoteRule { kRfc4180, kNone };
enum class HeaderRule { kFirstRow, kGiven };
// Specifies what happens to a row whose number of fields differs from that of the header: it is an error, or (for GLUE's own files)
// missing fields become kNull and excess fields are dropped.
enum class RaggedRule { kError, kFill };

struct CsvOptions {
  char delimiter = ',';
  QuoteRule quotes = QuoteRule::kRfc4180;
  HeaderRule header = HeaderRule::kFirstRow;
  RaggedRule ragged = RaggedRule::kError;
  std::vector<std::string> given_columns = {};  // the names of the columns, used with HeaderRule::kGiven
};

// Parses the text. The table reuses the memory of the file: the cells are moved to the front of it. The peak memory is therefore the size
// of the file plus the table of cell positions. Errors: kBadData with file:line for a row with the wrong number of fields, a quote that
// is not closed, two columns with the same name, and a file that contains only a header.
Table read_csv(TextFile file, const CsvOptions& options = {});

// If the fields of a header seem to be separated by another character than the delimiter, returns the name of this character, such as
// "semicolons". Otherwise returns an empty string.
std::string other_separator(std::string_view header, char delimiter);
// Returns a sentence for an error message about a file with wrong separators: which separators the file has, which it needs, and what the
// user can do.
std::string separator_advice(std::string_view header, char delimiter);
// Returns true if a column name in the header of a CSV file looks like a value: a number or a sentence.
bool is_value_like(std::string_view name);
// Returns a sentence for an error message about a file whose first row looks like data instead of a header. `value` is the field that
// looks like data.
std::string missing_header_advice(std::string_view value, int64_t num_columns);

// Reads JSON and JSONL into a Table. Thread-safe: pure functions.
//
// JSON: an array of objects, or an object whose "data" is such an array. JSONL: one object per line; empty lines are skipped. The columns
// are the keys of the first object in its order. A later object may omit keys (kNull) or have another order. A key that the first object
// does not have is not read, but recorded (Table::late_columns).
//
// Each row is parsed separately (simdjson), so the memory in addition to the table is the file and one row,
// and every error has a line. Values may be nested at most kMaxRowDepth deep.

inline constexpr int64_t kMaxRowDepth = 32;

// The following functions read a file. NaN, Infinity, numbers beyond 64 bits, half surrogate pairs and repeated keys give cells of the
// kinds kInvalid and kRepeated, which are errors only if their column is read. Errors: kBadData with file:line:column for another syntax
// error, a row that is not an object, an empty object, too deep nesting, and a file without rows. `columns`, if there are any, are those
// of the table instead of the keys of the first object.
Table read_json(const TextFile& file);
Table read_jsonl(const TextFile& file, std::vector<std::string> columns = {});

// Decides for a text that begins with '{': returns true if each line is an object (JSONL), and false if one object is the whole document.
bool looks_like_jsonl(const TextFile& file);

// An element of a JSON list.
struct JsonItem {
  CellKind kind = CellKind::kNull;
  std::string text;
};
// Parses a JSON list. Returns nothing if the text is not a JSON list. For the text of a cell of kind kList the function always succeeds.
std::optional<std::vector<JsonItem>> find_json_list(std::string_view text);

// Reads sentences with one word per line (CoNLL) into a Table. Thread-safe: pure functions.
//
// A line has a word and its tags, separated by tabs if the first line has a tab, otherwise by blanks. An empty line ends a sentence. Lines
// that begin with -DOCSTART- separate documents and are skipped. Lines that begin with '#' are comments if the file is a .conllu file, or
// if they have another number of columns than the words. They are also comments if they are at the beginning of a sentence, and their
// second column is "id" (as in "# id 17"), one of their columns is "=" (as in "# sent_id = 17") or their last column contains '='.
// Otherwise '#' is a word.
//
// The table is typed: its cells are lists, and the row of a sentence has the line of its first word. The columns have the names of the
// data sets on Hugging Face's hub: "tokens" and "tags"; "tokens", "pos_tags", "chunk_tags" (CoNLL-2000); "tokens", "pos_tags",
// "chunk_tags" and "ner_tags" (CoNLL-2003). With another number of columns, those between the first and the last are "column_2" and so
// on, and the last is "tags". A .conllu file (Universal Dependencies) has its ten columns as "tokens", "lemmas", "pos_tags" (UPOS),
// "xpos_tags" and so on; its multi-word tokens (1-2) and empty nodes (1.1) are skipped.

enum class ConllFormat { kColumns, kUniversalDependencies };

// Parses the text. Errors: kBadData with file:line for a line with another number of columns than the first
// (the message states both), an empty column, and a file without words.
Table read_conll(const TextFile& file, ConllFormat format = ConllFormat::kColumns);

// Declares the decompression of data files: gzip (.gz, zlib) and Zstandard (.zst, libzstd). Thread-safe: pure functions.

enum class Compression : uint8_t { kNone, kGzip, kZstd };

// Returns the compression that the last extension of a path implies. Upper and lower case are equivalent.
Compression compression_of(const std::filesystem::path& path);
// Returns the beginning of a command that writes the content of such a file to its output, to which the path is appended. Requires: not
// kNone.
std::string_view unpacking_command(Compression compression);
// Returns the path without the extension of the compression: "a.csv" for "a.csv.gz".
std::filesystem::path without_compression(const std::filesystem::path& path);

// A limit against decompression bombs: the decompressed text may have at most kMostExpansion times the size of the file, or kLeastLimit
// bytes if that is more. Real text hardly ever shrinks to less than 1/50 of its size, whereas gzip compresses zeros to 1/1000.
inline constexpr int64_t kMostExpansion = 200;
inline constexpr int64_t kLeastLimit = int64_t{256} << 20;

// Decompresses the bytes of a file. A file may consist of several gzip members or Zstandard frames; all of them are read, as the programs
// gzip and zstd do. Errors: kBadData for bytes that are not compressed in this way, a damaged or cut file (the message says after how
// many bytes), other bytes after the end, and a text that exceeds the limit above; kWillNotFit for more than `max_bytes`, which is
// --memory_limit (0: none). Memory: the compressed file and the text.
std::string decompress(const std::string& name, std::string_view bytes, Compression compression,
                       int64_t max_bytes);

// Replaces values in a JSON text that the parser refuses, such as NaN, by valid ones. A file with such values can then be read if they
// are only in columns that are not used. This is used by json_reader.cc only. Thread-safe: a pure function.

struct ReplacedValue {
  size_t offset = 0;  // offset of the replacement in RepairedJson::text
  // The text that was replaced: NaN, a number with too many digits, or \ud83d, for example.
  std::string original;
};

struct RepairedJson {
  std::string text;
  std::vector<ReplacedValue> replaced;  // in the order of the offsets; empty if nothing was replaced
};

// Replaces NaN, Infinity and -Infinity (as Python's json writes them) by null, numbers that 64 bits cannot hold by 0, and halves of
// surrogate pairs in strings by U+FFFD. The rest of the text is neither changed nor validated.
RepairedJson repair_json(std::string_view text);

// Reads a text file of documents into a Table. Thread-safe: a pure function.
//
// Every line is a document, as in the "text" loader of Hugging Face's library `datasets`. The table has one column, "text". Lines end
// with LF, CRLF or a single CR, which are converted to LF. An empty line is a document as well.

// Specifies if the line break is a part of the document (--keep_linebreaks).
enum class LineBreaks : uint8_t { kKeep, kDrop };

// Parses the text. The table takes over the memory of the file. The last line may lack a line break.
Table read_lines(TextFile file, LineBreaks line_breaks);

struct TableOptions {
  QuoteRule quotes = QuoteRule::kRfc4180;  // rule for the quotes in CSV and TSV files
  // Maximum size in bytes of a decompressed text; 0 for no limit.
  int64_t max_bytes = 0;
};

// Reads a file: .csv is CSV; .tsv and .tab are tab-separated with CSV's quotes; .jsonl and .ndjson are JSONL; .json is an array of
// objects, {"data": [...]}, or JSONL, since Hugging Face's "json" loader accepts all three; .conll, .conllu and .txt have one word per
// line. Errors: kUsage for another extension; kBadData in the cases of the reader of the format. .gz or .zst may follow the extension.
// Parquet and Arrow files and folders written by save_to_disk() are read with read_arrow_table().
Table read_table(const std::filesystem::path& path, const TableOptions& options = {});

// Returns the extension of a path that determines its format, in lower case and without the extension of the compression.
std::string data_extension(const std::filesystem::path& path);
// Returns true if read_table() supports the extension of the path.
bool is_data_file(const std::filesystem::path& path);

// Returns an upper bound for the memory that was needed to read the file of this table. The cells of CSV files are moved within the
// memory of the file; their positions are stored in vectors that double as they grow. The cells of JSON files are copied into a buffer
// that also doubles as it grows.
int64_t peak_reading_bytes(const Table& table);

}  // namespace plimsoll
