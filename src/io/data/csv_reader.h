// Reads CSV (RFC 4180) and tab-separated text into a Table. Thread-safe: pure functions.
//
// Quoting. QuoteRule::kRfc4180 is the rule for .csv and for generic .tsv, as in pandas and thus in Hugging
// Face's "csv" loader with delimiter="\t". A field that begins with a quote ends at the next single quote,
// may contain delimiters and line ends, and represents a quote as two quotes. A quote inside a field that
// does not begin with one is an ordinary character. Text after a closing quote continues the field, as in
// pandas: "Great" film is the text Great film; the table then has a warning. A quoted field that looks like
// several rows, because an unpaired quote began it, also has a warning. QuoteRule::kNone is the rule for the
// files of the GLUE tasks and for --quoting none: quotes are ordinary characters (the sentences contain
// unpaired ones), and a field ends at the next delimiter or line end.
//
// Lines end with LF, CRLF or a single CR. Empty lines between rows are skipped, as in pandas.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/data/data_table.h"
#include "io/data/text_file.h"

namespace plimsoll {

enum class QuoteRule { kRfc4180, kNone };
enum class HeaderRule { kFirstRow, kGiven };
// The treatment of a row whose number of fields differs from the header: refuse it, or (for GLUE's own files)
// fill missing fields with kNull and drop excess ones.
enum class RaggedRule { kError, kFill };

struct CsvOptions {
  char delimiter = ',';
  QuoteRule quotes = QuoteRule::kRfc4180;
  HeaderRule header = HeaderRule::kFirstRow;
  RaggedRule ragged = RaggedRule::kError;
  std::vector<std::string> given_columns;  // names of the columns for HeaderRule::kGiven
};

// Parses the text. The table reuses the memory of the file and moves the cells together in place, so the peak
// is the size of the file plus the index of cells. Errors: kBadData with file:line for a row with the wrong
// number of fields, a quote that is not closed, two columns with the same name, and a file that contains only
// a header.
Table read_csv(TextFile file, const CsvOptions& options = {});

// Returns the name of the character that seems to separate the fields of a header instead of the delimiter
// ("semicolons"), or an empty string.
std::string other_separator(std::string_view header, char delimiter);
// Returns the sentence for a file with other separators: what it has, what it needs, and what to do.
std::string separator_advice(std::string_view header, char delimiter);

}  // namespace plimsoll
