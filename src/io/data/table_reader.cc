#include "io/data/table_reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/disguised_file.h"
#include "io/data/arrow_reader.h"
#include "io/data/text_file.h"

namespace plimsoll {

int64_t peak_reading_bytes(const Table& table) {
  std::error_code unknown;
  const auto size = std::filesystem::file_size(table.file_name(), unknown);
  // A pipe has no file size, so the size is estimated from the bytes of the table. It is doubled, because the buffer into which a pipe is
  // read doubles when it is full, and half of it may be unused.
  int64_t file_bytes = unknown ? 2 * table.held_bytes() : static_cast<int64_t>(size);
  // The decompressed text is in memory together with the compressed file. Its buffer doubles when it is full, so it may be twice as large
  // as the text.
  if (table.text_bytes() > 0) file_bytes += 2 * table.text_bytes();
  const int64_t rows = table.num_rows();
  const int64_t cells = rows * table.num_columns();
  return (table.is_typed() ? 3 : 1) * file_bytes + 2 * (8 * (rows + cells) + cells);
}

namespace {

Table read_text(const std::string& extension, const TextFile& file) {
  if (extension == ".jsonl" || extension == ".ndjson") return read_jsonl(file);
  if (extension == ".json") return looks_like_jsonl(file) ? read_jsonl(file) : read_json(file);
  return read_conll(file,
                    extension == ".conllu" ? ConllFormat::kUniversalDependencies : ConllFormat::kColumns);
}

constexpr std::string_view kExtensions[] = {".csv",    ".tsv",   ".tab",    ".json", ".jsonl",
                                            ".ndjson", ".conll", ".conllu", ".txt"};

std::string lower_extension(const std::filesystem::path& path) {
  std::string extension = path.extension().string();
  for (char& letter : extension) {
    letter = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  }
  return extension;
}

// Returns the command that unpacks a file with this extension, or an empty string if it is not that of a packed file.
std::string_view unpacking_of(std::string_view extension) {
  if (extension == ".bz2") return "bunzip2";
  if (extension == ".xz" || extension == ".lzma") return "unxz";
  if (extension == ".zip") return "unzip";
  if (extension == ".gzip") return "gunzip -S .gzip";
  if (extension == ".7z") return "7z x";
  if (extension == ".tar" || extension == ".tgz") return "tar -xf";
  return {};
}

// Refuses a Git LFS pointer under the name of a file that is not read as text, so that the message does not ask to convert it.
void refuse_lfs_pointer(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return;
  std::string start(kDisguiseBytes, '\0');
  std::ifstream stream(path, std::ios::binary);
  stream.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<size_t>(stream.gcount()));
  if (is_lfs_pointer(start)) refuse_disguised_text(start, path.string());
}

}  // namespace

std::string data_extension(const std::filesystem::path& path) {
  return lower_extension(without_compression(path));
}

bool is_data_file(const std::filesystem::path& path) {
  return is_arrow_data(path) || std::ranges::find(kExtensions, data_extension(path)) != std::end(kExtensions);
}

Table read_table(const std::filesystem::path& path, const TableOptions& options) {
  if (is_arrow_data(path)) {
    refuse_lfs_pointer(path);
    return read_arrow_table(path);
  }
  const std::string extension = data_extension(path);
  if (!is_data_file(path)) {
    std::error_code ignored;
    refuse_lfs_pointer(path);
    const std::string last = lower_extension(path);
    throw_error(ErrorCode::kUsage, "{}: data files must be {}, also compressed (.gz, .zst){}; this {}",
                path.string(), fmt::join(kExtensions, ", "),
                has_arrow() ? ", or .parquet, .arrow or .feather" : "",
                std::filesystem::is_directory(path, ignored) ? "is a folder; give a file in it"
                : extension.empty() ? "file has no extension; rename it according to its format"
                : extension.starts_with(".xls") || extension == ".ods"
                    ? fmt::format("file is '{}'; save the sheet as .csv", extension)
                : !unpacking_of(last).empty()
                    ? fmt::format("file is '{}'; unpack it with `{} {}`, or convert it to .gz or .zst", last,
                                  unpacking_of(last), path.string())
                    : fmt::format("file is '{}'; convert it", extension));
  }
  TextFile file = read_data_file(path, options.max_bytes);
  const auto text_bytes = static_cast<int64_t>(file.bytes.size());
  Table table;
  if (extension == ".csv" || extension == ".tsv" || extension == ".tab") {
    CsvOptions csv;
    csv.delimiter = extension == ".csv" ? ',' : '\t';
    csv.quotes = options.quotes;
    table = read_csv(std::move(file), csv);
  } else {
    table = read_text(extension, file);
  }
  if (compression_of(path) != Compression::kNone) table.set_text_bytes(text_bytes);
  return table;
}

}  // namespace plimsoll
