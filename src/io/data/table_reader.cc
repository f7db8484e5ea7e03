#include "io/data/table_reader.h"

#include <string>
#include <system_error>
#include <utility>

#include "io/data/conll_reader.h"
#include "io/data/json_reader.h"
#include "io/data/text_file.h"

namespace plimsoll {

int64_t peak_reading_bytes(const Table& table) {
  std::error_code unknown;
  const auto size = std::filesystem::file_size(table.file_name(), unknown);
  // For a pipe only the amount of data read is known; it was read into a text that doubles as it grows.
  const int64_t file_bytes = unknown ? 2 * table.held_bytes() : static_cast<int64_t>(size);
  const int64_t rows = table.num_rows();
  const int64_t cells = rows * table.num_columns();
  return (table.is_typed() ? 3 : 1) * file_bytes + 2 * (8 * (rows + cells) + cells);
}

Table read_table(const std::filesystem::path& path, QuoteRule quotes) {
  std::string extension = path.extension().string();
  for (char& letter : extension) {
    letter = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  }
  if (extension == ".csv" || extension == ".tsv" || extension == ".tab") {
    CsvOptions options;
    options.delimiter = extension == ".csv" ? ',' : '\t';
    options.quotes = quotes;
    return read_csv(read_data_file(path), options);
  }
  if (extension == ".jsonl" || extension == ".ndjson") {
    return read_jsonl(read_data_file(path));
  }
  if (extension == ".json") {
    const TextFile file = read_data_file(path);
    return looks_like_jsonl(file) ? read_jsonl(file) : read_json(file);
  }
  if (extension == ".conll" || extension == ".txt") {
    return read_conll(read_data_file(path));
  }
  if (extension == ".conllu") {
    return read_conll(read_data_file(path), ConllFormat::kUniversalDependencies);
  }
  std::error_code ignored;
  throw_error(ErrorCode::kUsage, "{}: data files must be .csv, .tsv, .json, .jsonl or .conll; this {}",
              path.string(),
              std::filesystem::is_directory(path, ignored) ? "is a folder; give a file in it"
              : extension.empty() ? "one has no extension; rename it according to its format"
                                  : fmt::format("one is '{}'; convert it", extension));
}

}  // namespace plimsoll
