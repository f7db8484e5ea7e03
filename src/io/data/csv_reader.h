// Reads CSV (RFC 4180) and tab-separated text into a Table. Thread-safe: pure functions.
//
// Quoting. With QuoteRule::kRfc4180, the rule for .csv and for generic .tsv (what pandas, and so Hugging
// Face's "csv" loader with delimiter="\t", does): a field that begins with a quote ends at the next single
// quote, may hold delimiters and line ends, and writes a quote as two. A quote inside a field that does not
// begin with one is an ordinary character. Unlike pandas, text after a closing quote is an error: it is
// almost always a quote that was not doubled. With QuoteRule::kNone, the rule for the files of the GLUE
// tasks, quotes are ordinary characters (their sentences hold unpaired ones) and a field ends at the next
// delimiter or line end.
//
// Lines end with LF, CRLF or a lone CR. Empty lines between rows are skipped, as pandas does.
#pragma once

#include <string>
#include <vector>

#include "io/data/data_table.h"
#include "io/data/text_file.h"

namespace plimsoll {

enum class QuoteRule { kRfc4180, kNone };
enum class HeaderRule { kFirstRow, kGiven };
// What to do with a row that has not as many fields as the header: refuse it, or (GLUE's own files) fill the
// missing ones with kNull and drop those that are too many.
enum class RaggedRule { kError, kFill };

struct CsvOptions {
  char delimiter = ',';
  QuoteRule quotes = QuoteRule::kRfc4180;
  HeaderRule header = HeaderRule::kFirstRow;
  RaggedRule ragged = RaggedRule::kError;
  std::vector<std::string> given_columns;  // with HeaderRule::kGiven
};

// Parses the text. The table reuses the file's memory: cells are compacted in place, so that the peak is the
// file's size plus the index of cells. Errors: kBadData with file:line for a ragged row, a quote that is
// never closed, text after a closing quote, two columns of one name, a column without a name, a file with a
// header only.
Table read_csv(TextFile file, const CsvOptions& options = {});

}  // namespace plimsoll
