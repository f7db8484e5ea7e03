#include "io/data/document_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "io/data/arrow_reader.h"
#include "io/data/text_file.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

bool is_jsonl(const fs::path& path) {
  const std::string extension = data_extension(path);
  return extension == ".jsonl" || extension == ".ndjson";
}

ColumnChoice choose_columns_of_documents(const Table& table, const DocumentOptions& options) {
  std::optional<ColumnChoice> chat =
      options.reads_chats ? choose_chat_columns(table, options.column) : std::nullopt;
  if (!chat) return choose_document_column(table, options.column);
  if (table.find_column("text") >= 0) {
    chat->note = fmt::format(
        "{}: the rows are the conversations of the column '{}'; --text_column_names text reads texts instead",
        table.file_name(), chat->first);
  }
  return *std::move(chat);
}

// Returns the names of the columns that have to be read for this choice of columns.
std::vector<std::string> columns_read(const ColumnChoice& columns) {
  if (columns.has_ids) return token_id_columns(columns);
  std::vector<std::string> names{columns.first};
  if (columns.second) names.push_back(*columns.second);
  if (columns.chat != ChatColumns::kNone) names.insert(names.end(), {"tools", "chat_template_kwargs"});
  return names;
}

// Collects the bytes of a text file, cuts them at line ends into parts of a given size and reads each part as a table.
class LineParts {
 public:
  LineParts(std::string name, bool is_jsonl, const DocumentOptions& options, const DocumentPart& visit)
      : name_(std::move(name)), is_jsonl_(is_jsonl), options_(options), visit_(visit) {}

  void append(std::string_view bytes) {
    text_ += bytes;
    if (std::ssize(text_) < options_.part_bytes) return;
    // The part ends at the last line break. The bytes after it belong to the next part.
    const size_t at = text_.rfind('\n');
    if (at == std::string::npos) return;
    std::string rest = text_.substr(at + 1);
    text_.resize(at + 1);
    read_part();
    text_ = std::move(rest);
  }

  ColumnChoice finish() && {
    if (!text_.empty() || line_ == 1) read_part();
    if (!columns_)
      throw_error(ErrorCode::kBadData, "{}: the file has no documents: its lines are empty", name_);
    return std::move(*columns_);
  }

 private:
  void read_part() {
    const int64_t num_lines = std::ranges::count(text_, '\n');
    // A blank part of a JSONL file is skipped, because no row can be read from it. The content of an empty file is not skipped, so that it
    // causes the usual error of the reader.
    if (is_jsonl_ && is_blank(text_) && !text_.empty()) {
      line_ += num_lines;
      return;
    }
    const auto text_bytes = std::ssize(text_);
    TextFile part = text_file_from_memory(name_, std::move(text_), line_);
    text_.clear();
    line_ += num_lines;
    Table table =
        is_jsonl_ ? read_jsonl(part, known_columns_) : read_lines(std::move(part), options_.line_breaks);
    part = {};
    table.set_text_bytes(text_bytes);
    if (!columns_) {
      columns_ = choose_columns_of_documents(table, options_);
      known_columns_ = columns_read(*columns_);
      // Rows of token ids have the same columns in the whole file, so a column that the first row lacks must not be added to later parts.
      if (columns_->has_ids)
        std::erase_if(known_columns_, [&](const std::string& name) { return table.find_column(name) < 0; });
    }
    visit_(TextSplit(std::move(table), *columns_));
  }

  const std::string name_;
  const bool is_jsonl_;
  const DocumentOptions& options_;
  const DocumentPart& visit_;
  std::string text_;
  int64_t line_ = 1;  // the number of the line at which text_ begins
  std::optional<ColumnChoice> columns_;
  // The columns that were selected in the first part of the file; empty before that. They are passed to the reader of each later part,
  // because a column may be missing in the first row of that part.
  std::vector<std::string> known_columns_;
};

ColumnChoice read_by_lines(const fs::path& path, bool is_jsonl, const DocumentOptions& options,
                           const DocumentPart& visit) {
  LineParts parts(path.string(), is_jsonl, options, visit);
  if (compression_of(path) != Compression::kNone) {
    parts.append(read_data_file(path, options.max_bytes).bytes);
    return std::move(parts).finish();
  }
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    throw_error(ErrorCode::kBadData, "{}: cannot open the file: {}; check its name and permissions",
                path.string(), std::strerror(errno));
  }
  std::string piece(size_t{1} << 20, '\0');
  int64_t num_read = 0;
  while (stream.read(piece.data(), std::ssize(piece)) || stream.gcount() > 0) {
    parts.append(std::string_view(piece).substr(0, static_cast<size_t>(stream.gcount())));
    num_read += stream.gcount();
  }
  if (stream.bad()) {
    throw_error(ErrorCode::kBadData, "{}: reading failed after {} bytes: {}", path.string(), num_read,
                std::strerror(errno));
  }
  return std::move(parts).finish();
}

ColumnChoice read_arrow_documents(const fs::path& path, const DocumentOptions& options,
                                  const DocumentPart& visit) {
  // The number of rows that are examined to select the columns, before the rest is read.
  constexpr int64_t kFirstRows = 64;
  ColumnChoice columns =
      choose_columns_of_documents(read_arrow_table(path, {.max_rows = kFirstRows}), options);
  read_arrow(path, {.columns = columns_read(columns), .part_bytes = options.part_bytes},
             [&](Table table) { visit(TextSplit(std::move(table), columns)); });
  return columns;
}

}  // namespace

bool is_read_in_parts(const fs::path& path) {
  if (is_arrow_data(path)) return has_arrow();
  return compression_of(path) == Compression::kNone && (is_plain_text(path) || is_jsonl(path));
}

bool is_plain_text(const fs::path& path) {
  return data_extension(path) == ".txt";
}

ColumnChoice read_documents(const fs::path& path, const DocumentOptions& options, const DocumentPart& visit) {
  if (is_arrow_data(path)) return read_arrow_documents(path, options, visit);
  std::error_code ignored;
  if ((is_plain_text(path) || is_jsonl(path)) && !fs::is_directory(path, ignored))
    return read_by_lines(path, is_jsonl(path), options, visit);
  Table table = read_table(path, {.quotes = options.quotes, .max_bytes = options.max_bytes});
  if (table.text_bytes() == 0) table.set_text_bytes(static_cast<int64_t>(fs::file_size(path, ignored)));
  ColumnChoice columns = choose_columns_of_documents(table, options);
  visit(TextSplit(std::move(table), columns));
  return columns;
}

}  // namespace plimsoll
